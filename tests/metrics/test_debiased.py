import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.binning import BinSums
from focalcal.metrics.debiased import debiased_ece, debiased_ece_of_sums
from focalcal.predictions import Predictions
from oracles import debiased as oracle
from oracles.real_files import REAL_FILES, real_arrays

# Few different values, so that ties fall on cuts.
confidences = st.one_of(st.sampled_from([0.5, 0.6, 0.75, 1.0]), st.floats(0.5, 1))
samples = st.lists(st.tuples(confidences, st.booleans()), min_size=1, max_size=40)


def two_class(confidence, correct, **kwargs):
    confidence = torch.as_tensor(confidence, dtype=torch.float64)
    probs = torch.stack([confidence, 1 - confidence], dim=1)
    return Predictions.from_probs(probs, (~torch.as_tensor(correct)).long(), **kwargs)


@settings(deadline=None, max_examples=200)
@given(samples, st.integers(1, 20))
def test_is_the_formula(data, bins):
    confidence, correct = zip(*data, strict=True)
    expected = oracle.debiased_ece(confidence, correct, bins)
    assert debiased_ece(two_class(confidence, correct), bins) == pytest.approx(expected, abs=1e-7)
    # The root magnifies rounding near 0: its square agrees far better.
    assert debiased_ece(two_class(confidence, correct), bins) ** 2 == pytest.approx(expected**2, abs=1e-14)


@settings(deadline=None, max_examples=50)
@given(samples, st.integers(1, 20), st.randoms(use_true_random=False), st.floats(1e-3, 1e3))
def test_order_and_equal_weights_do_not_matter(data, bins, random, weight):
    shuffled = random.sample(data, len(data))
    plain = debiased_ece(two_class(*zip(*data, strict=True)), bins)
    weights = torch.full((len(data),), weight, dtype=torch.float64)
    weighted = debiased_ece(two_class(*zip(*shuffled, strict=True), weights=weights), bins)
    assert weighted**2 == pytest.approx(plain**2, abs=1e-12)


def test_samples_of_weight_0_do_not_exist():
    rng = np.random.default_rng(0)
    confidence, correct, weight = rng.uniform(0.5, 1, 200), rng.uniform(size=200) < 0.6, rng.uniform(0.5, 2, 200)
    weight[::3] = 0
    used = weight > 0
    all_of_them = debiased_ece(two_class(confidence, correct, weights=weight))
    assert all_of_them == pytest.approx(
        debiased_ece(two_class(confidence[used], correct[used], weights=weight[used])), abs=1e-12
    )
    assert all_of_them > 0.05


def test_weighted_noise_is_taken_off_without_bias():
    """Mean of the squared error (before clipping) of calibrated samples with unequal weights in one bin: 0."""
    rng = np.random.default_rng(1)
    n, trials = 8, 200_000
    weight, chance = rng.uniform(0.1, 3, n), 0.7
    correct = rng.uniform(size=(trials, n)) < chance
    gap = (chance - correct) @ weight / weight.sum()
    accuracy = correct @ weight / weight.sum()
    effective = weight.sum() ** 2 / (weight**2).sum()
    noise = accuracy * (1 - accuracy) / (effective - 1)
    assert np.mean(gap**2 - noise) == pytest.approx(0, abs=5 * np.std(gap**2 - noise) / np.sqrt(trials))
    sums = BinSums(*(torch.from_numpy(np.full((trials, 1), weight.sum()) * x) for x in (1, chance, accuracy[:, None])))
    ours = debiased_ece_of_sums(sums, torch.full((trials, 1), float((weight**2).sum()), dtype=torch.float64))
    np.testing.assert_allclose(ours.numpy() ** 2, np.maximum(gap**2 - noise, 0), atol=1e-12)


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        ([0.9], [False], 0.0),  # one sample says nothing about its own noise
        ([1.0] * 30, [True] * 30, 0.0),
        ([1.0] * 30, [False] * 30, 1.0),
        ([0.75] * 30, [False] * 30, 0.75),
        ([0.6, 0.7, 0.8], [True, False, True], 0.0),  # fewer samples than bins: one each
    ],
)
def test_cases_known_by_hand(confidence, correct, expected):
    assert debiased_ece(two_class(confidence, correct)) == pytest.approx(expected, abs=1e-12)


def test_many_classes():
    logits = 3 * torch.randn(500, 1000, generator=torch.Generator().manual_seed(0))
    labels = logits.argmax(1).where(torch.arange(500) % 3 > 0, torch.zeros(500, dtype=torch.int64))
    probs = torch.softmax(logits, 1).double()
    expected = oracle.debiased_ece(probs.amax(1).tolist(), (probs.argmax(1) == labels).tolist(), 15)
    assert debiased_ece(Predictions.from_logits(logits, labels)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("bins", [5, 15, 100])
@pytest.mark.parametrize("name", REAL_FILES)
def test_agrees_with_uncertainty_calibration_on_real_files(name, bins):
    """Its function for top labels, equal-mass bins and p = 2, in double precision as ours."""
    calibration = pytest.importorskip("calibration", reason="uncertainty-calibration comes with the references extra")
    probs, labels = real_arrays(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about itself
        theirs = calibration.lower_bound_scaling_top_ce(probs, labels, p=2, debias=True, num_bins=bins)
    assert debiased_ece(Predictions.from_probs(probs, labels), bins) == pytest.approx(theirs, abs=1e-9)
    if bins == 15:
        assert calibration.get_calibration_error(probs, labels, p=2, debias=True, mode="top-label") == theirs


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 30))
def test_agrees_with_uncertainty_calibration_with_ties(seed, n, bins):
    calibration = pytest.importorskip("calibration", reason="uncertainty-calibration comes with the references extra")
    rng = np.random.default_rng(seed)
    confidence = rng.integers(8, 17, n) / 16
    correct = rng.uniform(size=n) < 0.6
    preds = two_class(confidence, correct)
    theirs = calibration.lower_bound_scaling_top_ce(
        preds.values.numpy(), preds.labels.numpy(), p=2, debias=True, num_bins=bins
    )
    # Where the output is a half each, argmax is the first class on both sides.
    assert debiased_ece(preds, bins) == pytest.approx(theirs, abs=1e-9)
