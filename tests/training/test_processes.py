"""Two gloo processes do what one does: the same objective, the same predictions, and they stop together."""

import os
import signal
import time

import pytest
import torch

from focalcal.losses import MMCELoss
from focalcal.predictions import Predictions
from focalcal.training import Interrupted
from focalcal.training.checkpoints import CheckpointFolder
from tiny_runs import (
    Net,
    data,
    half_supervised,
    in_processes,
    last_state,
    prediction_bytes,
    run,
    start_processes,
    timeless,
    weights,
)


def many_runs(out, names):
    """Several runs in one pair of processes, by their names."""
    for name in names:
        kind, _, reduction = name.partition("-")
        samples = half_supervised(107) if kind == "ignored" else data(train=107)
        accumulate = 2 if kind == "parts" else 1
        run(out / name, samples=samples, reduction=reduction, accumulate=accumulate, epochs=2, batch_size=14)


NAMES = [f"{kind}-{reduction}" for kind in ("plain", "ignored", "parts") for reduction in ("mean", "sum", "per_sample")]


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    """107 samples in batches of 14: seven whole ones, and a last one of nine, which no two parts share evenly."""
    folder = tmp_path_factory.mktemp("processes")
    many_runs(folder / "one", NAMES)
    in_processes(2, many_runs, folder / "two", NAMES)
    return folder


@pytest.mark.parametrize("name", [name for name in NAMES if "parts" not in name])
def test_training_is_that_of_one_process(one_and_two, name):
    one, two = weights(one_and_two / "one" / name), weights(one_and_two / "two" / name)
    for key in one:
        torch.testing.assert_close(two[key], one[key], rtol=1e-4, atol=1e-6)
    first, second = timeless(one_and_two / "one" / name), timeless(one_and_two / "two" / name)
    for a, b in zip(first, second, strict=True):
        assert b["train"]["loss"] == pytest.approx(a["train"]["loss"], rel=1e-5)
        assert b["train"]["error"] == pytest.approx(a["train"]["error"])
        assert b["train"]["feature_norm"] == pytest.approx(a["train"]["feature_norm"], rel=1e-5)


def test_reductions_differ(one_and_two):
    """Otherwise the test above would say nothing about them."""
    losses = [timeless(one_and_two / "one" / f"ignored-{kind}")[0]["train"]["loss"] for kind in ("mean", "sum")]
    assert losses[1] > 2 * losses[0]
    mean, per_sample = (weights(one_and_two / "one" / f"ignored-{kind}") for kind in ("mean", "per_sample"))
    assert not torch.allclose(mean["classifier.weight"], per_sample["classifier.weight"], atol=1e-3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "per_sample"])
def test_accumulation_is_no_accumulation(one_and_two, reduction):
    whole = weights(one_and_two / "one" / f"plain-{reduction}")
    for processes in ("one", "two"):
        parts = weights(one_and_two / processes / f"parts-{reduction}")
        for key in whole:
            torch.testing.assert_close(parts[key], whole[key], rtol=1e-4, atol=1e-6)


def norm_run(out, resume=False):
    run(out, network=Net(norm=True), epochs=2, ema_decay=0.5, select="nll", resume=resume)


def evaluate_saved(out):
    """Predictions of weights that another run has left: everything but the last step of that run."""
    run(out, epochs=2, batch_size=14, resume=True, evaluation_batch_size=20)


def test_same_weights_same_predictions(tmp_path):
    run(tmp_path / "one", epochs=2, batch_size=14, evaluation_batch_size=20)
    one = {split: Predictions.load(tmp_path / "one/predictions" / f"{split}.safetensors") for split in ("val", "test")}
    os.renames(tmp_path / "one/evaluation.json", tmp_path / "kept/evaluation.json")
    folder = CheckpointFolder(tmp_path / "one/checkpoints")
    newest = last_state(tmp_path / "one")
    both = {name.replace("process/0", "process/1"): tensor for name, tensor in newest.tensors.items()}
    folder.write(2, 0, type(newest)({**newest.tensors, **both}, {**newest.values, "processes": 2}))
    in_processes(2, evaluate_saved, tmp_path / "one")
    for split, size in (("val", 61), ("test", 45)):  # neither can be divided by two
        two = Predictions.load(tmp_path / "one/predictions" / f"{split}.safetensors")
        assert len(two) == size
        assert two.ids == one[split].ids
        assert torch.equal(two.labels, one[split].labels)
        torch.testing.assert_close(two.values, one[split].values)


def test_batch_normalisation_resumes_and_is_the_same_everywhere(tmp_path):
    in_processes(2, norm_run, tmp_path / "a")
    in_processes(2, norm_run, tmp_path / "b")
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(tmp_path / "b")
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")


def gather_by_hand(out):
    """What each process predicts of everything by itself, of the same run."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    from focalcal.training.devices import broadcast_buffers, gather_rows, largest_over_processes

    network = Net(norm=True)
    network.layers[1].running_mean.fill_(float(fabric.global_rank))
    broadcast_buffers(fabric, network)
    assert network.layers[1].running_mean.abs().sum() == 0
    rows = torch.arange(fabric.global_rank + 2).reshape(-1, 1)
    assert [part.flatten().tolist() for part in gather_rows(fabric, rows)] == [[0, 1], [0, 1, 2]]
    nothing = torch.empty(0, 3, dtype=torch.bool) if fabric.global_rank else torch.ones(1, 3, dtype=torch.bool)
    assert [len(part) for part in gather_rows(fabric, nothing)] == [1, 0]
    assert largest_over_processes(fabric, 7 - fabric.global_rank) == 7


def test_gathering(tmp_path):
    in_processes(2, gather_by_hand, tmp_path)


def mmce_step(out):
    run(out, criterion=MMCELoss(4.0), epochs=1, batch_size=100, optimizer={"lr": 0.05, "momentum": 0.0})


def test_mmce_is_of_each_process_own_part(tmp_path):
    """One step: the gradient is that of Σ over the processes of share × (cross-entropy + penalty of its own part)."""
    in_processes(2, mmce_step, tmp_path / "two")
    network = Net()
    inputs, labels = data().train.inputs, data().train.labels
    from focalcal.training.batches import epoch_batches

    (batch,) = epoch_batches(data().train, 100, seed=0, epoch=0, parts=2)
    loss = sum(0.5 * MMCELoss(4.0)(network(inputs[part]), labels[part]) for part in batch.tensor_split(2))
    loss.backward()
    for name, parameter in network.named_parameters():
        expected = parameter.detach() - 0.05 * parameter.grad
        torch.testing.assert_close(weights(tmp_path / "two")[name], expected, rtol=1e-4, atol=1e-6)
    whole = MMCELoss(4.0)(Net()(inputs), labels)
    assert abs(float(whole.detach()) - float(loss.detach())) > 1e-4  # the penalty of the whole batch is another


def long_run(out, resume, epochs):
    try:
        run(out, epochs=epochs, batch_size=14, resume=resume, network=Net(dropout=0.2))
    except Interrupted as stopped:
        os._exit(stopped.signal)


def test_sigterm_to_one_process_stops_both(tmp_path):
    """The first time the second process alone gets it, the second time the first alone."""
    for stopped in (1, 0):
        before = set((tmp_path / "a/checkpoints").glob("epoch-*"))
        children = start_processes(2, long_run, tmp_path / "a", True, 12)
        end = time.monotonic() + 60
        while set((tmp_path / "a/checkpoints").glob("epoch-*")) <= before and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(children[stopped].pid, signal.SIGTERM)
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [signal.SIGTERM] * 2
    in_processes(2, long_run, tmp_path / "a", True, 12)
    in_processes(2, long_run, tmp_path / "b", False, 12)
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(tmp_path / "b")


def test_another_number_of_processes_is_refused(tmp_path):
    in_processes(2, norm_run, tmp_path / "a")
    (tmp_path / "a/evaluation.json").unlink()
    config = (tmp_path / "a/config.yaml").read_bytes()
    with pytest.raises(ValueError, match="trained by 2 processes and cannot resume with 1: use 2 again"):
        norm_run(tmp_path / "a", resume=True)
    assert (tmp_path / "a/config.yaml").read_bytes() == config
