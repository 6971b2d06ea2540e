"""A line of the history says what the metrics say of the same outputs."""

import json
import math

import pytest
import torch
from torch import nn

from focalcal.gamma import gradient_factor
from focalcal.losses import FocalLoss, build_loss
from focalcal.metrics import evaluate
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from focalcal.recipes import Recipe, load_recipe
from focalcal.training.batches import epoch_batches
from focalcal.training.evaluator import summarize, summarize_scaled
from focalcal.training.recording import gamma_shares, histogram_edges, weight_norm
from focalcal.training.run_directory import write_history
from focalcal.training.state import FeatureNorms, RunningOutputs, statistics_from
from tiny_runs import CLASSES, Net, data, half_supervised, in_processes, prediction_bytes, recipe, run

MEASURED = {"error", "nll", "ece", "ada_ece", "entropy"} | {
    f"{what}_{which}" for what in ("nll", "entropy", "confidence") for which in ("right", "wrong")
}


class Listening(Net):
    """Keeps what it gives in training, and the features that it has."""

    def __init__(self):
        super().__init__()
        self.outputs, self.features = [], []

    def forward(self, x):
        logits = super().forward(x)
        if self.training:
            self.outputs.append(logits.detach().clone())
            self.features.append(self.layers(x).detach().clone())
        return logits


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    network = Listening()
    finished = run(
        tmp_path_factory.mktemp("runs") / "a",
        network=network,
        loss="flsd-53",
        epochs=5,
        record={"test_every": 2, "train_every": 3},
    )
    return finished, network


def test_every_promised_field(recorded):
    finished, _ = recorded
    assert [epoch["epoch"] for epoch in finished.history] == list(range(5))
    for epoch in finished.history:
        assert set(epoch["train"]) == MEASURED | {"loss", "feature_norm"}
        assert set(epoch["val"]) == MEASURED | {"temperature", "scaled_nll"}
        assert epoch["seconds"] > 0
        assert epoch["samples_per_second"] == pytest.approx(100 / epoch["seconds"], rel=0.2)
        assert {"learning_rate", "weight_norm", "gammas"} < set(epoch)
        assert sum(epoch["gammas"].values()) == pytest.approx(1)
    assert [epoch["epoch"] for epoch in finished.history if "test" in epoch] == [1, 3, 4]
    assert [epoch["epoch"] for epoch in finished.history if "train_eval" in epoch] == [2, 4]
    lines = (finished.path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == finished.history


def epoch_outputs(network, epoch):
    """Logits and labels of the training steps of an epoch, in the order of the steps."""
    samples = data().train
    batches = epoch_batches(samples, 16, seed=0, epoch=epoch)
    logits = network.outputs[epoch * len(batches) : (epoch + 1) * len(batches)]
    return logits, [samples.labels[batch] for batch in batches]


@pytest.mark.parametrize("epoch", [0, 3])
def test_running_figures_are_those_of_the_outputs(recorded, epoch):
    finished, network = recorded
    logits, labels = epoch_outputs(network, epoch)
    preds = Predictions.from_logits(torch.cat(logits), torch.cat(labels))
    expected, written = evaluate(preds, bootstrap=0).values, finished.history[epoch]["train"]
    for name in ("error", "nll", "ece", "ada_ece"):
        assert written[name] == pytest.approx(expected[name], rel=1e-6)
    right = preds.probs().argmax(1) == preds.labels
    nll = -preds.log_probs().gather(1, preds.labels[:, None])[:, 0]
    entropy = -(preds.probs() * preds.log_probs()).sum(1)
    assert written["nll_right"] == pytest.approx(float(nll[right].mean()), rel=1e-5)
    assert written["nll_wrong"] == pytest.approx(float(nll[~right].mean()), rel=1e-5)
    assert written["entropy_right"] == pytest.approx(float(entropy[right].mean()), rel=1e-5)
    assert written["entropy_wrong"] == pytest.approx(float(entropy[~right].mean()), rel=1e-5)
    loss = build_loss("flsd-53", epochs=5)
    by_step = [float(loss(one, two)) for one, two in zip(logits, labels, strict=True)]
    assert written["loss"] == pytest.approx(sum(by_step) / len(by_step), rel=1e-5)
    confidence = nll.neg().exp()
    shares = {"5": float((confidence < 0.2).double().mean()), "3": float((confidence >= 0.2).double().mean())}
    assert finished.history[epoch]["gammas"] == pytest.approx({key: one for key, one in shares.items() if one})


def test_last_epoch_is_that_of_the_predictions(recorded):
    finished, network = recorded
    last = finished.history[-1]
    for split in ("val", "test"):
        measured = evaluate(finished.predictions(split), bootstrap=0).values
        for name in ("error", "nll", "ece", "ada_ece"):
            assert last[split][name] == pytest.approx(measured[name], rel=1e-6)
    scaled = finished.evaluation["splits"]["val"]["after_nll"]["nll"]
    assert last["val"]["scaled_nll"] == pytest.approx(scaled, rel=1e-6)
    assert last["val"]["temperature"] == pytest.approx(finished.evaluation["temperature"]["nll"], rel=1e-4)
    with torch.no_grad():
        samples = data()
        logits = network.eval()(samples.train.inputs)
    again = summarize_scaled(Predictions.from_logits(logits, samples.train.labels))
    assert last["train_eval"] == pytest.approx(again, rel=1e-4)
    assert last["weight_norm"] == pytest.approx(float(network.classifier.weight.detach().norm()), rel=1e-6)


@pytest.mark.parametrize("epoch", [0, 4])
def test_feature_norm_is_that_of_the_training_steps(recorded, epoch):
    finished, network = recorded
    steps = len(network.features) // 5
    features = torch.cat(network.features[epoch * steps : (epoch + 1) * steps])
    written = finished.history[epoch]["train"]["feature_norm"]
    assert written == pytest.approx(float(features.double().norm(dim=1).mean()), rel=1e-6)


def test_ece_of_right_and_of_wrong_samples():
    """Where all are right, or all wrong, the ECE is the distance of the mean confidence from 1, or from 0."""
    torch.manual_seed(0)
    preds = Predictions.from_logits(3 * torch.randn(200, 3), torch.randint(0, 3, (200,)))
    figures = summarize(sample_statistics(preds))
    right = preds.probs().argmax(1) == preds.labels
    for rows, expected in ((right, 1 - figures["confidence_right"]), (~right, figures["confidence_wrong"])):
        part = Predictions.from_logits(preds.values[rows], preds.labels[rows])
        assert evaluate(part, metrics=["ece"], bootstrap=0).values["ece"] == pytest.approx(expected, rel=1e-6)


def test_no_wrong_sample_is_null():
    logits = 5 * torch.eye(3)
    figures = summarize(sample_statistics(Predictions.from_logits(logits, torch.arange(3))))
    assert (figures["nll_wrong"], figures["entropy_wrong"], figures["error"]) == (None, None, 0.0)


def test_networks_without_a_classifier():
    plain = nn.Linear(8, CLASSES)
    assert weight_norm(plain) is None
    with FeatureNorms(plain) as norms:
        plain(torch.ones(2, 8))
    assert norms.sums == [0.0, 0.0]


def test_gammas_of_a_loss_without_gamma():
    stats = sample_statistics(Predictions.from_logits(torch.eye(3), torch.arange(3)))
    assert gamma_shares(nn.CrossEntropyLoss(), stats, 0) == {}
    assert gamma_shares(build_loss("fl-3", epochs=2), stats, 0) == {"3": 1.0}


@pytest.mark.parametrize("most", [1, 30, 10**6])
def test_running_outputs_do_not_depend_on_how_they_are_kept(most, monkeypatch):
    torch.manual_seed(0)
    logits, targets = torch.randn(40, 3), torch.randint(0, 3, (40,))
    targets[5:9] = -100  # the second step has no target at all
    monkeypatch.setattr(RunningOutputs, "_MOST_VALUES", most)
    outputs = RunningOutputs()
    for start, stop in ((0, 5), (5, 9), (9, 40)):
        outputs.add(logits[start:stop], targets[start:stop])
        outputs.tensors()  # as a checkpoint would
    kept = targets != -100
    expected = sample_statistics(Predictions.from_logits(logits[kept], targets[kept]))
    columns = outputs.tensors()
    assert torch.equal(columns["nll"], expected.nll)
    assert torch.equal(columns["correct"], expected.correct)
    assert not math.isnan(summarize(statistics_from(columns))["nll"])


def test_numbers_that_json_lacks_are_null(tmp_path):
    from focalcal.base.files import null_for_nan

    record = null_for_nan({"epoch": 0, "feature_norm": float("inf"), "val": {"nll": float("nan"), "error": 0.5}})
    assert record == {"epoch": 0, "feature_norm": None, "val": {"nll": None, "error": 0.5}}
    write_history(tmp_path / "history.jsonl", [record])


RECORD = {"gradient_norms_at": [1, 3], "snapshots_at": [2, 3]}


def recorded_norms(out):
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
    (record,) = recorded_norms(tmp_path / "a")
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
    (record,) = recorded_norms(tmp_path / "a")
    assert record["cross_entropy"]["mean"] == pytest.approx(float(norms.mean()), rel=1e-5)
    assert record["loss"]["mean"] == pytest.approx(float((norms * factor).mean()), rel=1e-5)


def test_mmce_counts_by_its_cross_entropy(tmp_path):
    run(tmp_path / "a", loss="mmce", epochs=1, record={"gradient_norms_at": [1]})
    (record,) = recorded_norms(tmp_path / "a")
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
    assert recorded_norms(tmp_path / "a")[0]["loss"]["mean"] == pytest.approx(float(expected.mean()), rel=1e-5)
    assert recorded_norms(tmp_path / "b")[0]["samples"] == 100


def test_outputs_without_a_target_do_not_count(tmp_path):
    run(tmp_path / "a", samples=half_supervised(), epochs=1, record={"gradient_norms_at": [1]})
    assert recorded_norms(tmp_path / "a")[0]["samples"] == 100  # evaluation gives each sample its one label


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
    assert len(recorded_norms(tmp_path / "parts")) == 1
    run(tmp_path / "parts", resume=True, **changes)
    assert recorded_norms(tmp_path / "parts") == recorded_norms(tmp_path / "whole")
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
    for one, two in zip(recorded_norms(tmp_path / "one"), recorded_norms(tmp_path / "two"), strict=True):
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
