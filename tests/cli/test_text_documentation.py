"""What docs/text.md shows runs, on a file of the name that it uses."""

import re
import shlex
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "text.md"


@pytest.fixture
def my_csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```csv\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.S)[1]
    names, *rows = example.strip().splitlines()
    Path("my.csv").write_text("\n".join([names, *rows * 15]) + "\n", encoding="utf-8")


def test_the_command(focalcal, my_csv):
    command = re.search(r"focalcal (train text/gp_cnn .*)", _PAGE.read_text(encoding="utf-8"))[1]
    done = focalcal(*shlex.split(command), "epochs=2", "--no-report", "--quiet")
    assert done.code == 0, done.err
    assert "runs/mine, test set" in done.out


def test_the_python(my_csv, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(code, str(_PAGE), "exec"), {})
    assert "('bad', 'good')" in capsys.readouterr().out
