"""Runs every benchmark, or those that are named: ``python -m benchmarks losses``; ``--quick`` at a small size."""

import argparse
import importlib

BENCHMARKS = (
    "losses",
    "measuring",
    "memory",
    "data",
    "training",
    "text",
    "report",
    "networks",
    "translation",
    "calibrators",
    "coverage",
    "scale",
)
# How often intervals cover and which calibrator wins are questions of hours: only when asked for, or quickly.
SELDOM = ("calibrators", "coverage")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHMARKS)}; all without a name")
    parser.add_argument("--quick", action="store_true", help="at a small size, to see that all of them still run")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    for name in options.names or [name for name in BENCHMARKS if options.quick or name not in SELDOM]:
        importlib.import_module(f"benchmarks.{name}").main(quick=options.quick)


if __name__ == "__main__":
    main()
