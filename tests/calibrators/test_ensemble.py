"""Mixtures by likelihood, and ensemble temperature scaling."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.calibrators import EnsembleTemperatureScaling, TemperatureScaling
from focalcal.calibrators.ensemble import fit_mixture_weights, label_log_probs, label_shares
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions


def _by_expectation_maximisation(probs, shares, pseudo_count):
    """Slow and sure: every step raises the likelihood."""
    weights = np.full(probs.shape[1], 1 / probs.shape[1])
    for _ in range(20000):
        responsibility = probs * weights
        weights = shares @ (responsibility / responsibility.sum(1, keepdims=True)) + pseudo_count
        weights = weights / weights.sum()
    return weights


@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.0, 0.01]))
@settings(deadline=None, max_examples=15)
def test_the_weights_have_the_greatest_likelihood(seed, members, pseudo_count):
    generator = np.random.default_rng(seed)
    probs, shares = generator.uniform(0.01, 1, (30, members)), generator.dirichlet(np.ones(30))

    def loss(weights):
        prior = pseudo_count * np.log(np.maximum(weights, 1e-9)).sum() if pseudo_count else 0.0
        return -shares @ np.log(probs @ weights) - prior

    ours = fit_mixture_weights(np.log(probs), shares, pseudo_count)
    slow = _by_expectation_maximisation(probs, shares, pseudo_count)
    assert ours.sum() == pytest.approx(1)
    assert (ours >= 0).all()
    assert loss(ours) <= loss(slow) + 1e-6


def test_labels_that_nobody_expects_do_not_underflow():
    weights = fit_mixture_weights(np.array([[-2000.0, -2001.0], [-0.1, -0.5]]), np.array([0.5, 0.5]))
    assert weights == pytest.approx([1.0, 0.0], abs=1e-6)


def test_soft_labels_are_several():
    log_probs = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], dtype=torch.float64))
    labels = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    np.testing.assert_allclose(np.exp(label_log_probs(log_probs, labels)), [0.5, 0.3, 0.8])
    np.testing.assert_allclose(label_shares(labels, torch.tensor([1.0, 3.0])), [0.125, 0.125, 0.75])


def test_it_is_never_worse_than_its_members_on_the_fitting_data():
    val = sampled_predictions(400, 4, 2.0)
    fitted = EnsembleTemperatureScaling().fit(val)
    assert fitted.temperature_ == TemperatureScaling().fit(val).temperature_
    assert fitted.record_.nll_after <= min(nll(val), nll(TemperatureScaling().fit_transform(val)), np.log(4)) + 1e-9
    probs = [(val.values / fitted.temperature_).softmax(1), val.values.softmax(1), torch.full((400, 4), 0.25)]
    expected = sum(weight * part for weight, part in zip(fitted.weights_, probs, strict=True))
    torch.testing.assert_close(fitted.transform(val).probs(), expected)


def test_a_uniform_share_is_found():
    """A tenth of the labels is drawn at random: no temperature says that."""
    good = sampled_predictions(4000, 5, 1.0)
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(4000, generator=generator) < 0.1
    labels = torch.where(noise, torch.randint(0, 5, (4000,), generator=generator), good.labels)
    preds = Predictions.from_logits(4.0 * good.values, labels)
    fitted = EnsembleTemperatureScaling().fit(preds)
    assert fitted.weights_[2] > 0.02
    assert fitted.record_.nll_after < nll(TemperatureScaling().fit_transform(preds))
    assert accuracy(fitted.transform(preds)) == accuracy(preds)


def test_a_masked_class_stays_masked():
    val = sampled_predictions(50, 3, 2.0)
    wide = torch.cat([val.values, torch.full((50, 1), -torch.inf, dtype=torch.float64)], dim=1)
    calibrated = EnsembleTemperatureScaling().fit_transform(Predictions.from_logits(wide, val.labels))
    assert torch.isneginf(calibrated.values[:, 3]).all()
