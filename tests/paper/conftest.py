"""Runs the command in this process."""

import sys

import pytest

from focalcal.cli import main


@pytest.fixture
def focalcal_command(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["focalcal", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        written = capsys.readouterr()
        return left.value.code or 0, written.out, written.err

    return run
