"""Recorded gradient norms are those of each sample alone; recorded files survive interruption."""

import json

import pytest
import torch
from torch import nn

from focalcal.gamma import gradient_factor
from focalcal.losses import FocalLoss, build_loss
from focalcal.predictions import Predictions
from focalcal.recipes import Recipe, load_recipe
from focalcal.training.gradient_norms import histogram_edges
from tiny_runs import CLASSES, Net, data, half_supervised, in_processes, prediction_bytes, recipe, run

RECORD = {"gradient_norms_at": [1, 3], "snapshots_at": [2, 3]}


def recorded(out):
    return [json.loads(line) for line in (out / "recorded" / "gradient-norms.jsonl").read_text().splitlines()]


def norms_one_by_one(network, loss, samples):
    """The gradient of each sample alone with respect to weight and bias of the last layer."""
    network.eval()
    found = []
    for inputs, target in zip(samples.inputs, samples.labels, strict=True):
        features = network.layers(inputs[None]).detach().double()
        layer = nn.Linear(16, CLASSES).double()
        layer.load_state_dict(network.classifier.state_dict())
        loss(layer(features), target[None]).backward()
        found.append(torch.cat([layer.weight.grad.flatten(), layer.bias.grad]).norm())
    return torch.stack(found)


def histogram(norms):
    return torch.bincount(torch.bucketize(norms, histogram_edges()), minlength=len(histogram_edges()) + 1)


@pytest.mark.parametrize("name", ["cross-entropy", "fl-3", "flsd-53", "brier", "ls-0.05"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_norms_are_those_of_each_sample_alone(tmp_path, name, reduction):
    network = Net()
    run(tmp_path / "a", network=network, loss=name, epochs=1, reduction=reduction, record={"gradient_norms_at": 1})
    (record,) = recorded(tmp_path / "a")
    assert (record["after_epochs"], record["samples"]) == (1, 100)
    for which, loss in (("loss", build_loss(name)), ("cross_entropy", nn.CrossEntropyLoss())):
        expected = norms_one_by_one(network, loss, data().train)
        assert record[which]["mean"] == pytest.approx(float(expected.mean()), rel=1e-5)
        assert record[which]["quantiles"]["0.5"] == pytest.approx(float(expected.quantile(0.5)), rel=1e-5)
        assert sum(record[which]["counts"]) == 100
        apart = (torch.tensor(record[which]["counts"]) - histogram(expected)).abs().sum()
        assert apart <= 4  # a norm at an edge may be on either side of it


def test_focal_norms_are_cross_entropys_times_g(tmp_path):
    network = Net()
    run(tmp_path / "a", network=network, loss="fl-2", epochs=1, record={"gradient_norms_at": [1]})
    samples = data().train
    with torch.no_grad():
        features = network.eval().layers(samples.inputs).double()
        p = torch.softmax(nn.functional.linear(features, *map(torch.Tensor.double, network.classifier.parameters())), 1)
    delta = (p - nn.functional.one_hot(samples.labels, CLASSES)).norm(dim=1)
    norms = delta * (1 + features.square().sum(1)).sqrt()
    factor = gradient_factor(p[torch.arange(100), samples.labels], 2.0)
    (record,) = recorded(tmp_path / "a")
    assert record["cross_entropy"]["mean"] == pytest.approx(float(norms.mean()), rel=1e-5)
    assert record["loss"]["mean"] == pytest.approx(float((norms * factor).mean()), rel=1e-5)


def test_mmce_counts_by_its_cross_entropy(tmp_path):
    run(tmp_path / "a", loss="mmce", epochs=1, record={"gradient_norms_at": [1]})
    (record,) = recorded(tmp_path / "a")
    assert record["loss"] == record["cross_entropy"]


def test_a_loss_of_ones_own_with_weights(tmp_path):
    weight = torch.tensor([1.0, 2.0, 1.0, 1.0])
    network = Net()
    own = FocalLoss(1.0, weight=weight, reduction="sum")
    run(tmp_path / "a", network=network, criterion=own, epochs=1, reduction="sum", record={"gradient_norms_at": [1]})
    run(
        tmp_path / "b",
        criterion=lambda z, y: nn.functional.cross_entropy(z, y, weight=weight, reduction="sum"),
        epochs=1,
        reduction="sum",
        record={"gradient_norms_at": [1]},
    )
    expected = norms_one_by_one(network, FocalLoss(1.0, weight=weight, reduction="sum").double(), data().train)
    assert recorded(tmp_path / "a")[0]["loss"]["mean"] == pytest.approx(float(expected.mean()), rel=1e-5)
    assert recorded(tmp_path / "b")[0]["samples"] == 100


def test_outputs_without_a_target_do_not_count(tmp_path):
    run(tmp_path / "a", samples=half_supervised(), epochs=1, record={"gradient_norms_at": [1]})
    assert recorded(tmp_path / "a")[0]["samples"] == 100  # evaluation gives each sample its one label


def test_a_network_without_a_linear_classifier(tmp_path):
    with pytest.raises(ValueError, match=r"last nn\.Linear is its attribute `classifier`; leave it out"):
        run(tmp_path / "a", network=nn.Linear(8, CLASSES), epochs=1, record={"gradient_norms_at": [1]})


def test_snapshots_are_predictions_of_the_training_set(tmp_path):
    network = Net()
    run(tmp_path / "a", network=network, epochs=3, record=RECORD)
    files = sorted(file.name for file in (tmp_path / "a" / "predictions" / "train").iterdir())
    assert files == ["epoch-00002.safetensors", "epoch-00003.safetensors"]
    last = Predictions.load(tmp_path / "a" / "predictions" / "train" / files[-1])
    assert (last.split, len(last.labels)) == ("train", 100)
    with torch.no_grad():
        torch.testing.assert_close(last.values, network.eval()(data().train.inputs))


class Stopped(Exception):
    pass


class StoppingLoss(nn.CrossEntropyLoss):
    """Cross-entropy that is interrupted at its nineteenth step."""

    calls = 0

    def forward(self, logits, target):
        self.calls += self.training
        if self.calls == 19:
            raise Stopped
        return super().forward(logits, target)


def test_recorded_files_survive_an_interruption(tmp_path):
    """Stopped in the third epoch, after files of the second were written; then resumed."""
    run(tmp_path / "whole", epochs=3, record=RECORD, checkpoint={"every_steps": 2})
    changes = {"epochs": 3, "record": RECORD, "checkpoint": {"every_steps": 2}}
    with pytest.raises(Stopped):
        run(tmp_path / "parts", criterion=StoppingLoss(), **changes)
    assert len(recorded(tmp_path / "parts")) == 1
    run(tmp_path / "parts", resume=True, **changes)
    assert recorded(tmp_path / "parts") == recorded(tmp_path / "whole")
    assert prediction_bytes(tmp_path / "parts") == prediction_bytes(tmp_path / "whole")
    histories = [[e["train"]["feature_norm"] for e in run_history(tmp_path / name)] for name in ("parts", "whole")]
    assert histories[0] == histories[1]


def run_history(out):
    return [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]


def record_run(out):
    run(out, samples=data(train=107), epochs=3, batch_size=14, record=RECORD)


def test_two_processes_record_what_one_does(tmp_path):
    record_run(tmp_path / "one")
    in_processes(2, record_run, tmp_path / "two")
    for one, two in zip(recorded(tmp_path / "one"), recorded(tmp_path / "two"), strict=True):
        assert (one["after_epochs"], one["samples"]) == (two["after_epochs"], two["samples"])
        for which in ("loss", "cross_entropy"):
            assert two[which]["mean"] == pytest.approx(one[which]["mean"], rel=1e-4)
            assert two[which]["quantiles"] == pytest.approx(one[which]["quantiles"], rel=1e-3)
    files = [Predictions.load(tmp_path / n / "predictions/train/epoch-00003.safetensors") for n in ("one", "two")]
    torch.testing.assert_close(files[1].values, files[0].values, rtol=1e-3, atol=1e-5)


def test_epochs_are_in_proportion_in_a_shorter_run():
    full = load_recipe("cifar10/resnet50").record
    assert full.in_run(full.gradient_norms_at, 350) == {10, 100, 200}
    assert full.in_run(full.snapshots_at, 60) == {17, 34, 51, 60}
    assert full.in_run(full.gradient_norms_at, 2) == {1}
    assert full.in_run(full.snapshots_at, 550) == {100, 200, 300, 350}


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"snapshots_at": [3]}, "record.snapshots_at: epoch 3 lies beyond the 2 epochs"),
        ({"gradient_norms_at": [9], "full_length": 8}, "record.gradient_norms_at: epoch 9 lies beyond the 8 epochs"),
        ({"gradient_norms_at": [1, 1]}, "named twice"),
        ({"gradient_norms_at": [0]}, "record.gradient_norms_at"),
    ],
)
def test_epochs_that_are_none(record, sentence):
    with pytest.raises(ValueError, match=sentence):
        recipe(record=record)


def test_the_recipe_reads_back():
    assert Recipe.check(recipe(record=RECORD, epochs=3).model_dump(), "again").record.snapshots_at == (2, 3)
