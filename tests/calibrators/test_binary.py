"""Platt, beta and quadratic calibration are logistic regressions on features of one score."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from focalcal.calibrators import (
    BetaCalibration,
    CalibrationWarning,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
)
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions

KINDS = (PlattScaling, BetaCalibration, QuadraticScaling)


def _features(kind, score):
    """From the definitions, with scikit-learn's regression as the solver."""
    p = 1 / (1 + np.exp(-score))
    columns = {
        PlattScaling: [score],
        BetaCalibration: [np.log(p), -np.log(1 - p)],
        QuadraticScaling: [score, score**2],
    }
    return np.stack(columns[kind], axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_plain_logistic_regression(kind):
    val = sampled_predictions(800, 2, 2.0)
    score = (val.values[:, 1] - val.values[:, 0]).numpy()
    weights = np.linspace(0.5, 2.0, 800)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10000)
    reference.fit(_features(kind, score), val.labels.numpy(), weights)
    expected = reference.predict_proba(_features(kind, score))[:, 1]
    weighted = Predictions.from_logits(val.values, val.labels, weights=weights)
    np.testing.assert_allclose(kind().fit_transform(weighted).probs()[:, 1], expected, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_and_two_columns_are_the_same(kind):
    val = sampled_predictions(300, 2, 2.0)
    one = Predictions.from_logits(val.values[:, 1] - val.values[:, 0], val.labels)
    torch.testing.assert_close(kind().fit_transform(one).probs(), kind().fit_transform(val).probs(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_soft_labels_count_as_shares(kind):
    val = sampled_predictions(300, 2, 2.0)
    soft = torch.nn.functional.one_hot(val.labels, 2).double()
    hard, same = kind().fit(val), kind().fit(Predictions.from_logits(val.values, soft))
    torch.testing.assert_close(hard.coefficients_, same.coefficients_)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_of_the_score_is_undone(kind):
    good = sampled_predictions(5000, 2, 1.0)
    shifted = good.with_values(good.values + torch.tensor([0.0, 2.0]), "logits")
    assert nll(kind().fit_transform(shifted)) < nll(TemperatureScaling().fit_transform(shifted)) - 0.05
    assert nll(kind().fit_transform(shifted)) <= nll(good) + 1e-3


def test_platt_scaling_can_be_folded_and_the_others_not():
    val = sampled_predictions(300, 2, 2.0)
    platt = PlattScaling().fit(val)
    weight, bias = platt.linear_map()
    torch.testing.assert_close((val.values @ weight.T + bias).softmax(1), platt.transform(val).probs())
    for kind in (BetaCalibration, QuadraticScaling):
        with pytest.raises(ValueError, match="is not a linear map of the logits and cannot be folded"):
            kind().fit(val).linear_map()


@pytest.mark.parametrize("kind", KINDS)
def test_more_classes_and_masks_are_refused(kind):
    with pytest.raises(ValueError, match=r"is for two classes, and these predictions have 3; use StructuredScaling"):
        kind().fit(sampled_predictions(20, 3))
    masked = Predictions.from_logits(torch.tensor([[0.0, -torch.inf], [1.0, 2.0]]), [0, 1])
    with pytest.raises(ValueError, match="cannot take −inf"):
        kind().fit(masked)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data_get_a_bounded_answer(kind):
    score = torch.tensor([3.0, 2.0, -1.0, -4.0], dtype=torch.float64)
    with pytest.warns(CalibrationWarning, match="The label always has the larger logit"):
        separable = kind().fit_transform(Predictions.from_logits(score, [1, 1, 0, 0]))
    with pytest.warns(CalibrationWarning, match="say nothing about the labels, or the opposite"):
        reversed_scores = kind().fit_transform(Predictions.from_logits(score, [0, 0, 1, 1]))
    with pytest.warns(CalibrationWarning, match="say nothing about the labels, or the opposite"):
        constant = kind().fit_transform(Predictions.from_logits(torch.zeros(4, dtype=torch.float64), [0, 1, 1, 1]))
    mostly_right = torch.tensor([3.0, 2.0, 2.0, -1.0], dtype=torch.float64)
    with pytest.warns(CalibrationWarning, match="1 of 2 classes have no validation sample"):
        one_class = kind().fit_transform(Predictions.from_logits(mostly_right, [1, 1, 1, 1]))
    for calibrated in (separable, reversed_scores, constant, one_class):
        assert calibrated.values.isfinite().all()
    assert nll(reversed_scores) < 0.5
    torch.testing.assert_close(constant.probs()[:, 1], torch.full((4,), 0.75).double(), rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_zeros_are_mixed_with_the_uniform_distribution(kind):
    probs = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.6, 0.3] * 20, dtype=torch.float64)
    preds = Predictions.from_probs(probs, [0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 5)
    fitted = kind().fit(preds)
    assert 0 < fitted.mixture_.share < 0.5
    assert nll(fitted.transform(preds)) < 0.6
    with pytest.raises(ValueError, match="cannot be folded"):
        fitted.linear_map()
