"""A run that is killed, again and again, ends as one that was not."""

import os
import random
import shutil
import signal
import time

import pytest
import torch

from focalcal.training.checkpoints import read_checkpoint
from tiny_runs import Net, data, last_state, noise, prediction_bytes, run, start, timeless

pytestmark = pytest.mark.slow

KILLS = 24
SETTINGS = {
    "loss": "flsd-53",
    "select": "nll",
    "epochs": 12,
    "batch_size": 12,
    "ema_decay": 0.9,
    "schedule": {"name": "cosine", "warmup_epochs": 1.5},
    "record": {"test_every": 2, "train_every": 3},
}


def noisy_run(out, resume, every_steps):
    """Everything that has a state: dropout, random inputs, momentum, a moving average, a schedule, a selection."""
    torch.set_num_threads(1)
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))  # what a process begins with must not matter
    checkpoint = {"every_steps": every_steps}
    network = Net(hidden=30_000, dropout=0.3)
    run(out, network=network, samples=data(transform=noise), resume=resume, checkpoint=checkpoint, **SETTINGS)


def names(folder):
    return set(os.listdir(folder)) if folder.is_dir() else set()


def kill_after_a_step(out, child, wait):
    """Kill a process when it has written a new checkpoint; with ``wait`` None, while it writes the next one."""
    folder = out / "checkpoints"
    newest = max((name for name in names(folder) if name.startswith("epoch-")), default="")
    while not any(name > newest for name in names(folder) if name.startswith("epoch-")):
        if not child.is_alive():  # it was faster than the killer, as on a machine with other work to do
            return None
        time.sleep(0.0005)
    if wait is not None:
        time.sleep(wait)
    else:
        end = time.monotonic() + 5
        while not any(name.startswith(".epoch-") for name in names(folder)) and time.monotonic() < end:
            pass
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    return any(name.startswith(".epoch-") for name in names(folder))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL.")
def test_killed_run_ends_like_one_that_was_not(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    first = start(noisy_run, whole, False, None)
    chance, torn = random.Random(0), []
    while len(torn) < KILLS:
        child = start(noisy_run, killed, True, 1)
        was_writing = kill_after_a_step(killed, child, chance.uniform(0, 0.03) if len(torn) % 3 else None)
        if was_writing is None:
            break
        torn.append(was_writing)
    assert len(torn) >= 20, "the run ended before it was killed often enough"
    assert sum(torn) >= 3, "too few kills fell into the writing of a checkpoint"
    last = start(noisy_run, killed, True, None)
    for child in (first, last):
        child.join(240)  # a busy machine may be slow
        assert child.exitcode == 0
    a, b = last_state(whole), last_state(killed)
    assert set(a.tensors) == set(b.tensors)
    assert all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)
    assert prediction_bytes(whole) == prediction_bytes(killed)
    assert set(prediction_bytes(whole)) == {"last/test.safetensors", "last/val.safetensors"} | {
        "test.safetensors",
        "val.safetensors",
    }
    assert timeless(whole) == timeless(killed)
    assert (whole / "evaluation.json").read_bytes() == (killed / "evaluation.json").read_bytes()
    assert not any(name.startswith(".") for name in names(killed / "checkpoints"))
    kept = [name for name in names(killed / "checkpoints") if name.startswith("epoch-")]
    assert len(kept) == 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    run(out, select="nll", checkpoint={"every_steps": 3})
    return out


def cut_short(out, copy, kept):
    """A copy of a finished run that looks as if it had stopped earlier: only some checkpoints, no results."""
    shutil.copytree(out, copy)
    (copy / "evaluation.json").unlink()
    shutil.rmtree(copy / "predictions")
    for file in list((copy / "checkpoints").glob("epoch-*")):
        if file.name not in kept:
            file.unlink()
    return copy


def newest(out):
    return max((out / "checkpoints").glob("epoch-*"))


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "header"])
def test_damaged_checkpoint_is_passed_over(finished, tmp_path, capsys, damage):
    kept = {file.name for file in (finished / "checkpoints").glob("epoch-*")}
    assert len(kept) == 2
    copy = cut_short(finished, tmp_path / "b", kept)
    file = newest(copy)
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[-100] ^= 1
    elif damage == "header":
        content[20] ^= 255
    file.write_bytes({"cut": content[:-50], "empty": b""}.get(damage, bytes(content)))
    run(copy, select="nll", checkpoint={"every_steps": 3}, resume=True, progress=True)
    said = capsys.readouterr().err
    assert f"The checkpoint {file.name} is damaged" in said
    assert "The one before it is used." in said
    assert prediction_bytes(copy) == prediction_bytes(finished)
    assert timeless(copy) == timeless(finished)
    read_checkpoint(newest(copy))


def test_all_checkpoints_damaged_begins_anew(finished, tmp_path, capsys):
    copy = cut_short(finished, tmp_path / "b", {newest(finished).name})
    newest(copy).write_bytes(b"nothing")
    run(copy, select="nll", resume=True, progress=True)
    assert "There is no checkpoint" in capsys.readouterr().err
    assert prediction_bytes(copy) == prediction_bytes(finished)


def test_resume_of_a_finished_run_does_nothing(finished, capsys):
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*")}
    run(finished, select="nll", resume=True, progress=True)
    assert "This run is finished" in capsys.readouterr().err
    assert before == {file: file.stat().st_mtime_ns for file in finished.rglob("*")}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"loss": "fl-3"}, r"loss=cross-entropy \(now fl-3\)"),
        ({"optimizer": {"lr": 0.1}, "epochs": 3}, r"epochs=2 \(now 3\) and optimizer\.lr=0\.05 \(now 0\.1\)"),
        ({"hardware": {"accelerator": "cpu", "threads": 1, "precision": "bf16-mixed"}}, r"hardware\.precision=32"),
    ],
)
def test_resume_with_another_recipe_is_refused(finished, changes, what):
    with pytest.raises(ValueError, match=rf"was started with {what}.*: resume it with the same") as refused:
        run(finished, resume=True, **{"select": "nll", **changes})
    assert "\n" not in str(refused.value)


def test_resume_with_another_network(finished, tmp_path):
    copy = cut_short(finished, tmp_path / "b", {newest(finished).name})
    with pytest.raises(ValueError, match="The saved weights do not fit the network") as refused:
        run(copy, network=Net(hidden=17), select="nll", resume=True)
    assert "\n" not in str(refused.value)


def test_history_that_lacks_epochs(finished, tmp_path):
    copy = cut_short(finished, tmp_path / "b", {newest(finished).name})
    (copy / "history.jsonl").unlink()
    with pytest.raises(ValueError, match=r"history\.jsonl lacks epochs"):
        run(copy, select="nll", resume=True)
