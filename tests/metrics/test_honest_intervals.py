"""Intervals of all calibration errors of predictions, and the test of calibration."""

import numpy as np
import pytest
import torch

from focalcal import metrics
from focalcal.metrics import calibration_intervals, calibration_test
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.samples import confidence_samples
from focalcal.predictions import Predictions

NAMES = ("ece", "ada_ece", "debiased_ece", "smooth_ece", "mce", "ks_error", "classwise_ece")


def _predictions(n, classes, temperature, seed, weights=None):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(logits / temperature, labels, weights=weights)


@pytest.mark.parametrize("classes", [2, 3, 60])
def test_every_estimate_lies_in_its_interval(classes):
    preds = _predictions(300, classes, 0.7, seed=0)
    found = calibration_intervals(preds)
    assert set(found) == set(NAMES)
    for name, (low, high) in found.items():
        assert 0 <= low <= getattr(metrics, name)(preds) <= high, name


def test_weights_of_one_change_nothing():
    preds = _predictions(200, 3, 0.7, seed=1)
    weighted = _predictions(200, 3, 0.7, seed=1, weights=torch.ones(200))
    plain, found = calibration_intervals(preds), calibration_intervals(weighted)
    for name in NAMES:
        assert found[name] == pytest.approx(plain[name], abs=1e-9), name


def test_masked_classes_are_left_out():
    preds = _predictions(200, 4, 0.7, seed=2)
    keep = preds.labels != 3
    masked = Predictions.from_logits(preds.values[keep], preds.labels[keep], masked_classes=[3])
    assert set(calibration_intervals(masked)) == set(NAMES)


def test_classwise_intervals_cover():
    """Three classes, labels from the model's own probabilities: the true error is 0."""
    missed = sum(calibration_intervals(_predictions(200, 3, 1.0, seed))["classwise_ece"][0] > 0 for seed in range(40))
    assert missed <= 4


def test_a_lower_end_above_0_and_a_small_p_value_say_the_same():
    for temperature in (1.0, 0.8, 0.6):
        preds = _predictions(300, 5, temperature, seed=3)
        low, _ = calibration_intervals(preds, level=0.9)["ece"]
        assert low == 0 or calibration_test(preds).p_value <= 0.0505


def test_the_test_holds_its_level_and_finds_what_is_clear():
    rejected = sum(calibration_test(_predictions(300, 5, 1.0, seed)).p_value <= 0.1 for seed in range(60))
    assert rejected <= 12
    found = calibration_test(_predictions(300, 5, 0.4, seed=0))
    assert found.p_value < 0.01
    assert found.ece == pytest.approx(metrics.ece(_predictions(300, 5, 0.4, seed=0)), abs=1e-12)
    assert found.expected[0] < found.expected[1] < found.ece


def test_one_sample_has_no_interval():
    with pytest.raises(ValueError, match="at least 2 samples, and there are 1"):
        calibration_intervals(Predictions.from_probs([[0.75, 0.25]], [0]))


@pytest.mark.parametrize(("options", "match"), [({"level": 1.0}, "level must lie"), ({"bins": 0}, "at least 1")])
def test_wrong_arguments(options, match):
    with pytest.raises(ValueError, match=match):
        calibration_intervals(_predictions(20, 2, 1.0, seed=0), **options)


def test_the_same_seed_gives_the_same_intervals():
    preds = _predictions(100, 3, 0.9, seed=4)
    assert calibration_intervals(preds) == calibration_intervals(preds)
    assert np.isfinite(list(calibration_intervals(preds, seed=5).values())).all()


def test_rounding_of_weighted_sums_leaves_the_estimate_inside():
    rng = np.random.default_rng(41)
    preds = Predictions.from_confidence(rng.random(20), rng.integers(0, 2, 20), weights=rng.random(20))
    gaps = HonestIntervals(SampledGaps(confidence_samples(preds)))
    for estimate in (0.2, np.nextafter(1.0, 0.0), 1.0):
        low, high = gaps.interval("mce", float(estimate), 0.9)
        assert low <= estimate <= high
