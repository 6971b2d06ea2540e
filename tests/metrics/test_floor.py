import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.floor import ece_floor, ece_floor_of_sums, floor_sums
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from oracles import debiased as oracle
from oracles.real_files import REAL_FILES, real_predictions

confidences = st.one_of(st.sampled_from([0.0, 0.2, 0.5, 0.99, 1.0]), st.floats(0, 1), st.floats(0.9, 1))


def floor_of(confidence, bins=15, weight=None):
    weight = None if weight is None else torch.as_tensor(weight, dtype=torch.float64)
    return float(ece_floor_of_sums(floor_sums(torch.as_tensor(confidence, dtype=torch.float64), bins, weight)))


@settings(deadline=None, max_examples=200)
@given(st.lists(confidences, min_size=1, max_size=60))
def test_is_close_to_the_whole_distribution(confidence):
    assert floor_of(confidence) == pytest.approx(oracle.ece_floor(confidence, 15), abs=6e-4)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=30, max_size=120), st.integers(0, 14))
def test_is_closer_in_a_bin_of_many(places, bin_number):
    confidence = [(bin_number + max(place, 1e-9)) / 15 for place in places]
    assert floor_of(confidence) == pytest.approx(oracle.ece_floor(confidence, 15), abs=1e-5)


@settings(deadline=None, max_examples=100)
@given(confidences, st.integers(1, 200), st.integers(1, 20))
def test_is_exact_where_confidences_are_equal(confidence, n, bins):
    expected = oracle.ece_floor([confidence] * n, bins)
    assert floor_of([confidence] * n, bins) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(0.5, 2)), min_size=1, max_size=8),
    st.integers(10, 20),
)
def test_unequal_weights_few_samples(data, bins):
    """A sum of unequal weights is no count: the match is coarser, up to 0.1 for two or three samples in a bin."""
    confidence, weight = zip(*data, strict=True)
    expected = oracle.weighted_ece_floor(confidence, weight, bins)
    assert floor_of(confidence, bins, weight) == pytest.approx(expected, abs=0.1)


def test_unequal_weights_many_samples_by_simulation():
    rng = np.random.default_rng(0)
    n, trials = 1000, 2000
    confidence, weight = rng.uniform(0.3, 1, n), rng.exponential(size=n)
    ece = []
    for _ in range(trials):
        correct = torch.from_numpy(rng.uniform(size=n) < confidence)
        sums = equal_width_sums(torch.from_numpy(confidence), correct, 15, torch.from_numpy(weight))
        ece.append(float(sums.gap.abs().sum() / sums.count.sum()))
    error = np.std(ece) / np.sqrt(trials)
    assert floor_of(confidence, weight=weight) == pytest.approx(np.mean(ece), abs=5 * error)
    assert error < 3e-4


@settings(deadline=None, max_examples=50)
@given(st.lists(confidences, min_size=1, max_size=30), st.floats(1e-3, 1e3))
def test_equal_weights_are_no_weights(confidence, weight):
    expected = floor_of(confidence)
    assert floor_of(confidence, weight=[weight] * len(confidence)) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_sums_of_parts_add_up_and_batches_are_rows():
    confidence = torch.linspace(0.1, 1, 100, dtype=torch.float64)
    parts = floor_sums(confidence[:40]) + floor_sums(confidence[40:])
    torch.testing.assert_close(parts, floor_sums(confidence), rtol=1e-14, atol=0)
    both = ece_floor_of_sums(torch.stack([parts, floor_sums(confidence[:40])]))
    assert both.tolist() == pytest.approx([floor_of(confidence), floor_of(confidence[:40])], rel=1e-12)


def test_sure_predictions_have_no_floor_and_no_samples_no_value():
    assert floor_of([1.0] * 10) == 0
    assert floor_of([0.0, 1.0]) == 0
    assert np.isnan(floor_of([]))


def test_ten_million_nearly_sure_samples():
    """One wrong in a million: the count of wrong answers is Poisson with mean 10, whose mean deviation is 2.5022."""
    sums = floor_sums(torch.tensor([1 - 1e-6], dtype=torch.float64)) * 1e7
    mean_deviation = 2 * np.exp(-10) * 10**11 / 3628800
    assert float(ece_floor_of_sums(sums)) == pytest.approx(mean_deviation / 1e7, rel=1e-4)


@pytest.mark.parametrize("name", REAL_FILES)
def test_simulation_with_the_confidences_of_real_files(name):
    statistics = sample_statistics(real_predictions(name))
    rng = np.random.default_rng(1)
    ece = []
    for _ in range(1000):
        correct = torch.from_numpy(rng.uniform(size=len(statistics))) < statistics.confidence
        sums = equal_width_sums(statistics.confidence, correct, 15)
        ece.append(float(sums.gap.abs().sum() / sums.count.sum()))
    error = np.std(ece) / np.sqrt(len(ece))
    assert floor_of(statistics.confidence, weight=statistics.weight) == pytest.approx(np.mean(ece), abs=5 * error)
    assert error < 1e-4


@pytest.mark.parametrize("classes", [2, 1000])
def test_predictions(classes):
    logits = 2 * torch.randn(300, classes, generator=torch.Generator().manual_seed(classes))
    preds = Predictions.from_logits(logits, torch.zeros(300, dtype=torch.int64))
    confidence = torch.softmax(logits, 1).amax(1).double()
    assert ece_floor(preds, bins=10) == pytest.approx(oracle.ece_floor(confidence.tolist(), 10), abs=1e-4)
