"""Intervals of means from sums alone, against the bootstrap and the obvious formulas."""

import math

import numpy as np
import pytest
import torch

from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.gap_intervals import z_score
from focalcal.metrics.mean_intervals import MeanIntervals, products_of_terms
from focalcal.metrics.samples import sample_statistics
from focalcal.metrics.sums import mean_terms, means_of_samples
from focalcal.predictions import Predictions


def _predictions(n, seed, weights=None, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 7, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(sharpness * logits, labels, weights=weights)


def _intervals(preds, names, level=0.9):
    stats = sample_statistics(preds)
    return MeanIntervals(means_of_samples(stats), products_of_terms(mean_terms(stats))).at(names, level)


@pytest.mark.parametrize("weighted", [False, True])
def test_as_wide_as_the_bootstraps(weighted):
    weights = torch.rand(3000, generator=torch.Generator().manual_seed(5)) + 0.1 if weighted else None
    preds = _predictions(3000, 1, weights, sharpness=3.0)
    names = [
        "error", "accuracy", "top_5_accuracy", "nll", "brier", "signed_gap", "mean_confidence",
        "mean_confidence_right", "mean_confidence_wrong", "mean_entropy", "mean_entropy_right", "confident_share",
    ]  # fmt: skip
    found, drawn = _intervals(preds, names), bootstrap(preds, metrics=names, bootstrap=2000)
    for name in names:
        (low, high), (other_low, other_high) = found[name], drawn.intervals[name]
        assert low < drawn.estimates[name] < high
        assert (high - low) / (other_high - other_low) == pytest.approx(1, abs=0.08), name
        assert low == pytest.approx(other_low, abs=0.15 * (high - low)), name


def test_the_standard_error_of_a_mean_is_that_of_the_formula():
    preds = _predictions(500, 2)
    nll = sample_statistics(preds).nll.numpy()
    low, high = _intervals(preds, ["nll"])["nll"]
    assert (high - low) / 2 == pytest.approx(z_score(0.9) * nll.std() / math.sqrt(500), rel=1e-6)


def test_all_right_is_not_certainty():
    preds = Predictions.from_probs(np.array([[0.9, 0.1]]).repeat(20, 0), np.zeros(20, dtype=np.int64))
    low, high = _intervals(preds, ["error"])["error"]
    assert low == 0
    assert 0.1 < high < 0.15


def test_what_is_undefined_has_no_interval():
    preds = Predictions.from_probs(np.array([[0.9, 0.1]]).repeat(20, 0), np.zeros(20, dtype=np.int64))
    found = _intervals(preds, ["mean_confidence_wrong", "confident_accuracy", "ece"])
    assert set(found) == {"mean_confidence_wrong", "confident_accuracy"}
    assert all(math.isnan(low) for low, _ in found.values())
    (one,) = _intervals(_predictions(1, 1), ["nll"]).values()
    assert math.isnan(one[0])
    impossible = Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    assert math.isnan(_intervals(impossible, ["nll"])["nll"][0])
