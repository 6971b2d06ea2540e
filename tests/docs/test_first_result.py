"""The page with a first result: its commands run, and the words that it shows are those of the program."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from focalcal.cli import main

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "first-result.md").read_text(encoding="utf-8")


@pytest.fixture
def focalcal(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(line):
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as left:
            main()
        written = capsys.readouterr()
        return left.value.code or 0, written.out + written.err

    return run


def words(text):
    """The words of a line or a table without its numbers, which differ between processors in the last digits."""
    return re.sub(r"[^a-zA-Z]+", " ", text).split()


def test_commands_run_and_show_what_the_page_shows(focalcal):
    shown = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```", PAGE, re.M)
    assert len(shown) == 4
    for command, expected in shown:
        code, printed = focalcal(command)
        expected, _, exit_code = expected.partition("$ echo $?\n")
        assert code == int(exit_code or 0), printed
        assert set(words(expected)) - set(words(printed)) == set()
