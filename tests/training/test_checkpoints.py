"""Checkpoint files: whole, checked, few; and what a full disk leaves."""

import errno
import resource

import pytest
import torch
from tiny_runs import prediction_bytes, run, start

from focalcal.training.checkpoints import Checkpoint, CheckpointFolder, read_checkpoint, write_checkpoint


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
    folder.tidy()
    assert [file.name for file in tmp_path.iterdir()] == [".notes"]


def run_on_a_small_disk(out, most_bytes):
    """Files cannot grow beyond a limit, which the system reports as it reports a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    with pytest.raises(ValueError, match=r"\.safetensors cannot be written: File too large\.") as refused:
        run(out, resume=True, optimizer="adam", epochs=3)
    assert "\n" not in str(refused.value)


def test_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    """Running outputs make a checkpoint within an epoch larger than one between epochs: there the limit strikes."""
    assert errno.EFBIG
    run(tmp_path / "whole", optimizer="adam", epochs=3)
    from tiny_runs import Net, data, train
    from tiny_runs import recipe as small_recipe

    from focalcal.training import Interrupted  # noqa: F401 - what the run below may not raise

    first = start(_one_epoch, tmp_path / "a")
    first.join(60)
    assert first.exitcode == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "a/checkpoints").iterdir()}
    assert len(before) == 1
    child = start(run_on_a_small_disk, tmp_path / "a", 9_000)
    child.join(60)
    assert child.exitcode == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "a/checkpoints").iterdir()} == before
    recipe = small_recipe(optimizer="adam", epochs=3)
    train(recipe, out=tmp_path / "a", model=Net(), data=data(), resume=True, progress=False)
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(tmp_path / "whole")


def _one_epoch(out):
    """Stops after the first epoch, as if asked to."""
    import os
    import signal

    from focalcal.training import Interrupted
    from focalcal.training.trainer import Trainer

    finish = Trainer._finish_epoch

    def finish_and_ask(trainer):
        finish(trainer)
        os.kill(os.getpid(), signal.SIGTERM)

    Trainer._finish_epoch = finish_and_ask
    with pytest.raises(Interrupted, match="at the end of epoch 1; the state is saved"):
        run(out, optimizer="adam", epochs=3)
