"""Calibration by predicted class: against exact binomial tests, and the advice that was wrong."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from focalcal.metrics import calibration_by_class
from focalcal.predictions import Predictions
from focalcal.report.model_sources import model_sources
from focalcal.report.reported_model import ReportSettings, measure_model
from focalcal.report.wording import next_steps


def calibrated(n=2000, seed=0):
    """Ten classes whose priors differ; labels come from the model's own probabilities."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 10, generator=generator, dtype=torch.float64) - 0.5 * torch.arange(10)
    drawn = np.random.default_rng(seed).uniform(size=(n, 1))
    labels = (logits.softmax(1).cumsum(1).numpy() < drawn).sum(1).clip(max=9)
    return Predictions.from_logits(logits, labels)


def advice(preds):
    return next_steps(measure_model(model_sources({"m": preds}, None)[0], ReportSettings(bootstrap=20)))


def test_a_perfectly_calibrated_model_gets_no_advice_about_classes():
    """By label some class of it is off by more than 20 points, which was printed as advice."""
    preds = calibrated()
    assert not calibration_by_class(preds).significant.any()
    confidence, answer = preds.values.softmax(1).max(1)
    gaps = [float((confidence - (answer == k).double())[preds.labels == k].mean()) for k in range(10)]
    assert max(gaps) > 0.2
    assert not any("Look at class" in step for step in advice(calibrated()))


def test_a_class_that_is_off_where_it_is_predicted_is_named():
    preds = calibrated(4000)
    answer = preds.values.argmax(1)
    wrong = (answer == 3) & (torch.arange(4000) % 2 == 0)
    preds = Predictions.from_logits(preds.values, torch.where(wrong, 0, preds.labels))
    found = calibration_by_class(preds)
    assert found.significant[3]
    assert found.low[3] > 0.1
    assert any(step.startswith("Look at class '3', where it is predicted: over-confident") for step in advice(preds))


@pytest.mark.parametrize(("right", "n", "confidence"), [(8, 10, 0.9), (3, 10, 0.9), (199, 200, 0.95), (40, 100, 0.3)])
def test_p_values_are_those_of_a_binomial_test_where_confidences_are_equal(right, n, confidence):
    probs = torch.tensor([[confidence, 1 - confidence] if confidence > 0.5 else [confidence, 0.29, 0.29, 0.12]])
    preds = Predictions.from_probs(probs.double().expand(n, -1), (torch.arange(n) >= right).long())
    found = calibration_by_class(preds)
    tails = [binomtest(right, n, confidence, alternative=side).pvalue for side in ("less", "greater")]
    assert found.adjusted_p_value[0] == pytest.approx(min(2 * min(tails), 1), rel=1e-4)
    assert np.isnan(found.adjusted_p_value[1:]).all()
    ends = binomtest(right, n).proportion_ci(0.9, method="exact")
    assert (found.low[0], found.high[0]) == pytest.approx((confidence - ends.high, confidence - ends.low), abs=1e-6)


def test_p_values_are_corrected_for_the_number_of_classes():
    """Of 20 calibrated models with 10 classes each hardly any has a significant class."""
    assert sum(calibration_by_class(calibrated(500, seed)).significant.any() for seed in range(20)) <= 3


def test_copies_of_samples_do_not_make_a_class_significant():
    """The class's interval is that of clusters, whatever the number of samples."""
    preds = calibrated(300)
    copies = Predictions.from_logits(
        preds.values.repeat_interleave(20, 0),
        preds.labels.repeat_interleave(20),
        clusters=torch.arange(300).repeat_interleave(20),
    )
    once, found = calibration_by_class(preds), calibration_by_class(copies)
    assert not found.significant.any()
    width = found.high - found.low
    np.testing.assert_allclose(width[once.count >= 10], (once.high - once.low)[once.count >= 10], rtol=0.15)


def test_a_class_that_is_off_in_every_cluster_is_named():
    preds = calibrated(4000)
    answer = preds.values.argmax(1)
    wrong = (answer == 3) & (torch.arange(4000) % 2 == 0)
    labels = torch.where(wrong, 0, preds.labels)
    found = calibration_by_class(Predictions.from_logits(preds.values, labels, clusters=torch.arange(4000) // 80))
    alone = calibration_by_class(Predictions.from_logits(preds.values, labels))
    assert found.significant[3]
    assert 0.8 < (found.high - found.low)[3] / (alone.high - alone.low)[3] < 2
