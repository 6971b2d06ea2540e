"""Temperature scaling: invariants, warnings, argmax, agreement with other libraries."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from focalcal.calibrators import CalibrationWarning, TemperatureScaling, load_calibrator
from focalcal.metrics.calibration_error import ece
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from oracles.real_files import REAL_FILES, real_arrays
from oracles.temperature import best_inverse_temperature, grid_errors, sampled_predictions


def test_fit_learns_the_temperature_and_returns_self():
    val = sampled_predictions(2000, 5, 2.53)
    scaler = TemperatureScaling()
    assert scaler.fit(val) is scaler
    assert scaler.temperature_ == pytest.approx(1 / best_inverse_temperature(val.values, val.labels), rel=1e-9)
    torch.testing.assert_close(scaler.transform(val).values, val.values / scaler.temperature_)


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_a_second_fit_finds_nothing_left_to_do(objective):
    val = sampled_predictions(2000, 5, 3.0)
    once = TemperatureScaling(objective).fit_transform(val)
    again = TemperatureScaling(objective).fit(once).temperature_
    assert again == pytest.approx(1.0, rel=1e-9 if objective == "nll" else 0.11)


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nll_is_not_worse_and_accuracy_is_the_same(scale, dtype):
    val = sampled_predictions(500, 8, scale, dtype=dtype)
    calibrated = TemperatureScaling().fit_transform(val)
    assert nll(calibrated) <= nll(val) + 1e-7
    assert accuracy(calibrated) == accuracy(val)


def test_ece_objective_has_the_least_ece_of_the_grid():
    val, grid = sampled_predictions(800, 4, 2.0), (0.5, 1.0, 1.9, 2.1, 3.0)
    errors = grid_errors(val.values, val.labels, grid, bins=10)
    scaler = TemperatureScaling("ece", grid=grid, bins=10).fit(val)
    assert scaler.temperature_ == grid[np.argmin(errors)]
    assert ece(scaler.transform(val), bins=10) == pytest.approx(min(errors), abs=1e-12)


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=40)
def test_argmax_never_changes_even_between_neighbouring_floats(seed, temperature):
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(64, 3, generator=generator) + 1.0
    tied = torch.randint(0, 3, (64,), generator=generator)
    # The second largest is the largest, or the float just below it.
    values[torch.arange(64), tied] = values.amax(1).nextafter(torch.tensor(float(seed % 2) * 9 - 3))
    preds = Predictions.from_logits(values, torch.zeros(64, dtype=torch.int64))
    scaler = TemperatureScaling("ece", grid=[temperature]).fit(preds)
    assert torch.equal(scaler.transform(preds).values.argmax(1), values.argmax(1))
    probs = Predictions.from_probs(values / values.sum(1, keepdim=True), torch.zeros(64, dtype=torch.int64))
    assert torch.equal(scaler.transform(probs).values.argmax(1), probs.values.argmax(1))


def test_division_alone_would_merge_neighbours():
    """The case that `keep_argmax` is for: both logits become the same float, and the first would win."""
    low = torch.tensor(1.9999998)
    pair = torch.stack([low, low.nextafter(torch.tensor(3.0))])[None]
    merged = [t for t in torch.linspace(1.5, 1.99, 200) if (pair / t)[0, 0] == (pair / t)[0, 1]]
    assert merged
    preds = Predictions.from_logits(pair, [0])
    scaler = TemperatureScaling("ece", grid=[float(merged[0])]).fit(preds)
    assert scaler.transform(preds).values.argmax(1).item() == 1


def test_ties_stay_ties():
    preds = Predictions.from_logits(torch.tensor([[1.1, 1.1, 0.3], [0.2, 0.7, 0.7]]), [0, 2])
    scaled = TemperatureScaling("ece", grid=[0.7]).fit(preds).transform(preds).values
    assert scaled[0, 0] == scaled[0, 1]
    assert scaled[1, 1] == scaled[1, 2]


def test_probabilities_are_scaled_as_their_logarithms():
    val = sampled_predictions(1000, 6, 2.0)
    as_probs = Predictions.from_probs(val.probs(), val.labels)
    assert TemperatureScaling().fit(as_probs).temperature_ == pytest.approx(
        TemperatureScaling().fit(val).temperature_, rel=1e-9
    )
    calibrated = TemperatureScaling().fit(as_probs).transform(as_probs)
    assert calibrated.kind == "logits"
    torch.testing.assert_close(calibrated.probs(), TemperatureScaling().fit(val).transform(val).probs())


def test_a_zero_probability_is_scaled_as_the_smallest_float32():
    preds = Predictions.from_probs(torch.tensor([[1.0, 0.0]], dtype=torch.float64), [0])
    scaled = TemperatureScaling("ece", grid=[2.0]).fit(preds).transform(preds)
    assert scaled.probs()[0, 1].item() == pytest.approx(torch.finfo(torch.float32).tiny ** 0.5, rel=1e-9)


def test_a_masked_class_stays_masked():
    preds = Predictions.from_logits(torch.tensor([[2.0, -torch.inf, 0.0]] * 3), [0, 0, 2])
    scaled = TemperatureScaling().fit(preds).transform(preds)
    assert torch.isneginf(scaled.values[:, 1]).all()


def test_separable_data_warn_and_stay_bounded():
    val = Predictions.from_logits(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), [0, 1])
    with pytest.warns(CalibrationWarning, match=r"lower bound 0.0001: the label .* largest logit"):
        scaler = TemperatureScaling().fit(val)
    assert scaler.temperature_ == pytest.approx(1e-4)
    assert scaler.transform(val).values.isfinite().all()


def test_constant_and_contrary_logits_warn_and_stay_bounded():
    for values in (torch.full((2, 2), 3.0), torch.tensor([[0.0, 4.0], [4.0, 0.0]])):
        with pytest.warns(CalibrationWarning, match=r"upper bound 10000: the logits say nothing about the labels"):
            scaler = TemperatureScaling().fit(Predictions.from_logits(values, [0, 1]))
        assert scaler.temperature_ == pytest.approx(1e4)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"objective": "brier"}, "objective must be 'nll' or 'ece'"),
        ({"grid": []}, "grid must be"),
        ({"grid": [1.0, -2.0]}, "grid must be"),
        ({"bins": 0}, "bins"),
    ],
)
def test_wrong_arguments_are_named_at_fit(options, match):
    with pytest.raises(ValueError, match=match):
        TemperatureScaling(**options).fit(sampled_predictions(10, 2))


@pytest.mark.parametrize("name", REAL_FILES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probmetrics_finds_the_same_temperature(name, dtype):
    pytest.importorskip("numba", reason="probmetrics cannot be imported without numba.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrators = pytest.importorskip("probmetrics.calibrators")
        distributions = pytest.importorskip("probmetrics.distributions")
    probs, labels = real_arrays(name)
    probs, labels = torch.tensor(probs), torch.tensor(labels)
    reference = calibrators.TemperatureScalingCalibrator(max_bisection_steps=60)
    reference.fit_torch(distributions.CategoricalProbs(probs), labels)
    scaler = TemperatureScaling().fit(Predictions.from_probs(probs.to(dtype), labels))
    assert scaler.temperature_ == pytest.approx(1 / reference.invtemp_, rel=1e-6)


@pytest.mark.parametrize("name", REAL_FILES)
def test_nll_is_no_worse_than_scikit_learns(name):
    probs, labels = real_arrays(name)
    preds = Predictions.from_probs(probs, labels)
    logits = preds.logits().numpy()
    given = FrozenEstimator(_Given().fit(logits, labels))
    calibrated = CalibratedClassifierCV(given, method="temperature").fit(logits, labels)
    theirs = Predictions.from_probs(calibrated.predict_proba(logits), labels)
    assert nll(TemperatureScaling().fit_transform(preds)) <= nll(theirs) + 1e-9


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose decision function is its input."""

    def fit(self, values, labels):
        self.classes_ = np.unique(labels)
        self.n_features_in_ = values.shape[1]
        return self

    def decision_function(self, values):
        return values

    def predict(self, values):
        return self.classes_[values.argmax(axis=1)]


@pytest.mark.parametrize("grid", [np.array([1.0, 2.0]), torch.tensor([1.0, 2.0]), [1, 2]], ids=type)
def test_a_grid_may_be_an_array(grid, tmp_path):
    generator = torch.Generator().manual_seed(0)
    preds = Predictions.from_logits(
        torch.randn(200, 4, generator=generator) * 3, torch.randint(4, (200,), generator=generator)
    )
    scaler = TemperatureScaling(objective="ece", grid=grid).fit(preds)
    assert scaler.temperature_ == TemperatureScaling(objective="ece", grid=(1.0, 2.0)).fit(preds).temperature_
    scaler.save(tmp_path / "t.json")
    assert load_calibrator(tmp_path / "t.json").temperature_ == scaler.temperature_


def test_the_test_split_is_refused_however_it_is_written():
    preds = Predictions.from_logits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), split="Test")
    with pytest.raises(ValueError, match="split 'Test'"):
        TemperatureScaling().fit(preds)
