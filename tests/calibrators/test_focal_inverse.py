"""The focal inverse as a pure function."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, minimize_scalar

from focalcal.calibrators.focal_inverse import accurate_nll, inverse_logits


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
