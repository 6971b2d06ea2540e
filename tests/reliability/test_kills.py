"""A dozen kills, a full disk at each write, and two resumes at once: nothing is lost, torn or left behind."""

import errno
import os
import random
import re
import signal

import pytest

from focalcal.base.files import remove_leftovers
from focalcal.predictions import Predictions
from focalcal.report import write_report
from focalcal.sweeps.result_rows import Row, write_rows
from focalcal.training.run_directory import RunDirectory
from reliability.kills import RECIPES, interfere, kill_chain, outcome, train_run
from tiny_runs import start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL."),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never interrupted, and the files that it wrote, in order."""
    folder = tmp_path_factory.mktemp("whole")
    child = start(train_run, folder / "run", "digits", 1, None, None, folder / "log")
    child.join(240)
    assert child.exitcode == 0
    return folder / "run", (folder / "log").read_text().splitlines()


def strike(out, stop, moment, log=None):
    child = start(train_run, out, "digits", 1, stop, moment, log)
    child.join(240)
    return child.exitcode


def test_each_kind_of_file_is_written_whole(whole):
    """Otherwise the tests below would not be aimed at all of them."""
    _, written = whole
    kinds = {name.split("-")[0] for name in written}
    assert kinds >= {"environment.json", "config.yaml", "history.jsonl", "epoch", "best", "evaluation.json"}
    assert {"val.safetensors", "test.safetensors"} <= kinds


def test_a_kill_at_each_kind_of_file(tmp_path, whole):
    """Aimed from the end: every resume of the finished epochs goes straight to the file that is aimed at."""
    run, _ = whole
    out, log, kills = tmp_path / "run", tmp_path / "log", []
    targets = [1, 2, 3, 4, 5]  # environment, config, and the first epoch's weights, history and checkpoint
    for stop, moment in zip(targets, ("torn", "complete", "in place", "torn", "complete"), strict=True):
        assert strike(out, stop, moment, log) == -signal.SIGKILL
        kills.append(moment)
    assert strike(out, None, None) == 0
    assert outcome(out) == outcome(run)
    (out / "evaluation.json").unlink()
    for stop, moment in ((3, "torn"), (4, "complete"), (5, "torn"), (6, "in place"), (7, "torn"), (7, "complete")):
        assert strike(out, stop, moment, log) == -signal.SIGKILL  # after environment and config: the results
        assert not RunDirectory(out).is_finished
        kills.append(moment)
    assert strike(out, 7, "in place", log) == -signal.SIGKILL  # the evaluation is written: the run is finished
    assert RunDirectory(out).is_finished
    kills.append("in place")
    assert len(kills) == 12
    names = [line.lstrip(".").split(".")[0].split("-")[0] for line in log.read_text().splitlines()]
    assert {"environment", "config", "val", "test", "evaluation"} <= set(names)
    assert strike(out, None, None) == 0
    remove_leftovers(out)
    assert outcome(out) == outcome(run)


def test_a_full_disk_at_each_write(tmp_path, whole, monkeypatch):
    """After settings (two files) a resumed run writes what is next; it fails there, then one file later, and so on."""
    run, written = whole
    out, failed = tmp_path / "run", []
    for stop in [1, 2, *(3, 4, 5, 6, 7) * 8]:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", os.fsync)  # both are put back at the end
                patched.setattr(os, "replace", os.replace)
                interfere(stop, "full")
                train_run(out, "digits", 1)
        except ValueError as error:
            found = re.search(rf"/([^/]+) cannot be written: {os.strerror(errno.ENOSPC)}\.", str(error))
            failed.append(str(error) if found is None else found[1])
        assert not list(out.rglob("*.tmp"))
    assert {name.split("-")[0] for name in failed} == {name.split("-")[0] for name in written}
    train_run(out, "digits", 1)
    assert outcome(out) == outcome(run)


def test_two_resumes_at_once(tmp_path, whole):
    run, _ = whole
    out = tmp_path / "run"
    assert strike(out, 9, "in place") == -signal.SIGKILL
    both = [start(train_run, out, "digits", 1) for _ in range(2)]
    for child in both:
        child.join(240)
    # One trains; the other is refused, or finds the run finished if it came late.
    assert 0 in [child.exitcode for child in both]
    assert all(child.exitcode in (0, 1) for child in both)
    assert outcome(out) == outcome(run)


@pytest.mark.parametrize("moment", ["torn", "complete", "full"])
def test_a_report_and_a_table_are_the_old_or_the_new_ones(tmp_path, moment):
    preds = Predictions.from_logits([[2.0, 1.0], [0.5, 1.5], [3.0, 0.0]] * 5, [0, 1, 1] * 5)
    for name in ("report.html", "table.csv", "preds.npz"):
        (tmp_path / name).write_text("old")
        child = start(write_one, tmp_path / name, preds.values.tolist(), preds.labels.tolist(), moment)
        child.join(120)
        assert child.exitcode == (1 if moment == "full" else -signal.SIGKILL)
        assert (tmp_path / name).read_text() == "old"
        remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["preds.npz", "report.html", "table.csv"]


def write_one(path, logits, labels, moment):
    interfere(1, moment)
    preds = Predictions.from_logits(logits, labels)
    if path.name == "report.html":
        write_report(preds, path)
    elif path.name == "table.csv":
        write_rows(path, [Row("Digits", "MLP", "fl-3", 0, "last", "ece", "pre", 1.5)])
    else:
        preds.save(path)


def test_kills_at_random(tmp_path):
    """A second kind of network, killed at writes that nobody chose."""
    assert len(RECIPES) == 3
    out, kills = kill_chain(tmp_path, "trees", 1, random.Random(0), 3)
    assert len(kills) == 3
    child = start(train_run, tmp_path / "whole", "trees", 1)
    child.join(240)
    assert outcome(out) == outcome(tmp_path / "whole")
