"""The mixture with the uniform distribution, for saved probabilities that are exactly 0."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from focalcal.calibrators import (
    CalibrationWarning,
    DirichletCalibration,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    load_calibrator,
)
from focalcal.calibrators.uniform_mixture import effective_samples, fit_uniform_mixture, has_zeros
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from oracles.temperature import one_hot, sampled_predictions


def hard_predictions(samples=600, classes=4, seed=0):
    """Probabilities rounded to fifths, as of five neighbours, with labels from the unrounded ones."""
    preds = sampled_predictions(samples, classes, 1.0, seed=seed)
    votes = torch.distributions.Multinomial(5, preds.probs())
    torch.manual_seed(seed)
    return Predictions.from_probs(votes.sample() / 5, preds.labels)


def _loss(preds, log_beta, share, weights=None):
    z = np.log(np.maximum(preds.values.numpy(), 1.1754944e-38))
    scaled = np.exp(np.exp(log_beta) * (z - z.max(1, keepdims=True)))
    probs = (1 - share) * scaled / scaled.sum(1, keepdims=True) + share / z.shape[1]
    targets = one_hot(preds.labels, z.shape[1])
    return np.average(-(targets * np.log(probs)).sum(1), weights=weights)


@pytest.mark.parametrize("soft", [False, True])
def test_temperature_and_share_have_the_least_nll(soft):
    preds = hard_predictions()
    weights = torch.linspace(0.5, 1.5, 600, dtype=torch.float64)
    labels = 0.9 * torch.nn.functional.one_hot(preds.labels, 4).double() + 0.025 if soft else preds.labels
    preds = Predictions.from_probs(preds.values, labels, weights=weights)
    found = fit_uniform_mixture(preds.logits(), preds.labels, preds.weights)
    ours = _loss(preds, -np.log(found.temperature), found.share, weights.numpy())
    slow = minimize(
        lambda x: _loss(preds, x[0], 1 / (1 + np.exp(-x[1])), weights.numpy()),
        [-np.log(found.temperature) + 0.1, np.log(found.share) + 0.1],
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-12},
    )
    assert ours <= slow.fun + 1e-7


def test_it_is_on_where_zeros_are_and_off_elsewhere(tmp_path):
    hard, soft = hard_predictions(), sampled_predictions(200, 4, 2.0)
    assert has_zeros(hard)
    assert not has_zeros(soft)
    assert TemperatureScaling().fit(soft).uniform_share_ == 0
    fitted = TemperatureScaling().fit(hard)
    assert fitted.uniform_share_ >= 1 / 601
    assert "share of" in fitted.describe()
    with pytest.raises(ValueError, match="mixes in the uniform distribution and cannot be folded"):
        fitted.linear_map()
    fitted.save(tmp_path / "t.json")
    assert load_calibrator(tmp_path / "t.json").uniform_share_ == fitted.uniform_share_
    plain = TemperatureScaling(mix_uniform=False).fit(hard)
    assert plain.uniform_share_ == 0
    test = hard_predictions(seed=1)
    assert nll(fitted.transform(test)) < 0.95 * nll(plain.transform(test))
    assert accuracy(fitted.transform(test)) == accuracy(test)


@pytest.mark.parametrize("calibrator", [VectorScaling(), DirichletCalibration(), StructuredScaling()])
def test_zeros_no_longer_spoil_linear_maps(calibrator):
    val, test = hard_predictions(), hard_predictions(seed=1)
    calibrated = calibrator.fit(val).transform(test)
    assert nll(calibrated) < nll(TemperatureScaling().fit(val).transform(test)) + 0.02
    with pytest.raises(ValueError, match="mixes in the uniform distribution"):
        calibrator.linear_map()


def test_it_can_be_asked_for_at_any_scale_of_logits():
    good = sampled_predictions(2000, 4, 1.0)
    shares = [
        TemperatureScaling(mix_uniform=True).fit(good.with_values(s * good.values, "logits")) for s in (1e-3, 1e3)
    ]
    assert shares[0].temperature_ * 1e6 == pytest.approx(shares[1].temperature_, rel=1e-3)
    with pytest.raises(ValueError, match="mix_uniform is fitted by NLL"):
        TemperatureScaling("ece", mix_uniform=True).fit(good)
    with pytest.raises(ValueError, match="mix_uniform must be True, False or None"):
        TemperatureScaling(mix_uniform="yes").fit(good)


def test_a_masked_class_stays_masked():
    val = sampled_predictions(100, 3, 2.0)
    wide = torch.cat([val.values, torch.full((100, 1), -torch.inf, dtype=torch.float64)], dim=1)
    alone = TemperatureScaling(mix_uniform=True).fit(val)
    among = TemperatureScaling(mix_uniform=True).fit(Predictions.from_logits(wide, val.labels))
    assert among.uniform_share_ == pytest.approx(alone.uniform_share_, abs=1e-6)
    assert torch.isneginf(among.to_module()(wide)[:, 3]).all()


def test_separable_probabilities_are_warned_about():
    preds = Predictions.from_probs([[1.0, 0.0], [0.0, 1.0]] * 10, [0, 1] * 10)
    with pytest.warns(CalibrationWarning, match="the label .* always has the largest probability"):
        fitted = TemperatureScaling().fit(preds)
    assert fitted.transform(preds).values.isfinite().all()


def test_effective_samples():
    assert effective_samples(None, 7) == 7
    assert effective_samples(torch.tensor([1.0, 1.0, 0.0]), 3) == pytest.approx(2)
    assert effective_samples(torch.tensor([5e-324, 5e-324], dtype=torch.float64), 2) == pytest.approx(2)
