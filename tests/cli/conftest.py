"""Runs the command in this process, as its entry point does, and makes small files of predictions."""

import sys
from dataclasses import dataclass

import pytest

from focalcal.cli import main
from oracles.known_truth import predictions


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def focalcal(monkeypatch, capsys):
    """Run ``focalcal`` with arguments and return its exit code and what it wrote, as wide as into a file."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["focalcal", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        written = capsys.readouterr()
        return Ran(left.value.code or 0, written.out, written.err)

    return run


@pytest.fixture
def refused(focalcal):
    """Run a command that must fail with exit code 2, and return the one sentence that it says."""

    def run(*arguments):
        ran = focalcal(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("focalcal: ")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
        return ran.err

    return run


@pytest.fixture
def over_confident(tmp_path):
    """A file of predictions that are too sure of themselves."""
    path = tmp_path / "over.safetensors"
    predictions(sharpness=2.5, split="test").save(path)
    return path


@pytest.fixture
def pair(tmp_path):
    """Validation and test files of one over-confident network."""
    val, test = tmp_path / "val.npz", tmp_path / "test.npz"
    predictions(sharpness=2.5, seed=1, split="val").save(val)
    predictions(sharpness=2.5, seed=2, split="test").save(test)
    return val, test
