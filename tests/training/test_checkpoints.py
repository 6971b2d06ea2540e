"""Checkpoint files: whole, checked, few; and what a full disk leaves."""

import os
import resource
import signal

import pytest
import torch

from focalcal.base.files import remove_leftovers
from focalcal.training import Interrupted
from focalcal.training.checkpoints import Checkpoint, CheckpointFolder, read_checkpoint, write_checkpoint
from focalcal.training.trainer import Trainer
from tiny_runs import prediction_bytes, run, start


def test_round_trip(tmp_path):
    shared = torch.randn(4, 4)
    tensors = {
        "a": torch.randn(2, 3),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 2),
        "bool": torch.tensor([True, False]),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "view": shared[1:],
        "transposed": shared.T,
        "integer": torch.tensor([2**40]),
    }
    values = {"step": 3, "best": None, "value": 0.1 + 0.2, "name": "γ"}
    write_checkpoint(tmp_path / "a.safetensors", Checkpoint(tensors, values))
    again = read_checkpoint(tmp_path / "a.safetensors")
    assert again.values == values
    assert set(again.tensors) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(again.tensors[name], tensor)
        assert again.tensors[name].dtype == tensor.dtype
    assert set(again.part("a")) == set()


def test_tied_weights(tmp_path):
    weight = torch.nn.Parameter(torch.randn(3, 3))
    write_checkpoint(tmp_path / "a.safetensors", Checkpoint({"x/one": weight, "x/two": weight.data}, {}))
    assert torch.equal(*read_checkpoint(tmp_path / "a.safetensors").part("x").values())


@pytest.mark.parametrize("place", range(0, 400, 37))
def test_any_flipped_byte_is_found(tmp_path, place):
    file = tmp_path / "a.safetensors"
    write_checkpoint(file, Checkpoint({"a": torch.arange(60.0)}, {"step": 1}))
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= 4
    file.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"The checkpoint a\.safetensors is damaged \("):
        read_checkpoint(file)


def test_two_are_kept_and_the_best_that_either_counts_on(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for epoch in range(5):
        best = {"file": f"best-{epoch // 2:05d}.safetensors", "epoch": epoch // 2, "value": 1.0}
        (tmp_path / "checkpoints").mkdir(exist_ok=True)
        write_checkpoint(folder.path / best["file"], Checkpoint({"a": torch.zeros(1)}, {}))
        folder.write(epoch, 0, Checkpoint({"a": torch.tensor(epoch)}, {"best": best}))
        newest, damaged = folder.newest()
        assert (int(newest.tensors["a"]), damaged) == (epoch, [])
    assert sorted(file.name for file in folder.path.iterdir()) == [
        "best-00001.safetensors",
        "best-00002.safetensors",
        "epoch-00003-step-0000000.safetensors",
        "epoch-00004-step-0000000.safetensors",
    ]


def test_leftovers_are_removed(tmp_path):
    folder = CheckpointFolder(tmp_path)
    (tmp_path / ".epoch-00000-step-0000001.safetensors.0123456789ab.tmp").write_bytes(b"half")
    (tmp_path / ".notes").write_bytes(b"not ours")
    remove_leftovers(folder.path)
    assert [file.name for file in tmp_path.iterdir()] == [".notes"]


def stops_after_an_epoch(out):
    """A SIGTERM of its own, when the first epoch is done."""
    finish = Trainer._finish_epoch

    def finish_and_ask(trainer):
        finish(trainer)
        os.kill(os.getpid(), signal.SIGTERM)

    Trainer._finish_epoch = finish_and_ask
    with pytest.raises(Interrupted, match="at the end of epoch 1; the state is saved"):
        run(out, optimizer="adam", epochs=3)


def stops_on_a_small_disk(out):
    """Files cannot grow beyond a limit, which Python reports as it reports a full disk: an OSError of write."""
    size = max(file.stat().st_size for file in (out / "checkpoints").iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, size - 1))
    with pytest.raises(ValueError, match=r"epoch-00002.*\.safetensors cannot be written: File too large\.") as refused:
        run(out, resume=True, optimizer="adam", epochs=3)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    run(tmp_path / "whole", optimizer="adam", epochs=3)
    children = [start(stops_after_an_epoch, tmp_path / "a")]
    children[0].join(120)
    before = {file.name: file.read_bytes() for file in (tmp_path / "a/checkpoints").iterdir()}
    children.append(start(stops_on_a_small_disk, tmp_path / "a"))
    children[1].join(120)
    assert [child.exitcode for child in children] == [0, 0]
    assert len(before) == 1
    assert {file.name: file.read_bytes() for file in (tmp_path / "a/checkpoints").iterdir()} == before
    run(tmp_path / "a", optimizer="adam", epochs=3, resume=True)
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(tmp_path / "whole")
