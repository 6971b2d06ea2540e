"""A dozen kills, a full disk at each write, and two resumes at once: nothing is lost, torn or left behind."""

import errno
import os
import random
import re
import signal
from dataclasses import fields

import pytest
import torch

from focalcal.base.files import remove_leftovers
from focalcal.calibrators import TemperatureScaling
from focalcal.data.subwords import SubwordVocabulary, learn_vocabulary
from focalcal.predictions import Predictions
from focalcal.report import write_report
from focalcal.sweeps import write_slurm_job
from focalcal.sweeps.finished import FinishedRun, write_index
from focalcal.sweeps.plan import Plan
from focalcal.sweeps.result_rows import Row, write_rows
from focalcal.sweeps.translated_run import CurvePoint, write_curves
from focalcal.training.checkpoints import Checkpoint, CheckpointFolder, write_checkpoint
from focalcal.training.run_directory import RunDirectory
from reliability.corpus import token_predictions
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


def write_report_of(path, preds):
    write_report(preds, path)


def write_preds(path, preds):
    preds.save(path)


def write_table(path, preds):
    write_rows(path, [Row("Digits", "MLP", "fl-3", 0, "last", "ece", "pre", float(len(preds)))])


def write_index_of_results(path, preds):
    write_index(path.parent, [FinishedRun("fl-3", len(preds), "digits", "mlp", "last", {"last": 2}, path.parent)])


def write_curve(path, preds):
    write_curves(path, [CurvePoint("fl-3", len(preds), *[0.5] * (len(fields(CurvePoint)) - 2))])


def write_tokens(path, preds):
    token_predictions().save(path)


def write_vocabulary(path, preds):
    SubwordVocabulary(learn_vocabulary(["a small dog", "a small cat", "the dog"], 24).model).save(path)


def write_tasks(path, preds):
    write_slurm_job([Plan("digits/mlp", (), ("fl-3",), (0,), path.parent)], path.parent)


def write_calibrator(path, preds):
    TemperatureScaling().fit(preds).save(path)


WRITERS = {
    "report.html": write_report_of,
    "table.csv": write_table,
    "preds.npz": write_preds,
    "preds.parquet": write_preds,
    "preds.csv.gz": write_preds,
    "runs.json": write_index_of_results,
    "curves.csv": write_curve,
    "tokens.safetensors": write_tokens,
    "vocabulary.model": write_vocabulary,
    "tasks.jsonl": write_tasks,
    "calibrator.json": write_calibrator,
}


@pytest.mark.parametrize("moment", ["torn", "complete", "full"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_results_is_the_old_or_the_new_one(tmp_path, name, moment):
    (tmp_path / name).write_text("old")
    child = start(write_one, tmp_path / name, moment)
    child.join(120)
    assert child.exitcode == (1 if moment == "full" else -signal.SIGKILL)
    assert (tmp_path / name).read_text() == "old"
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    child = start(write_one, tmp_path / name, None)
    child.join(120)
    assert child.exitcode == 0
    assert (tmp_path / name).read_bytes() != b"old"


def write_one(path, moment):
    os.environ["FOCALCAL_CACHE"] = os.devnull  # so that nothing but the file itself is written
    if moment is not None:
        interfere(1, moment)
    preds = Predictions.from_logits([[2.0, 1.0], [0.5, 1.5], [3.0, 0.0]] * 5, [0, 1, 1] * 5)
    WRITERS[path.name](path, preds)


def test_checkpoints_that_a_kill_has_left_are_removed_by_the_resume(tmp_path):
    """Killed after each checkpoint and before its removal of older ones, a run kept them all."""
    folder = CheckpointFolder(tmp_path)
    for epoch in range(1, 6):
        values = {"best": {"file": f"best-{epoch:05d}.safetensors"}}
        folder.write_weights(values["best"]["file"], epoch, {"a": torch.ones(2)})
        write_checkpoint(tmp_path / f"epoch-{epoch:05d}-step-0000000.safetensors", Checkpoint({}, values))
    newest, damaged = folder.newest()
    assert damaged == []
    folder.remove_older(newest)
    assert sorted(path.name.split("-")[1][:5] for path in tmp_path.iterdir()) == ["00004", "00004", "00005", "00005"]


def test_kills_at_random(tmp_path):
    """A second kind of network, killed at writes that nobody chose."""
    assert len(RECIPES) == 3
    out, kills = kill_chain(tmp_path, "trees", 1, random.Random(2), 3)
    assert len(kills) == 3  # a chain may end before that: then take another seed
    child = start(train_run, tmp_path / "whole", "trees", 1)
    child.join(240)
    assert outcome(out) == outcome(tmp_path / "whole")
