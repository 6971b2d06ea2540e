import json
import re

import pytest

from focalcal.sweeps.result_rows import read_rows

pytestmark = pytest.mark.slow

_TINY = ["digits/mlp", "epochs=2", "data.train_size=50", "model.hidden=[8]", "--losses", "cross-entropy,fl-3"]


def _is_shown(row):
    """The ECE after scaling, in distribution."""
    return (row.metric, row.temperature_scaling, row.dataset) == ("ece", "post", "Digits")


def test_sweep_prints_a_table_and_writes_files(focalcal, tmp_path):
    done = focalcal("sweep", *_TINY, "--bootstrap", "50", "--out", tmp_path / "c")
    assert done.code == 0, done.err
    assert "Digits, MLP" in done.out
    assert "has the lowest error" in done.out
    assert "T by validation ECE, as in the paper" in done.out
    in_table = {row.method: row.temperature for row in read_rows(tmp_path / "c" / "table.csv") if _is_shown(row)}
    page = (tmp_path / "c" / "report.html").read_text(encoding="utf-8")
    numbers = json.loads(re.search(r'<script[^>]*id="numbers"[^>]*>(.*?)</script>', page, re.S)[1])
    in_report = {model["name"]: model["temperature"]["value"] for model in numbers["models"]}
    assert in_report == pytest.approx(in_table)
    again = focalcal("sweep", *_TINY, "--bootstrap", "50", "--json", "--quiet", "--out", tmp_path / "c")
    content = json.loads(again.out)
    assert list(content["table"]) == ["cross-entropy", "fl-3"]
    assert content["failed"] == []
    assert (tmp_path / "c" / "table.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digits/mlp"], "--out is missing"),
        (["digits/nothing", "--out", "x"], "There is no recipe digits/nothing"),
        (["digits/mlp", "--losses", "cross-entropy,focal", "--out", "x"], "there is no loss 'focal'"),
        (["digits/mlp", "--losses", ",", "--out", "x"], "There is no loss to train with"),
        (["digits/mlp", "loss=fl-3", "--out", "x"], "loss=fl-3 does not belong here"),
        (["digits/mlp", "epochs=0", "--out", "x"], "epochs"),
        (["digits/mlp", "--out", ""], "--out is missing"),
        (["digits/mlp", "data=own", "--out", "x"], "is for focalcal.train in Python"),
        (["digits/mlp", "hardware.accelerator=cuda", "--out", "x"], "There is no CUDA device here"),
        (["digits/mlp", "hardware.nodes=2", "--out", "x"], "start the command with torchrun"),
        (["epochs=2", "--out", "x"], "There is no recipe to train"),
        (["digits/mlp", "--grid", "epochs", "--out", "x"], "'epochs' is not a grid"),
        (["digits/mlp", "--grid", "epochs=2", "--grid", "epochs=3", "--out", "x"], "--grid epochs is given twice"),
        (["digits/mlp", "--grid", "epoch=2,3", "--out", "x"], "did you mean"),
        (["digits/mlp", "--address", "auto", "--out", "x"], "--address belongs to --on ray, and this is --on local"),
        (["digits/mlp", "--retries", "2", "--out", "x"], "--retries belongs to --on ray, and this is --on local"),
        (["digits/mlp", "--jobs", "2", "--on", "ray", "--out", "x"], "--jobs belongs to --on local or slurm"),
        (["digits/mlp", "--on", "ray", "--address", "127.0.0.1:1", "--out", "x"], "There is no Ray cluster at"),
        (["digits/mlp", "--on", "ray", "--address", "nowhere", "--out", "x"], "is not the address of a cluster"),
    ],
)
def test_bad_input_is_one_sentence(focalcal, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    done = focalcal("sweep", *arguments)
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_mixed_up(focalcal, tmp_path):
    out = tmp_path / "c"
    assert focalcal("sweep", *_TINY, "--no-report", "--quiet", "--bootstrap", "0", "--out", out).code == 0
    other = focalcal("sweep", *_TINY, "optimizer.lr=0.05", "--out", out)
    assert (other.code, "optimizer.lr=0.1 (now 0.05)" in other.err) == (2, True)
    inside = focalcal("sweep", *_TINY, "--out", out / "fl-3" / "seed-0")
    assert (inside.code, "is the folder of a single run" in inside.err) == (2, True)
    (tmp_path / "file").touch()
    onto = focalcal("sweep", *_TINY, "--out", tmp_path / "file")
    assert (onto.code, "file is a file" in onto.err, onto.err.count("\n")) == (2, True, 1)


def test_one_loss_wins_nothing(focalcal, tmp_path):
    alone = [*_TINY[:-1], "cross-entropy"]
    done = focalcal("sweep", *alone, "--no-report", "--quiet", "--bootstrap", "0", "--out", tmp_path / "c")
    assert done.code == 0
    assert "lowest" not in done.out


def test_a_failed_run_is_exit_code_1(focalcal, tmp_path):
    done = focalcal("sweep", *_TINY, "optimizer.lr=1e30", "--quiet", "--out", tmp_path / "c")
    assert done.code == 1
    assert "finite" in done.err


def test_measure_only_shows_what_is_finished_and_trains_nothing(focalcal, tmp_path):
    out, quick = tmp_path / "c", ("--no-report", "--bootstrap", "0")
    nothing = focalcal("sweep", *_TINY, *quick, "--measure-only", "--out", out)
    assert (nothing.code, "is finished" in nothing.err, out.exists()) == (2, True, False)
    assert focalcal("sweep", *_TINY, *quick, "--quiet", "--out", out).code == 0
    wider = [*_TINY[:-1], "cross-entropy,fl-3,brier"]
    found = focalcal("sweep", *wider, *quick, "--seeds", "2", "--measure-only", "--json", "--out", out)
    assert found.code == 0
    assert "2 of 6 runs are finished; the others are left out." in found.err
    assert list(json.loads(found.out)["table"]) == ["cross-entropy", "fl-3"]
    assert {folder.name for folder in out.iterdir() if folder.is_dir()} == {"cross-entropy", "fl-3"}


def test_recipes_and_a_grid_have_a_table_each(focalcal, tmp_path):
    few = [*_TINY[:-1], "cross-entropy", "--no-report", "--quiet", "--bootstrap", "0"]
    out = tmp_path / "c"
    done = focalcal("sweep", *few, "--grid", "optimizer.lr=0.05,0.1", "--json", "--out", out)
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert list(content["sweeps"]) == ["optimizer.lr=0.05", "optimizer.lr=0.1"]
    assert content["sweeps"]["optimizer.lr=0.1"]["title"] == "Digits, MLP: optimizer.lr=0.1"
    assert {folder.name for folder in out.iterdir()} == {"optimizer.lr=0.05", "optimizer.lr=0.1"}
    assert all((folder / "table.csv").is_file() for folder in out.iterdir())
    table = focalcal("paper", "table", "ece", "--results", out, "--format", "csv")
    assert (table.code, "Digits" in table.out) == (0, True)


def test_a_slurm_job_is_written_and_its_tasks_can_be_trained(focalcal, tmp_path):
    out = tmp_path / "c"
    done = focalcal("sweep", *_TINY, "--on", "slurm", "--sbatch", "time=1:00:00", "--out", out)
    assert (done.code, "2 runs, one task each" in done.out, "--measure-only" in done.err) == (0, True, True), done.err
    for index in range(2):
        assert focalcal("train", "--task", out / "tasks.jsonl", "--index", index, "--no-report", "--quiet").code == 0
    found = focalcal(
        "sweep", *_TINY, "--on", "slurm", "--no-report", "--bootstrap", "0", "--measure-only", "--out", out
    )
    assert (found.code, "cross-entropy" in found.out) == (0, True), found.err
    again = focalcal("sweep", *_TINY, "--on", "slurm", "--out", out)
    assert (again.code, "Every run of" in again.err) == (2, True)
    wrong = focalcal("train", "--task", out / "tasks.jsonl", "--index", 2)
    assert (wrong.code, "has 2 tasks" in wrong.err) == (2, True)
    both = focalcal("train", "digits/mlp", "--task", out / "tasks.jsonl", "--index", 0)
    assert (both.code, "--task and --index go together" in both.err) == (2, True)
