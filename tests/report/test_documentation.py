"""What docs/report.md shows runs, on files of the names that it uses."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import typer

from focalcal.cli.evaluate import evaluate
from focalcal.cli.failures import run
from focalcal.cli.report import report
from report.conftest import make_run, world

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world(200, 4, split="test").save("test.npz")
    world(200, 4, seed=1, split="val").save("val.npz")
    for name in ("a", "b"):
        make_run(tmp_path / "runs" / name, seed=1, sharpness=2.0)
    return tmp_path


def test_commands(folder, monkeypatch):
    app = typer.Typer()
    for command in (report, evaluate):
        app.command()(command)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("focalcal")]
    assert len(lines) == 3
    for line in lines:
        monkeypatch.setattr(sys, "argv", [*shlex.split(line), "--bootstrap", "20"])
        assert run(app) == 0
        assert (folder / line.split()[-1]).is_file()
        (folder / line.split()[-1]).unlink()


def test_python(folder):
    names = {"preds": world(200, 4), "val_preds": world(200, 4, seed=1), "svhn_preds": world(90, 4, seed=2)}
    found = blocks("python")
    assert len(found) == 2
    for block in found:
        exec(compile(block, str(PAGE), "exec"), dict(names))
    assert {path.name for path in folder.glob("*.html")} == {"report.html", "comparison.html"}
    assert (folder / "reliability.pdf").is_file()


def test_pictures_are_there_and_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert len(pictures) >= 2
    for picture in pictures:
        assert 0 < (PAGE.parent / picture).stat().st_size < 250_000
