"""Isotonic calibration and histogram binning, one class against the rest."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression

from focalcal.calibrators import CalibrationWarning, HistogramBinning, IsotonicCalibration
from focalcal.calibrators.one_vs_rest import PiecewiseLinear
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.temperature import one_hot, sampled_predictions


@pytest.mark.parametrize("kind", [IsotonicCalibration, HistogramBinning])
def test_by_default_no_nll_is_infinite(kind):
    """Frequencies of 0 get a share of 1/(n + 1) of the uniform distribution, n counted by weights."""
    val = sampled_predictions(60, 5, 3.0)
    calibrator = kind().fit(val)
    assert calibrator.smoothing_ == pytest.approx(1 / 61)
    for label in range(5):
        test = Predictions.from_logits(val.values, torch.full((60,), label))
        assert nll(calibrator.transform(test)) <= np.log(5 * 61) + 1e-9
    weights = torch.cat([torch.ones(30), torch.zeros(30)]).double()
    weighted = kind().fit(Predictions.from_logits(val.values, val.labels, weights=weights))
    assert weighted.smoothing_ == pytest.approx(1 / 31)


@pytest.mark.parametrize("kind", [IsotonicCalibration, HistogramBinning])
def test_a_masked_class_stays_masked(kind):
    val = sampled_predictions(60, 3, 3.0)
    masked = val.values.clone()
    masked[:, 1] = -torch.inf
    preds = Predictions.from_logits(masked, val.labels.masked_fill(val.labels == 1, 2))
    calibrator = kind().fit(preds)
    calibrated = calibrator.transform(preds)
    assert calibrated.values[:, 1].abs().max() == 0
    torch.testing.assert_close(calibrator.to_module()(masked).exp(), calibrated.values)


def _isotonic_oracle(probs, labels, new, weights=None):
    """scikit-learn's regression for each class; a row of zeros keeps its probabilities."""
    targets = one_hot(labels, probs.shape[1])
    columns = []
    for k in range(probs.shape[1]):
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        columns.append(regression.fit(probs[:, k], targets[:, k], weights).predict(new[:, k]))
    mapped = np.stack(columns, axis=1)
    total = mapped.sum(axis=1, keepdims=True)
    return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), new)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_same_as_scikit_learn_class_by_class(classes):
    val, test = sampled_predictions(300, classes, 2.0), sampled_predictions(200, classes, 2.0, seed=1)
    weights = torch.linspace(0.1, 3.0, 300).double()
    weighted = Predictions.from_logits(val.values, val.labels, weights=weights)
    calibrated = IsotonicCalibration(smoothing=0.0).fit(weighted).transform(test)
    expected = _isotonic_oracle(val.probs().numpy(), val.labels, test.probs().numpy(), weights.numpy())
    assert calibrated.kind == "probs"
    np.testing.assert_allclose(calibrated.values.numpy(), expected, atol=1e-12)


def test_soft_labels_are_regressed_on():
    val = sampled_predictions(200, 3, 2.0)
    soft = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    calibrated = IsotonicCalibration(smoothing=0.0).fit_transform(Predictions.from_logits(val.values, soft))
    np.testing.assert_allclose(
        calibrated.values, _isotonic_oracle(val.probs().numpy(), soft.numpy(), val.probs().numpy()), atol=1e-12
    )


def test_a_row_that_every_curve_maps_to_zero_is_left_as_it_was():
    val = Predictions.from_probs([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0], [0.1, 0.2, 0.7], [0.0, 0.1, 0.9]], [0, 1, 2, 2])
    other = Predictions.from_probs([[0.2, 0.3, 0.5], [0.05, 0.05, 0.9]], [0, 0])
    calibrated = IsotonicCalibration(smoothing=0.0).fit(val).transform(other)
    torch.testing.assert_close(calibrated.values.sum(1), torch.ones(2).double())
    zero = Predictions.from_probs([[0.05, 0.95]] * 2, [1, 1])
    with pytest.warns(CalibrationWarning, match=r"1 of 2 classes have no validation sample \(0\): Isotonic.* to 0"):
        never = IsotonicCalibration(smoothing=0.0).fit(zero)
    never.curve_ = (torch.zeros(1).double(), torch.zeros(1).double())
    torch.testing.assert_close(never.transform(zero).values, zero.values)


def test_smoothing_keeps_the_nll_of_other_data_finite():
    val = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    test = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8]], [1, 0])
    assert nll(IsotonicCalibration(smoothing=0.0).fit(val).transform(test)) == np.inf
    smooth = IsotonicCalibration(smoothing=0.02).fit(val).transform(test)
    assert nll(smooth) == pytest.approx(-np.log(0.01))
    assert nll(IsotonicCalibration().fit(val).transform(test)) == pytest.approx(-np.log(1 / 6))
    with pytest.raises(ValueError, match="smoothing must be a share"):
        IsotonicCalibration(smoothing=2.0).fit(val)


@given(
    arrays(np.float64, st.integers(1, 6), elements=st.floats(0, 1), unique=True),
    arrays(np.float64, 7, elements=st.floats(0, 1)),
    st.data(),
)
@settings(deadline=None, max_examples=100)
def test_piecewise_linear_is_numpys_interpolation(thresholds, points, data):
    thresholds = np.sort(thresholds)
    values = data.draw(arrays(np.float64, len(thresholds), elements=st.floats(0, 1)))
    longer = (torch.linspace(0, 1, 9).double(), torch.linspace(0, 1, 9).double())
    module = PiecewiseLinear((torch.tensor(thresholds), longer[0]), (torch.tensor(values), longer[1]), 0.0)
    curves = module.curves(torch.tensor(np.stack([points, points], axis=1)))
    np.testing.assert_allclose(curves[:, 0], np.interp(points, thresholds, values), atol=1e-9)
    np.testing.assert_allclose(curves[:, 1], points, atol=1e-12)


def test_the_nll_of_the_fitting_data_is_finite():
    val = sampled_predictions(500, 5, 3.0)
    assert nll(IsotonicCalibration(smoothing=0.0).fit_transform(val)) < nll(val)


def _bin(p, bins):
    return next(m for m in range(bins) if p <= (m + 1) / bins)


def _histogram_oracle(probs, labels, new, bins, weights):
    """Value by value, from the definition."""
    targets, mapped = one_hot(labels, probs.shape[1]), np.zeros_like(new)
    for row, k in np.ndindex(*new.shape):
        inside = [i for i in range(len(probs)) if _bin(probs[i, k], bins) == _bin(new[row, k], bins)]
        weight = sum(weights[i] for i in inside)
        mapped[row, k] = sum(weights[i] * targets[i, k] for i in inside) / weight if inside else new[row, k]
    total = mapped.sum(axis=1, keepdims=True)
    return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), new)


@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("soft", [False, True])
def test_the_same_as_its_definition(bins, soft):
    val, test = sampled_predictions(60, 3, 2.0), sampled_predictions(40, 3, 2.0, seed=1)
    generator = torch.Generator().manual_seed(0)
    labels = torch.rand(60, 3, generator=generator, dtype=torch.float64).softmax(1) if soft else val.labels
    weights = torch.rand(60, generator=generator, dtype=torch.float64) + 0.1
    fitted = HistogramBinning(bins, smoothing=0.0).fit(Predictions.from_logits(val.values, labels, weights=weights))
    expected = _histogram_oracle(val.probs().numpy(), labels.numpy(), test.probs().numpy(), bins, weights.numpy())
    np.testing.assert_allclose(fitted.transform(test).values, expected, atol=1e-12)


def test_a_value_on_an_edge_belongs_to_the_bin_that_ends_there():
    val = Predictions.from_probs([[0.5, 0.5], [0.4, 0.6], [0.3, 0.7]], [0, 1, 1])
    fitted = HistogramBinning(bins=2, smoothing=0.0).fit(val)
    torch.testing.assert_close(
        fitted.frequency_, torch.tensor([[1 / 3, torch.nan], [0.0, 1.0]]).double(), equal_nan=True
    )


def test_a_row_of_zeros_and_an_empty_bin_leave_probabilities_as_they_were():
    val = Predictions.from_probs([[0.9, 0.1, 0.0], [0.9, 0.0, 0.1]], [1, 1])
    with pytest.warns(CalibrationWarning, match=r"2 of 3 classes have no validation sample \(0, 2\): HistogramBinning"):
        fitted = HistogramBinning(bins=2, smoothing=0.0).fit(val)
    calibrated = fitted.transform(Predictions.from_probs([[0.9, 0.05, 0.05]], [0]))
    torch.testing.assert_close(calibrated.values, torch.tensor([[0.0, 1.0, 0.0]]).double())
    with pytest.warns(CalibrationWarning, match="1 of 2 classes have no validation sample"):
        none_right = HistogramBinning(bins=2, smoothing=0.0).fit(Predictions.from_probs([[0.9, 0.1]] * 2, [0, 0]))
    none_right.frequency_ = torch.zeros(2, 2).double()
    torch.testing.assert_close(
        none_right.transform(Predictions.from_probs([[0.7, 0.3]], [0])).values, torch.tensor([[0.7, 0.3]]).double()
    )


def test_the_number_of_bins_is_checked():
    with pytest.raises(ValueError, match="bins"):
        HistogramBinning(bins=0).fit(sampled_predictions(5, 2))
