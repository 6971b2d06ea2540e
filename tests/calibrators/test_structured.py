"""Structured scaling: near temperature scaling with few samples, whatever the scale and level of the logits."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from focalcal.calibrators import CalibrationWarning, StructuredScaling, TemperatureScaling
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.affine import penalised_nll
from oracles.temperature import best_inverse_temperature, sampled_predictions

KINDS = ("vector", "matrix")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [1.0, 0.1])
def test_it_is_the_optimum_of_its_definition(kind, strength):
    """softmax((I + diag(v) + M) u + b), ridge s·k/n on v and b, s·k(k − 1)/n on M, n = (Σw)²/Σw²."""
    val = sampled_predictions(150, 3, 2.0)
    weights = torch.linspace(0.2, 2.0, 150, dtype=torch.float64)
    fitted = StructuredScaling(kind, strength=strength).fit(
        Predictions.from_logits(val.values, val.labels, weights=weights)
    )
    beta = best_inverse_temperature(val.values, val.labels, weights.numpy())
    inputs = (beta * (val.values - val.values.mean(1, keepdim=True))).numpy()
    own = strength * 3 / float(weights.sum() ** 2 / weights.square().sum())

    def loss(flat):
        matrix = np.diag(flat[:3]) if kind == "vector" else flat[:-3].reshape(3, 3)
        return penalised_nll(inputs, val.labels, matrix, flat[-3:], 2 * own, own, own, 1.0, weights.numpy())

    ours = np.concatenate([(fitted.weight_ / beta).numpy().ravel(), fitted.bias_.numpy()])
    start = np.concatenate([np.ones(3) if kind == "vector" else np.eye(3).ravel(), np.zeros(3)])
    assert loss(ours) == pytest.approx(minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).fun, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_scale_nor_level_of_the_logits_matters(kind):
    val = sampled_predictions(200, 4, 2.0)
    expected = StructuredScaling(kind).fit_transform(val).probs()
    for factor, level in ((1e-3, 0.0), (1e3, 0.0), (1.0, 50.0)):
        shifts = level * torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]
        moved = val.with_values(factor * val.values + shifts, "logits")
        torch.testing.assert_close(StructuredScaling(kind).fit_transform(moved).probs(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [12, 60, 400])
def test_the_nll_is_never_above_that_of_temperature_scaling(kind, samples):
    val = sampled_predictions(samples, 6, 2.0, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = StructuredScaling(kind, strength=0.5).fit(val)
    assert fitted.record_.nll_after <= nll(TemperatureScaling().fit_transform(val)) + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_strength_is_temperature_scaling(kind):
    val = sampled_predictions(200, 4, 2.0)
    expected = TemperatureScaling().fit_transform(val).probs()
    stiff = StructuredScaling(kind, strength=1e7).fit_transform(val)
    torch.testing.assert_close(stiff.probs(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_folded_into_a_linear_layer(kind):
    val = sampled_predictions(200, 4, 2.0)
    fitted = StructuredScaling(kind).fit(val)
    weight, bias = fitted.linear_map()
    folded = (val.values @ weight.T + bias).softmax(1)
    torch.testing.assert_close(folded, fitted.transform(val).probs(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_class_stays_masked_and_says_nothing(kind):
    val = sampled_predictions(300, 3, 2.0)
    wide = torch.cat([val.values, torch.full((300, 1), -torch.inf, dtype=torch.float64)], dim=1)
    masked = StructuredScaling(kind).fit_transform(Predictions.from_logits(wide, val.labels))
    assert torch.isneginf(masked.values[:, 3]).all()
    assert masked.values[:, :3].isfinite().all()
    assert nll(masked) < nll(val)


def test_cross_validation_takes_the_strength_that_fits():
    good = sampled_predictions(3000, 3, 1.0)
    mixture = torch.tensor([[1.0, 0.8, 0.0], [0.0, 1.0, 0.8], [0.8, 0.0, 1.0]]).double()
    spoilt = good.with_values(good.values @ mixture.T, "logits")
    chosen = StructuredScaling("matrix", strength="cv").fit(spoilt)
    assert chosen.strength_ < 1.0
    assert chosen.describe() == f"structured with 12 fitted numbers, penalty strength {chosen.strength_:g}"


def test_more_than_200_classes_are_refused_as_a_matrix():
    val = sampled_predictions(210, 201, 1.0)
    with pytest.raises(ValueError, match=r"201 classes has too many.*use StructuredScaling\('vector'\)"):
        StructuredScaling("matrix").fit(val)


def test_parameters_are_checked():
    val = sampled_predictions(20, 2)
    with pytest.raises(ValueError, match="kind must be 'vector' or 'matrix', not 'full'"):
        StructuredScaling("full").fit(val)
    for strength in (0.0, -1.0, "auto", True, float("inf")):
        with pytest.raises(ValueError, match="strength must be a number above 0 or 'cv'"):
            StructuredScaling(strength=strength).fit(val)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data_get_a_bounded_answer_and_a_warning_with_its_cause(kind):
    lacking = sampled_predictions(60, 5, 2.0)
    lacking = Predictions.from_logits(lacking.values, lacking.labels.clamp(max=3))
    one_class = Predictions.from_logits(lacking.values, torch.zeros(60, dtype=torch.int64))
    few = sampled_predictions(4, 9, 2.0)
    separable = Predictions.from_logits(10.0 * torch.eye(3, dtype=torch.float64), [0, 1, 2])
    constant = Predictions.from_logits(torch.zeros(6, 3, dtype=torch.float64), [0, 1, 2, 0, 1, 2])
    for preds, cause in (
        (lacking, r"1 of 5 classes have no validation sample \(4\)"),
        (one_class, r"4 of 5 classes have no validation sample \(1, 2, 3, …\)"),
        (few, "classes have no validation sample"),
        (separable, "the label .* always has the largest logit"),
        (constant, "the logits say nothing about the labels"),
    ):
        with pytest.warns(CalibrationWarning, match=cause):
            calibrated = StructuredScaling(kind).fit_transform(preds)
        assert calibrated.values.isfinite().all()
        assert np.isfinite(nll(calibrated))
