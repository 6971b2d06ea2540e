"""FocalInverse and FocalTemperatureScaling."""

import pytest
import torch

from focalcal.calibrators import CalibrationWarning, FocalInverse, FocalTemperatureScaling, TemperatureScaling
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
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
