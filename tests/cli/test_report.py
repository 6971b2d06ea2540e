import re
import sys
from dataclasses import dataclass

import pytest
import typer

from focalcal.cli.evaluate import evaluate
from focalcal.cli.failures import run
from focalcal.cli.options import help_text
from focalcal.cli.report import report
from oracles.known_truth import predictions

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Run ``focalcal report`` or ``focalcal evaluate`` as the command line does."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for function in (report, evaluate):
        app.command(help=help_text(function))(function)

    def run_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["focalcal", *map(str, arguments)])
        code = run(app)
        written = capsys.readouterr()
        return Ran(code, written.out, written.err)

    return run_command


@pytest.fixture
def refused(command):
    def run_command(*arguments):
        ran = command("report", *arguments)
        assert ran.code == 2
        assert ran.out == ""
        assert ran.err.count("\n") == 1
        return ran.err

    return run_command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    predictions(n=300, seed=1, sharpness=2.0, split="test").save("test.npz")
    predictions(n=300, seed=2, sharpness=2.0, split="val").save("val.npz")
    predictions(n=300, seed=1, sharpness=1.0, split="test").save("other.npz")
    return tmp_path


def test_report_of_a_file(command, folder):
    ran = command("report", "test.npz", "--val", "val.npz", "--out", "r.html", "--bootstrap", 50, "--title", "A <b>")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "focalcal: Wrote r.html.\n"
    text = (folder / "r.html").read_text(encoding="utf-8")
    assert "<h1><bdi>A &lt;b&gt;</bdi></h1>" in text
    assert "fitted on 300 validation samples" in text
    assert "focalcal report test.npz --val val.npz --out r.html --bootstrap 50 --title &#39;A &lt;b&gt;&#39;" in text


def test_report_of_several_files_with_names(command, folder):
    ran = command("report", "test.npz", "other.npz", "--name", "sharp", "--name", "calibrated", "--bootstrap", 50)
    assert ran.code == 0, ran.err
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<option value="\d+">(.*?)</option>', text) == ["sharp", "calibrated"]


def test_report_with_out_of_distribution_data(command, folder):
    ran = command("report", "test.npz", "--ood", "noise=other.npz", "--bootstrap", 0)
    assert ran.code == 0, ran.err
    assert "Out-of-distribution detection" in (folder / "report.html").read_text(encoding="utf-8")


def test_evaluate_writes_a_report_too(command, folder):
    ran = command("evaluate", "test.npz", "--bootstrap", 50, "--report", "r.html", "--max-ece", 0.0001)
    assert ran.code == 1
    assert "Over-confident" in ran.out
    assert "Wrote r.html." in ran.err
    assert "Calibration of test.npz" in (folder / "r.html").read_text(encoding="utf-8")


def test_what_is_refused(refused, folder):
    assert "There is no file nothing.npz." in refused("nothing.npz")
    assert "--ood must be NAME=FILE" in refused("test.npz", "--ood", "other.npz")
    assert "There are 1 validation predictions for 2 models" in refused("test.npz", "other.npz", "--val", "val.npz")
    assert "the same name" in refused("test.npz", "other.npz", "--name", "a", "--name", "a")
    assert "is one of the files that are read" in refused("test.npz", "--out", "test.npz")
    assert "--ood gives the name 'a' twice" in refused("test.npz", "--ood", "a=other.npz", "--ood", "a=val.npz")
    assert "A model has an empty name" in refused("test.npz", "--name", "")
    assert "number of bins must be at most 10,000" in refused("test.npz", "--bins", 1_000_000_000)
    assert "take at least 20" in refused("test.npz", "--bootstrap", 19)
    assert "the predictions that are reported on" in refused("test.npz", "--val", "test.npz")
    assert "--allow-test" not in refused("test.npz", "--val", "other.npz")
    assert "its folder does not exist" in refused("test.npz", "--out", "no/r.html")
    assert not (folder / "report.html").exists()


def test_no_file_of_a_run_is_overwritten(refused, folder):
    (folder / "run" / "predictions").mkdir(parents=True)
    target = folder / "run" / "predictions" / "test.safetensors"
    predictions(n=30, seed=1, split="test").save(target)
    (folder / "run" / "history.jsonl").write_text("{}\n")
    before = target.read_bytes()
    assert "is a file of the run run" in refused("run", "--out", target)
    assert "is a file of the run run" in refused("run", "--out", "run/history.jsonl")
    assert target.read_bytes() == before
    assert (folder / "run" / "history.jsonl").read_text() == "{}\n"
