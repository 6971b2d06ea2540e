"""Numbers that widely used libraries get wrong, each as a test of ours (and of theirs, where they are installed)."""

import math

import numpy as np
import pytest
import torch

from focalcal import metrics
from focalcal.metrics import Accumulator, evaluate
from focalcal.predictions import Predictions

ALL_BINNED = ("ece", "mce", "ada_ece", "classwise_ece", "debiased_ece", "smooth_ece")


@pytest.mark.slow
def test_forty_million_samples_in_one_bin():
    """float32 counters stop at 16,777,216: torchmetrics gives 0.0 where confidence is 0.97 and accuracy 0.9."""
    part, whole = Accumulator(2), Accumulator(2)
    probs = torch.tensor([[0.97, 0.03]]).expand(1_000_000, 2)
    labels = (torch.arange(1_000_000) % 10 == 0).long()
    for _ in range(4):
        part.update(probs=probs, labels=labels)
    for _ in range(10):
        whole.merge(part)
    values = whole.compute().values
    assert whole.samples == 40_000_000
    assert values["accuracy"] == 0.9
    for name in ("ece", "mce", "signed_gap", "smooth_ece", "ada_ece"):
        assert values[name] == pytest.approx(0.07, abs=1e-6), name


def test_forty_million_samples_as_weights():
    preds = Predictions.from_probs([[0.97, 0.03]] * 2, [0, 1], weights=[36e6, 4e6])
    assert metrics.ece(preds) == pytest.approx(0.07, abs=1e-12)
    assert metrics.ada_ece(preds, bins=1) == pytest.approx(0.07, abs=1e-12)


def test_float16_of_200_000_samples():
    """In float16 counters end at 2048 and sums at 65504: torchmetrics gives 0.0 here."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(200_000, 4, generator=generator) * 2).half()
    labels = torch.randint(0, 4, (200_000,), generator=generator)
    exact = torch.softmax(logits.double(), dim=1)
    right = exact.argmax(dim=1) == labels
    truth = abs(float(exact.amax(dim=1).mean() - right.double().mean()))  # over-confident in every bin
    assert truth > 0.1
    accumulator = Accumulator(4)
    for start in range(0, 200_000, 50_000):
        accumulator.update(logits=logits[start : start + 50_000], labels=labels[start : start + 50_000])
    assert accumulator.compute().values["ece"] == pytest.approx(truth, abs=1e-5)
    assert metrics.ece(Predictions.from_logits(logits, labels)) == pytest.approx(truth, abs=1e-5)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_nan_is_refused(kind):
    values = torch.full((4, 2), 0.5)
    values[2, 0] = math.nan
    with pytest.raises(ValueError, match="row 2 hold NaN"):
        Accumulator(2).update(**{kind: values}, labels=[0, 1, 0, 1])
    with pytest.raises(ValueError, match="row 2 hold NaN"):
        getattr(Predictions, f"from_{kind}")(values, [0, 1, 0, 1])


def test_logits_inside_0_and_1_are_not_taken_for_probabilities():
    """Ten rows of logits (0.95, 0.05), nine of them right: softmax says 0.711, and whoever looks at the values 0.95."""
    logits, labels = torch.tensor([[0.95, 0.05]]).expand(10, 2), [0] * 9 + [1]
    truth = 0.9 - 1 / (1 + math.exp(-0.9))
    assert metrics.ece(Predictions.from_logits(logits, labels)) == pytest.approx(truth, abs=1e-6)
    accumulator = Accumulator(2)
    accumulator.update(logits=logits, labels=labels)
    assert accumulator.compute().values["ece"] == pytest.approx(truth, abs=1e-6)
    assert metrics.ece(Predictions.from_probs(logits, labels)) == pytest.approx(0.05, abs=1e-6)  # if it is so named


def test_confidence_1_belongs_to_the_last_bin():
    """19 right samples at 1.0 and one wrong at 0.95: 0.025 in one bin, 0.0475 with a bin for 1.0 alone."""
    probs = [[1.0, 0.0]] * 19 + [[0.95, 0.05]]
    labels = [0] * 19 + [1]
    preds = Predictions.from_probs(probs, labels)
    truth = (19 * 1.0 + 0.95 - 19) / 20
    assert metrics.ece(preds) == pytest.approx(truth)
    both_ways = Predictions.from_probs([[1.0, 0.0]] * 10 + [[0.95, 0.05]] * 10, [1] + [0] * 19)
    assert metrics.ece(both_ways) == pytest.approx(0.025)  # (10 + 9.5 − 19)/20
    assert metrics.ece(both_ways, convention="torchmetrics") == pytest.approx(0.075)  # (1 + 0.5)/20


@pytest.mark.parametrize(("num_classes", "gap"), [(10, 19.0), (100, 22.0), (1000, 24.0)])
def test_saturated_float32_softmax_is_counted(num_classes, gap):
    logits = torch.zeros(30, num_classes)
    logits[:, 0] = gap
    preds = Predictions.from_logits(logits, torch.zeros(30, dtype=torch.int64))
    assert float(preds.probs()[0, 0]) == 1.0
    result = evaluate(preds, bootstrap=0)
    # In float64 the confidence is below 1, by the others' share.
    others = (num_classes - 1) * math.exp(-gap)
    for name in ("ece", "mce", "ada_ece"):
        assert result.values[name] == pytest.approx(others, rel=1e-6)
    assert result.values["confident_share"] == 1.0


@pytest.mark.slow
def test_the_state_does_not_grow_with_the_samples():
    """torchmetrics keeps 8 bytes a prediction for ever, torch-uncertainty N × C of them."""

    def size(batches):
        accumulator = Accumulator(10)
        generator = torch.Generator().manual_seed(0)
        for _ in range(batches):
            logits = torch.randn(100_000, 10, generator=generator)
            accumulator.update(logits=logits, labels=torch.randint(0, 10, (100_000,), generator=generator))
        return sum(part.numel() * part.element_size() for part in accumulator.state_dict().values())

    few, many = size(8), size(16)
    assert many <= 1.05 * few
    assert many < 50e6


@pytest.mark.parametrize("n", range(1, 16))
def test_fewer_samples_than_bins_give_numbers(n):
    preds = Predictions.from_logits(torch.randn(n, 3, generator=torch.Generator().manual_seed(n)), torch.arange(n) % 3)
    values = evaluate(preds, metrics=ALL_BINNED, bins=15, bootstrap=0).values
    assert all(math.isfinite(value) for value in values.values())


def test_a_class_missing_from_the_labels():
    generator = np.random.default_rng(0)
    probs = generator.dirichlet(np.ones(5), size=200)
    labels = generator.integers(0, 3, size=200)  # classes 3 and 4 never occur
    preds = Predictions.from_probs(probs, labels)
    total = sum(
        abs(sum(probs[i, k] - (labels[i] == k) for i in range(200) if m / 15 < probs[i, k] <= (m + 1) / 15))
        for k in range(5)
        for m in range(15)
    )
    assert metrics.classwise_ece(preds) == pytest.approx(total / 200 / 5, rel=1e-12)
    assert math.isfinite(evaluate(preds, bootstrap=0).values["classwise_ece"])
