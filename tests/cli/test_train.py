"""``focalcal train``: the installed command, its signals, its processes and its sentences."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tiny_runs import last_state, prediction_bytes, timeless, weights

RECIPE = ["digits/mlp", "data.train_size=100", "epochs=40", "model.dropout=0.2", "loss=flsd-53", "model.hidden=[32]"]
PLAIN = ["digits/mlp", "data.train_size=110", "epochs=2", "model.hidden=[16]", "batch_size=40"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(*arguments):
    return [sys.executable, "-m", "focalcal", "train", *map(str, arguments), "--no-report"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    ran = subprocess.run(command(*RECIPE, "--out", out), capture_output=True, env=ENVIRONMENT, timeout=240, text=True)
    assert ran.returncode == 0, ran.stderr
    return out, ran


def test_what_is_written_where(whole):
    out, ran = whole
    assert ran.stdout.startswith(f"{out}, test set, epoch 40: error ")
    assert "Next: focalcal evaluate" in ran.stdout
    lines = ran.stderr.splitlines()
    assert len(lines) == 40
    assert re.fullmatch(
        r"digits/mlp: epoch 3/40  loss [\d.]+, validation error [\d.]+%, NLL [\d.]+, ECE [\d.]+%  \d+:\d\d left",
        lines[2],
    )


def test_a_figure_that_is_infinite_is_called_so(whole, tmp_path):
    """JSON has no infinity: null stands there, which the summary could not write."""
    shutil.copytree(whole[0], tmp_path / "run")
    file = tmp_path / "run" / "evaluation.json"
    content = json.loads(file.read_text())
    content["splits"]["test"]["before"]["nll"] = None
    file.write_text(json.dumps(content))
    ran = subprocess.run(
        command(*RECIPE, "--out", tmp_path / "run", "--resume"),
        capture_output=True, env=ENVIRONMENT, timeout=240, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"error [\d.]+%, NLL infinite, ECE [\d.]+%; after", ran.stdout)


def interrupt(out, number, *more):
    """Ask a run to stop when it has done an epoch, and return what it said."""
    changed = {one.partition("=")[0] for one in more}
    kept = [one for one in RECIPE if one.partition("=")[0] not in changed]
    slow = [*kept, "checkpoint.every_steps=1"]  # writing so often gives the signal time to come before the end
    running = subprocess.Popen(
        command(*slow, *more, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    end = time.monotonic() + 120
    while not (out / "history.jsonl").exists() and running.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    running.send_signal(number)
    said = running.communicate(timeout=120)
    return running.returncode, *said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals.")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"])
def test_interrupted_run_resumes(whole, tmp_path, number, code):
    out = tmp_path / "a"
    returned, written, said = interrupt(out, number, "--quiet")
    assert (returned, written) == (code, "")
    assert re.fullmatch(
        r"focalcal: Interrupted at (epoch \d+, step \d+|the end of epoch \d+); the state is saved: "
        r"resume with --resume \(resume=True\)\.\n",
        said,
    )
    assert not (out / "evaluation.json").exists()
    resumed = subprocess.run(
        command("--resume", "--out", out), capture_output=True, env=ENVIRONMENT, timeout=240, text=True
    )
    assert resumed.returncode == 0, resumed.stderr
    assert len(resumed.stderr.splitlines()) < 40  # what was done is not done again
    assert prediction_bytes(out) == prediction_bytes(whole[0])
    assert timeless(out) == timeless(whole[0])


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "one"
    from focalcal.recipes import load_recipe
    from focalcal.training import train

    train(load_recipe(PLAIN[0], PLAIN[1:]), out=out, progress=False)
    return out


TWO = {
    "devices": (["focalcal", "train"], ["hardware.devices=2"]),
    "torchrun": (["torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "focalcal", "train"], []),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows launches processes otherwise.")
@pytest.mark.parametrize("way", TWO)
def test_two_processes(one_process, tmp_path, way):
    module, changes = TWO[way]
    ran = subprocess.run(
        [sys.executable, "-m", *module, *PLAIN, *changes, "--out", tmp_path / "two", "--quiet", "--no-report"],
        capture_output=True,
        env=ENVIRONMENT,
        timeout=240,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("test set, epoch 2") == 1
    assert last_state(tmp_path / "two").values["processes"] == 2
    for name, tensor in weights(one_process).items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals.")
def test_sigterm_to_the_first_of_two_processes(tmp_path):
    code, written, said = interrupt(tmp_path / "a", signal.SIGTERM, "hardware.devices=2", "epochs=80", "--quiet")
    assert (code, written) == (143, "")
    assert said.count("focalcal: Interrupted at") == 1
    assert "Traceback" not in said
    assert last_state(tmp_path / "a").values["processes"] == 2


def test_diverged(focalcal, tmp_path):
    ran = focalcal("train", *PLAIN, "optimizer.lr=1e30", "--out", tmp_path / "a", "--quiet")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(
        r"focalcal: The (loss|network's output) .*not (a )?finite.*optimizer\.lr.*untouched\.\n", ran.err
    )
    assert not (tmp_path / "a/evaluation.json").exists()


def test_json_and_resume_of_a_finished_run(focalcal, one_process):
    ran = focalcal("train", "--resume", "--out", one_process, "--json", "--no-report")
    assert ran.code == 0
    assert json.loads(ran.out)["splits"]["test"]["before"]["nll"] > 0
    assert ran.err == "digits/mlp: This run is finished; there is nothing left to do.\n"


def test_refusals(refused, one_process, tmp_path):
    assert "--out is missing" in refused("train", "digits/mlp")
    assert "A recipe is missing" in refused("train", "--out", tmp_path / "a")
    assert "holds no run to resume" in refused("train", "--resume", "--out", tmp_path / "a")
    assert "already holds a run" in refused("train", *PLAIN, "--out", one_process)
    assert "was started with loss=" in refused("train", "loss=fl-3", "--resume", "--out", one_process)
    assert "did you mean digits/mlp?" in refused("train", "digits/mpl", "--out", tmp_path / "a")
    assert "this machine has none" in refused("train", "digits/mlp", "hardware.strategy=fsdp", "--out", tmp_path / "a")
    assert "focal-lose" in refused("train", "digits/mlp", "loss=focal-lose", "--out", tmp_path / "a")
    assert not Path(tmp_path / "a").exists()


def test_a_report_is_written(focalcal, tmp_path):
    ran = focalcal("train", *PLAIN, "--out", tmp_path / "a")
    assert ran.code == 0
    assert f"The report is {tmp_path / 'a' / 'report.html'}" in ran.err
    assert "digits/mlp" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")


def test_by_date_is_short_for_the_setting_of_newsgroups(focalcal, refused, tmp_path):
    small = ["newsgroups/gp_cnn", "data.synthetic=6", "data.tokens=30", "epochs=1", "--quiet", "--no-report"]
    done = focalcal("train", *small, "--by-date", "--out", tmp_path / "a")
    assert done.code == 0, done.err
    assert "by_date: true" in (tmp_path / "a" / "config.yaml").read_text()
    assert "no key data.by_date" in refused("train", "digits/mlp", "--by-date", "--out", tmp_path / "b")
    assert "no key data.by_date" in refused("sweep", "digits/mlp", "--by-date", "--out", tmp_path / "c")
