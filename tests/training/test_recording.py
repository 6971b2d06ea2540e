"""A line of the history says what the metrics say of the same outputs."""

import json
import math

import pytest
import torch
from torch import nn

from focalcal.losses import build_loss
from focalcal.metrics import evaluate
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from focalcal.training.batches import epoch_batches
from focalcal.training.evaluating import summarize, summarize_scaled
from focalcal.training.recording import gamma_shares, weight_norm
from focalcal.training.run_directory import write_history
from focalcal.training.state import FeatureNorms, RunningOutputs, statistics_from
from tiny_runs import CLASSES, Net, data, run

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
