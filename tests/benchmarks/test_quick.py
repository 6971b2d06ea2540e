"""Every benchmark still runs: at a small size, without the peers that are not installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_run(name):
    ran = run("--quick", name)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


def test_unknown_names_are_refused():
    ran = run("--quick", "weather")
    assert ran.returncode == 2
    assert "there is no benchmark 'weather'" in ran.stderr


def test_all_benchmarks_are_known():
    parts = {"__init__", "__main__", "honest_coverage", "peers", "timing"}
    assert {path.stem for path in ROOT.glob("benchmarks/*.py")} - parts == set(BENCHMARKS)
