"""FocalInverse and FocalTemperatureScaling."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, minimize_scalar

from focalcal.calibrators import CalibrationWarning, FocalInverse, FocalTemperatureScaling, TemperatureScaling
from focalcal.calibrators.focal_inverse import (
    accurate_nll,
    fit_temperature_and_gamma,
    inverse_logits,
    loss_and_gradient,
)
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature
from oracles.real_files import REAL_FILES, real_predictions
from oracles.temperature import sampled_predictions


def test_the_inverse_needs_no_fit_and_gamma_zero_changes_nothing():
    preds = sampled_predictions(50, 4, 2.0)
    torch.testing.assert_close(FocalInverse(0.0).transform(preds).probs(), preds.probs())
    fitted = FocalInverse(2.0).fit(preds)
    torch.testing.assert_close(fitted.transform(preds).values, FocalInverse(2.0).transform(preds).values)
    assert fitted.record_.nll_before == nll(preds)


@pytest.mark.parametrize("gamma", [-0.5, 1.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_inverse_keeps_the_prediction_of_saturated_logits(gamma, dtype):
    preds = sampled_predictions(300, 5, 40.0, dtype=dtype)
    inverted = FocalInverse(gamma).transform(preds)
    assert inverted.values.isfinite().all()
    assert torch.equal(inverted.values.argmax(1), preds.values.argmax(1))


@pytest.mark.parametrize("gamma", [-1.0, float("nan"), float("inf"), "3", True])
def test_a_wrong_gamma_is_named(gamma):
    with pytest.raises(ValueError, match="gamma must be a number above −1"):
        FocalInverse(gamma).transform(sampled_predictions(5, 2))


@pytest.mark.parametrize("name", REAL_FILES)
def test_never_worse_than_temperature_scaling_on_the_fitting_data(name):
    val = real_predictions(name).select(range(2000))
    focal, plain = FocalTemperatureScaling().fit(val), TemperatureScaling().fit(val)
    assert focal.record_.nll_after <= plain.record_.nll_after + 1e-9
    assert accuracy(focal.transform(val)) == accuracy(val)


def test_a_network_at_the_focal_minimum_is_repaired():
    """Labels are the posterior p, outputs q what minimises the focal loss with γ = 3 there: the inverse gives p."""
    q = torch.linspace(0.5, 0.9, 400).double()
    outputs = torch.stack([q, 1 - q], dim=1)
    posterior = FocalInverse(3.0).transform(Predictions.from_probs(outputs, [0] * 400)).probs()
    preds = Predictions.from_probs(outputs, posterior)
    assert nll(FocalInverse(3.0).transform(preds)) < nll(TemperatureScaling().fit_transform(preds)) < nll(preds)
    scaler = FocalTemperatureScaling().fit(preds)
    assert (scaler.temperature_, scaler.gamma_) == pytest.approx((1.0, 3.0), abs=1e-3)


def test_separable_data_warn_and_leave_gamma_at_zero():
    val = Predictions.from_logits(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), [0, 1])
    with pytest.warns(CalibrationWarning, match="lower bound"):
        scaler = FocalTemperatureScaling().fit(val)
    assert (scaler.temperature_, scaler.gamma_) == (pytest.approx(1e-4), 0.0)


def _focal_predictions(samples, classes, temperature, gamma):
    """Logits for which (temperature, gamma) gives the posterior, which stands in the labels: there is no noise."""
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(samples, classes))) * 2.0
    posterior = inverse_logits(accurate_nll(logits), gamma).softmax(1)
    return Predictions.from_logits(temperature * logits, posterior)


def _loss(preds, temperature, gamma):
    return loss_and_gradient(preds, np.array([-math.log(temperature), gamma]))[0]


@pytest.mark.parametrize("gamma", [-0.4, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("soft", [False, True])
def test_the_gradient_is_that_of_the_loss(gamma, soft):
    preds = sampled_predictions(80, 4, 3.0)
    labels = torch.rand(80, 4, dtype=torch.float64).softmax(1) if soft else preds.labels
    preds = Predictions.from_logits(preds.values, labels, weights=torch.linspace(0.1, 1, 80).double())
    point = np.array([0.2, gamma])
    _, gradient = loss_and_gradient(preds, point)
    for i, step in enumerate(1e-6 * np.eye(2)):
        difference = loss_and_gradient(preds, point + step)[0] - loss_and_gradient(preds, point - step)[0]
        assert gradient[i] == pytest.approx(difference / 2e-6, abs=1e-8)


def test_the_loss_is_the_nll_of_the_inverse():
    preds = sampled_predictions(50, 3, 2.0)
    posterior = inverse_logits(accurate_nll(preds.values / 1.7), 1.3).log_softmax(1)
    expected = -posterior.gather(1, preds.labels[:, None]).mean().item()
    assert _loss(preds, 1.7, 1.3) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("temperature", "gamma"), [(1.0, 3.0), (2.5, 1.0), (0.5, -0.3)])
def test_it_recovers_the_temperature_and_gamma_of_the_posterior(temperature, gamma):
    preds = _focal_predictions(5000, 4, temperature, gamma)
    start = fit_inverse_temperature(preds.values, preds.labels).inverse_temperature
    assert fit_temperature_and_gamma(preds, start) == pytest.approx((temperature, gamma), abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_temperature_scaling(seed):
    preds = sampled_predictions(60, 3, 2.0, seed=seed)
    plain = fit_inverse_temperature(preds.values, preds.labels)
    temperature, gamma = fit_temperature_and_gamma(preds, plain.inverse_temperature)
    assert -0.5 <= gamma <= 5.0
    assert _loss(preds, temperature, gamma) <= plain.nll + 1e-12


def test_no_grid_point_is_better():
    preds = sampled_predictions(300, 3, 2.0, seed=11)
    plain = fit_inverse_temperature(preds.values, preds.labels)
    temperature, gamma = fit_temperature_and_gamma(preds, plain.inverse_temperature)
    best = _loss(preds, temperature, gamma)
    centre = math.log(plain.inverse_temperature)
    grid = [(u, g) for u in np.linspace(centre - 1.5, centre + 1.5, 31) for g in np.linspace(-0.5, 5, 23)]
    assert best <= min(loss_and_gradient(preds, np.array(point))[0] for point in grid) + 1e-9


def test_masked_classes_and_samples_without_weight():
    values = torch.tensor([[4.0, -torch.inf, 0.0], [3.0, 1.0, 0.0], [2.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).double()
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0]).double()
    preds = Predictions.from_logits(values, [0, 1, 0, 2], weights=weights)
    loss, gradient = loss_and_gradient(preds.select([0, 1, 2]), np.array([0.0, 1.0]))
    assert math.isfinite(loss)
    assert all(map(math.isfinite, gradient))
    temperature, gamma = fit_temperature_and_gamma(preds, 1.0)
    assert (temperature, gamma) == pytest.approx(fit_temperature_and_gamma(preds.select([0, 1, 2]), 1.0))


def _binary_minimiser(eta, gamma):
    def risk(q):
        return -eta * (1 - q) ** gamma * np.log(q) - (1 - eta) * q**gamma * np.log(1 - q)

    return minimize_scalar(risk, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-13}).x


@pytest.mark.parametrize(("gamma", "minimiser"), [(1, 0.774), (2, 0.694), (3, 0.647), (5, 0.597)])
def test_the_papers_minimisers_map_back_to_the_posterior(gamma, minimiser):
    q = _binary_minimiser(0.9, gamma)
    assert q == pytest.approx(minimiser, abs=5e-4)
    posterior = inverse_logits(-torch.tensor([q, 1 - q], dtype=torch.float64).log(), gamma).softmax(0)
    assert posterior[0].item() == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 2.0, 4.0])
def test_the_minimiser_over_four_classes_maps_back_to_the_posterior(gamma):
    eta = np.array([0.55, 0.25, 0.15, 0.05])

    def risk(z):
        log_q = z - np.logaddexp.reduce(z)
        return -(eta * (1 - np.exp(log_q)) ** gamma * log_q).sum()

    z = minimize(risk, np.log(eta), method="BFGS", options={"gtol": 1e-9}).x
    posterior = inverse_logits(accurate_nll(torch.tensor(z)[None]), gamma).softmax(1)
    np.testing.assert_allclose(posterior[0], eta, atol=1e-5)


def test_gamma_zero_changes_nothing():
    nll = accurate_nll(torch.randn(20, 5, dtype=torch.float64))
    torch.testing.assert_close(inverse_logits(nll, 0.0), -nll)


@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=st.floats(-400, 400)),
    st.floats(-0.5, 5),
)
@settings(deadline=None, max_examples=200)
def test_finite_and_in_the_same_order_however_saturated(logits, gamma):
    logits = torch.tensor(logits)
    inverted = inverse_logits(accurate_nll(logits), gamma)
    assert inverted.isfinite().all()
    order = logits.argsort(dim=1)
    assert (inverted.gather(1, order).diff(dim=1) >= -1e-9 * inverted.abs().amax()).all()


def test_nll_keeps_its_digits_where_log_softmax_rounds_to_zero():
    logits = torch.tensor([[90.0, 0.0, -1.0]], dtype=torch.float64)
    assert (-logits.log_softmax(1))[0, 0] == 0
    exact = np.exp(-90.0) + np.exp(-91.0)
    assert accurate_nll(logits)[0, 0].item() == pytest.approx(exact, rel=1e-12)


def test_a_masked_class_stays_masked():
    inverted = inverse_logits(accurate_nll(torch.tensor([[1.0, -torch.inf, 0.0]], dtype=torch.float64)), 3.0)
    assert torch.isneginf(inverted[0, 1])
    assert inverted[0, 0].isfinite()
