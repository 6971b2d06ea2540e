"""Runs every benchmark, or those that are named: ``python -m benchmarks losses``."""

import importlib
import sys

BENCHMARKS = ("losses", "measuring", "memory", "data", "training", "text", "report", "networks")


def run(names: list[str]) -> None:
    for name in names or BENCHMARKS:
        if name not in BENCHMARKS:
            sys.exit(f"There is no benchmark {name!r}; known are {', '.join(BENCHMARKS)}.")
        importlib.import_module(f"benchmarks.{name}").main()


run(sys.argv[1:])
