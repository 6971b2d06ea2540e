"""What the page on texts shows runs, on a file like the one that it shows."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from focalcal.cli import main
from focalcal.predictions import Predictions

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture
def my_csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header, *rows = blocks("csv")[0].splitlines()
    Path("my.csv").write_text("\n".join([header, *(rows * 10)]))


@pytest.mark.usefixtures("my_csv")
def test_the_python_runs(capsys):
    names = {}
    for block in blocks("python"):
        exec(block, names)
    assert "('bad', 'good') tensor([[" in capsys.readouterr().out
    assert names["data"].facts["sizes"] == {"train": 16, "val": 2, "test": 2}
    assert names["logits"].shape == (2, 2)


@pytest.mark.usefixtures("my_csv")
def test_the_command_trains_and_learns(monkeypatch):
    (command,) = blocks("sh")
    monkeypatch.setattr(sys, "argv", [*shlex.split(command), "epochs=4"])  # enough for twenty texts
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    predictions = Predictions.load("runs/mine/predictions/test.safetensors")
    assert predictions.class_names == ("bad", "good")
    assert (predictions.values.argmax(1) == predictions.labels).all()
