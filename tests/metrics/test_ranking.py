import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.ranking import RankedSamples, Ranking, ada_ece, debiased_ece
from focalcal.metrics.samples import ConfidenceSamples
from focalcal.metrics.sums import Sums
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
    assert debiased_ece(two_class(confidence, correct), bins=bins) == pytest.approx(expected, abs=1e-7)
    # The root magnifies rounding near 0: its square agrees far better.
    assert debiased_ece(two_class(confidence, correct), bins=bins) ** 2 == pytest.approx(expected**2, abs=1e-14)


@settings(deadline=None, max_examples=50)
@given(samples, st.integers(1, 20), st.randoms(use_true_random=False), st.floats(1e-3, 1e3))
def test_order_and_equal_weights_do_not_matter(data, bins, random, weight):
    shuffled = random.sample(data, len(data))
    plain = debiased_ece(two_class(*zip(*data, strict=True)), bins=bins)
    weights = torch.full((len(data),), weight, dtype=torch.float64)
    weighted = debiased_ece(two_class(*zip(*shuffled, strict=True), weights=weights), bins=bins)
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
    one_cell = {"mass": np.full((1, trials), weight.sum()), "squares": np.full((1, trials), (weight**2).sum())}
    one_cell |= {"correct": one_cell["mass"] * accuracy, "gap": one_cell["mass"] * gap}
    ours = debiased_ece(Sums(ranking=Ranking(np.full(trials, n), one_cell.__getitem__, bins=15)))
    np.testing.assert_allclose(ours**2, np.maximum(gap**2 - noise, 0), atol=1e-12)


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
    assert debiased_ece(Predictions.from_probs(probs, labels), bins=bins) == pytest.approx(theirs, abs=1e-9)
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
    assert debiased_ece(preds, bins=bins) == pytest.approx(theirs, abs=1e-9)


def equal_mass_bins(confidence, correct, bins, weight=None):
    return RankedSamples(ConfidenceSamples(confidence, correct, weight)).ranking(bins).equal_mass_bins()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**31))
def test_without_ties_samples_are_cut_as_array_split_cuts(n, bins, seed):
    generator = torch.Generator().manual_seed(seed)
    confidence, correct = torch.rand(n, generator=generator).double(), torch.rand(n, generator=generator) < 0.5
    if len(confidence.unique()) < n:
        return
    parts = np.array_split(np.argsort(confidence.numpy()), bins)
    sums = equal_mass_bins(confidence, correct, bins)
    np.testing.assert_allclose(sums.count, [len(part) for part in parts], atol=1e-12)
    np.testing.assert_allclose(sums.correct, [int(correct[part].sum()) for part in parts], atol=1e-12)
    np.testing.assert_allclose(sums.confidence, [float(confidence[part].sum()) for part in parts], atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(samples, st.integers(1, 60), st.sampled_from([1.0, 0.1, 3.0]))
def test_equal_weights_give_the_unweighted_equal_mass_bins(data, bins, weight):
    confidence, correct = (torch.tensor(part) for part in zip(*data, strict=True))
    plain = equal_mass_bins(confidence, correct, bins)
    weighted = equal_mass_bins(confidence, correct, bins, torch.full((len(data),), weight, dtype=torch.float64))
    for a, b in ((plain.count, weighted.count), (plain.correct, weighted.correct), (plain.gap, weighted.gap)):
        torch.testing.assert_close(a * weight, b, rtol=0, atol=1e-11 * len(data))


def test_a_sample_on_a_cut_is_shared_in_proportion():
    confidence, weight = torch.tensor([[0.1, 0.5, 0.9], [1.0, 2.0, 1.0]], dtype=torch.float64)
    sums = equal_mass_bins(confidence, torch.tensor([False, True, False]), 2, weight)
    # Two of three samples, at the mean weight 4/3, are in the first bin.
    torch.testing.assert_close(sums.count, torch.tensor([8 / 3, 4 / 3], dtype=torch.float64))
    torch.testing.assert_close(sums.correct, torch.tensor([5 / 3, 1 / 3], dtype=torch.float64))


def test_near_ties_of_float32_logits_have_the_order_of_their_doubles():
    """Rows that differ by less than a float32 softmax can tell, right and wrong in turns."""
    logits = torch.zeros(31, 3)
    logits[:, 0] = 1 + torch.arange(31) * 2.0**-23
    logits[:, 1] = torch.arange(31).flip(0) * 2.0**-25
    labels = torch.arange(31) % 2
    single, double = (ada_ece(Predictions.from_logits(z, labels)) for z in (logits, logits.double()))
    assert single == double


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(confidences, st.booleans(), st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=40),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_nothing_depends_on_the_order_where_weights_and_ties_meet(data, bins, random):
    def both(rows):
        confidence, correct, weight = zip(*rows, strict=True)
        preds = two_class(confidence, correct, weights=list(weight))
        return ada_ece(preds, bins=bins), debiased_ece(preds, bins=bins) ** 2

    assert both(data) == pytest.approx(both(random.sample(data, len(data))), abs=1e-12)
