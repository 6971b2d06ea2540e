"""The solver for the temperature: agreement with slow versions, extreme scales, cases without an optimum."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import focalcal as fc
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature
from oracles.temperature import best_inverse_temperature, mean_nll, sampled, slope

SHAPES = ((7, 3), (50, 2), (300, 10), (700, 40))


@pytest.mark.parametrize(("samples", "classes"), SHAPES)
@pytest.mark.parametrize("scale", [1e-3, 0.03, 1.0, 40.0, 1e3])
def test_reaches_the_optimum_at_any_scale_in_few_passes(samples, classes, scale):
    values, labels = sampled(samples, classes, scale, seed=samples)
    fit = fit_inverse_temperature(values, labels)
    assert fit.inverse_temperature == pytest.approx(best_inverse_temperature(values, labels), rel=1e-9)
    assert fit.nll == pytest.approx(mean_nll(values, labels, fit.inverse_temperature), rel=1e-9)
    assert fit.bound is None
    assert fit.passes <= 9


@pytest.mark.parametrize("power", range(-3, 4))
def test_optimal_temperature_from_a_thousandth_to_a_thousand(power):
    values, labels = sampled(400, 5, 1.0, seed=3)
    at_one = best_inverse_temperature(values, labels)
    fit = fit_inverse_temperature(values * at_one * 10.0**power, labels)  # its best temperature is 10^power
    assert fit.temperature == pytest.approx(10.0**power, rel=1e-9)
    assert fit.passes <= 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_blocks_and_the_subsample_change_nothing(dtype):
    values, labels = sampled(6000, 60, 2.5, seed=1, dtype=dtype)
    fit = fit_inverse_temperature(values, labels)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-6
    assert fit.inverse_temperature == pytest.approx(best_inverse_temperature(values, labels), rel=tolerance)
    assert fit.passes <= 4
    assert fit == fit_inverse_temperature(values, labels)


def test_rows_in_the_order_of_their_class_do_not_mislead_the_subsample():
    values, labels = sampled(5000, 4, 3.0, seed=2)
    order = labels.argsort()
    fit = fit_inverse_temperature(values[order], labels[order])
    assert fit.inverse_temperature == pytest.approx(best_inverse_temperature(values, labels), rel=1e-9)


def test_a_subsample_that_is_separable_is_not_believed():
    values = torch.zeros(8192, 3, dtype=torch.float64)
    values[:, 0] = torch.linspace(1.0, 3.0, 8192, dtype=torch.float64)
    labels = torch.zeros(8192, dtype=torch.int64)
    labels[1::8] = 1  # every 8th row is the subsample, and all of it is right
    fit = fit_inverse_temperature(values, labels)
    assert fit.inverse_temperature == pytest.approx(best_inverse_temperature(values, labels), rel=1e-9)


values_and_labels = st.tuples(st.integers(1, 12), st.integers(2, 5)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=st.floats(-50, 50, width=32)),
        arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)),
    )
)


@given(values_and_labels)
@settings(deadline=None, max_examples=150)
def test_no_temperature_within_the_bounds_is_better(data):
    values, labels = data
    fit = fit_inverse_temperature(torch.tensor(values), torch.tensor(labels))
    assert 1e-4 * (1 - 1e-12) <= fit.temperature <= 1e4 * (1 + 1e-12)
    best = mean_nll(values, labels, best_inverse_temperature(values, labels))
    assert mean_nll(values, labels, fit.inverse_temperature) <= best + 1e-10 * (1 + best)
    assert fit.nll == pytest.approx(mean_nll(values, labels, fit.inverse_temperature), rel=1e-8, abs=1e-9)


@given(values_and_labels, st.data())
@settings(deadline=None, max_examples=60)
def test_weights_and_soft_labels_like_the_oracle(data, draw):
    values, _ = data
    soft = draw.draw(arrays(np.float64, values.shape, elements=st.floats(0.01, 1)))
    soft /= soft.sum(axis=1, keepdims=True)
    weights = draw.draw(arrays(np.float64, len(values), elements=st.floats(0.1, 5)))
    fit = fit_inverse_temperature(torch.tensor(values), torch.tensor(soft), torch.tensor(weights))
    best = mean_nll(values, soft, best_inverse_temperature(values, soft, weights), weights)
    assert mean_nll(values, soft, fit.inverse_temperature, weights) <= best + 1e-10 * (1 + best)


def test_one_hot_labels_are_the_same_as_classes():
    values, labels = sampled(200, 4, 2.0)
    soft = torch.nn.functional.one_hot(labels, 4).double()
    assert fit_inverse_temperature(values, soft).inverse_temperature == pytest.approx(
        fit_inverse_temperature(values, labels).inverse_temperature, rel=1e-12
    )


def test_a_weight_is_a_number_of_copies_and_zero_is_none():
    values, labels = sampled(60, 3, 2.0)
    weights = torch.arange(60) % 4
    repeated = fit_inverse_temperature(values.repeat_interleave(weights, 0), labels.repeat_interleave(weights))
    weighted = fit_inverse_temperature(values, labels, weights.double())
    assert weighted.inverse_temperature == pytest.approx(repeated.inverse_temperature, rel=1e-9)
    assert weighted.nll == pytest.approx(repeated.nll, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_masked_class_is_as_if_it_were_not_there(dtype):
    values, labels = sampled(300, 4, 2.0, dtype=dtype)
    masked = torch.cat([values, torch.full((300, 1), -torch.inf, dtype=dtype)], dim=1)
    alone, among = fit_inverse_temperature(values, labels), fit_inverse_temperature(masked, labels)
    assert among.inverse_temperature == pytest.approx(
        alone.inverse_temperature, rel=1e-9 if dtype == torch.float64 else 1e-6
    )


def test_masks_that_differ_by_row():
    values, labels = sampled(400, 5, 3.0)
    masked = values.clone()
    rows = torch.arange(0, 400, 3)
    masked[rows, (labels[rows] + 1) % 5] = -torch.inf
    fit = fit_inverse_temperature(masked, labels)
    assert slope(masked, labels, fit.inverse_temperature) == pytest.approx(0.0, abs=1e-9)


def test_a_masked_label_is_an_error_that_names_the_sample():
    values = torch.tensor([[0.0, 1.0], [-torch.inf, 1.0]])
    with pytest.raises(ValueError, match=r"sample 1 .*masked"):
        fit_inverse_temperature(values, torch.tensor([0, 0]))


def test_a_masked_label_without_weight_does_not_count():
    values = torch.tensor([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [-torch.inf, 1.0]])
    fit = fit_inverse_temperature(values, torch.tensor([0, 0, 1, 0]), torch.tensor([1.0, 1.0, 1.0, 0.0]))
    assert fit.inverse_temperature == pytest.approx(math.log(2.0), rel=1e-6)


def test_nan_is_an_error():
    with pytest.raises(ValueError, match="NaN"):
        fit_inverse_temperature(torch.tensor([[0.0, math.nan], [1.0, 0.0]]), torch.tensor([0, 1]))


def test_no_weight_at_all_is_an_error():
    with pytest.raises(ValueError, match="positive weight"):
        fit_inverse_temperature(torch.zeros(2, 2), torch.tensor([0, 1]), torch.zeros(2))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_bounds_must_be_positive_and_ordered(bounds):
    with pytest.raises(ValueError, match="bounds"):
        fit_inverse_temperature(torch.zeros(2, 2), torch.tensor([0, 1]), bounds=bounds)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_separable_values_stop_at_the_lower_bound(scale):
    values = scale * torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    fit = fit_inverse_temperature(values, torch.tensor([0, 1]))
    assert (fit.temperature, fit.bound) == (pytest.approx(1e-4), "lower")
    assert math.isfinite(fit.nll)


def test_constant_and_contrary_values_stop_at_the_upper_bound():
    labels = torch.tensor([0, 1, 1])
    constant = fit_inverse_temperature(torch.full((3, 2), 7.0), labels)
    contrary = fit_inverse_temperature(torch.tensor([[-5.0, 5.0], [5.0, -5.0], [5.0, -5.0]]), labels)
    for fit in (constant, contrary):
        assert (fit.temperature, fit.bound) == (pytest.approx(1e4), "upper")
        assert fit.nll == pytest.approx(math.log(2.0), rel=1e-3)


def test_one_wrong_sample_among_many_is_enough_for_an_optimum():
    values = torch.full((5000, 2), 0.0)
    values[:, 0] = 30.0
    labels = torch.zeros(5000, dtype=torch.int64)
    labels[4321] = 1
    fit = fit_inverse_temperature(values, labels)
    assert fit.temperature == pytest.approx(30.0 / math.log(4999.0), rel=1e-6)
    assert fit.bound is None


def test_saturated_float32_values_reach_the_optimum():
    """Softmax in float32 is exactly 1 here, and its derivative 0: a gradient step would not move."""
    values = torch.tensor([[4000.0, 0.0]] * 9 + [[0.0, 4000.0]])
    fit = fit_inverse_temperature(values, torch.zeros(10, dtype=torch.int64))
    assert fit.temperature == pytest.approx(4000.0 / math.log(9.0), rel=1e-6)


def test_logits_forty_times_too_large():
    """PEERS, defect 7: one library diverges to T = 0 here, another stops at 11.9; the optimum is near 40."""
    values, labels = sampled(2000, 10, 40.0, seed=5)
    fit = fit_inverse_temperature(values, labels)
    assert fit.temperature == pytest.approx(1 / best_inverse_temperature(values, labels), rel=1e-9)
    assert fit.temperature == pytest.approx(40.0, rel=0.05)


def test_over_confident_by_two_and_a_half():
    """PEERS, defect 8: the classic recipe ends at 1.73 where the optimum is 2.53, and elsewhere below 0 or at 1e6."""
    values, labels = sampled(2000, 10, 2.53, seed=6, dtype=torch.float32)
    fit = fit_inverse_temperature(values, labels)
    assert fit.temperature == pytest.approx(1 / best_inverse_temperature(values, labels), rel=1e-6)
    assert fit.temperature == pytest.approx(2.53, rel=0.05)


def test_logits_of_probabilities_are_finite():
    preds = Predictions.from_probs(torch.tensor([[1.0, 0.0], [0.25, 0.75]]), [0, 1])
    tiny = torch.finfo(torch.float32).tiny
    torch.testing.assert_close(preds.logits(), torch.tensor([[1.0, tiny], [0.25, 0.75]]).log())


class ComputedRows:
    """Logits that are computed when they are asked for, and count how many rows were at once."""

    def __init__(self, features, weight):
        self.features, self.weight, self.most = features, weight, 0

    @property
    def shape(self):
        return len(self.features), len(self.weight)

    def __getitem__(self, rows):
        computed = self.features[rows] @ self.weight.T
        self.most = max(self.most, len(computed))
        return computed


@pytest.mark.parametrize("rows", [50, 9000])
def test_logits_may_be_computed_when_they_are_asked_for(rows):
    generator = torch.Generator().manual_seed(0)
    features, weight = (torch.randn(n, 8, generator=generator, dtype=torch.float64) for n in (rows, 300))
    logits = features @ weight.T
    labels = torch.multinomial((logits / 1.7).softmax(1), 1, generator=generator).squeeze(1)
    streamed = ComputedRows(features, weight)
    ours, expected = fit_inverse_temperature(streamed, labels), fit_inverse_temperature(logits, labels)
    assert ours.temperature == pytest.approx(expected.temperature, rel=1e-9)
    assert ours.nll == pytest.approx(expected.nll, rel=1e-12)
    assert streamed.most <= max(2**19 // 300, 2048)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [100, 200, 1000])
@pytest.mark.parametrize("samples", [1, 2, 5, 40])
@pytest.mark.parametrize("evenness", [0.01, 1.0, 100.0])
def test_one_hot_probabilities_with_soft_labels(samples, classes, dtype, evenness):
    """Near the optimum rounding gives neighbouring points the same slope; no step may divide by their difference."""
    numbers = np.random.default_rng(0)
    probs = torch.eye(classes, dtype=dtype)[torch.from_numpy(numbers.integers(0, classes, samples))]
    labels = torch.from_numpy(numbers.dirichlet(np.full(classes, evenness), samples))
    preds = Predictions.from_probs(probs, labels)
    values = preds.logits()
    fit = fit_inverse_temperature(values, preds.labels)
    beside = [mean_nll(values, preds.labels, fit.inverse_temperature * factor) for factor in (0.99, 1.01)]
    here = mean_nll(values, preds.labels, fit.inverse_temperature)
    assert here == pytest.approx(fit.nll, rel=1e-6)
    assert here <= beside[0] * (1 + 1e-9) or fit.bound == "upper"
    assert here <= beside[1] * (1 + 1e-9) or fit.bound == "lower"


@pytest.mark.parametrize("seed", range(5))
def test_one_sample_may_outweigh_all_others(seed):
    """Rounding hides the others until that sample's loss has vanished; the search then has to end by halving."""
    drawn = np.random.default_rng(seed)
    logits, labels = drawn.normal(size=(11, 3)).astype(np.float32) * 2, drawn.integers(0, 3, 11)
    weights, heavy = 10.0 ** drawn.uniform(-250, -240, 11), drawn.integers(0, 11)
    weights[heavy], logits[heavy, labels[heavy]] = 1.0, logits[heavy].max() + 0.3
    preds = fc.Predictions.from_logits(logits, labels, weights=weights)
    scaler = fc.TemperatureScaling().fit(preds)
    assert 0 < scaler.temperature_ < 1
    assert fc.metrics.nll(scaler.transform(preds)) <= fc.metrics.nll(preds)
