"""Honest intervals: against slow versions, against clusters of one, and by simulation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.binning import bin_index
from focalcal.metrics.cluster_units import ClusterUnits
from focalcal.metrics.gap_intervals import AbsoluteGaps, SquaredGaps, largest_gap_interval, partial_sum_interval
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.independent_units import Bins, CellSamples, SampleUnits
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.samples import ConfidenceSamples
from oracles.honest import absolute_gaps_interval, equal_mass_shares

NAMES = ("ece", "ada_ece", "debiased_ece", "ks_error", "smooth_ece", "mce")


@st.composite
def samples(draw, most=40):
    n = draw(st.integers(2, most))
    few = st.sampled_from([0.1, 0.25, 0.4, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0])
    confidence = draw(st.lists(few if draw(st.booleans()) else st.floats(0, 1), min_size=n, max_size=n))
    correct = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    weight = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0, 7.0]), min_size=n, max_size=n))
    weights = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    return ConfidenceSamples(torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct), weights)


def honest(found, clusters=None):
    return HonestIntervals(SampledGaps(found, clusters=clusters))


def _columns(found):
    return found.confidence.numpy(), found.correct.numpy().astype(float), found.mass.numpy()


def _null(gaps, level):
    return np.quantile(gaps.null, (1 + level) / 2)


@settings(deadline=None, max_examples=60)
@given(found=samples(), level=st.sampled_from([0.5, 0.9]))
def test_the_interval_of_ece_is_that_of_the_formula(found, level):
    gaps = honest(found).binned
    share = np.eye(15)[bin_index(found.confidence, 15).numpy()]
    expected = absolute_gaps_interval(share, *_columns(found), _null(gaps, level), level)
    assert gaps.interval(level) == pytest.approx(expected, abs=1e-9)


def test_what_is_left_of_a_large_fold_does_not_choose_a_direction():
    """The other folds of one with a gap of −1 have one of 1e-37 in its bin: as total less fold, that is 0."""
    confidence = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.36e-37], dtype=torch.float64)
    found = ConfidenceSamples(confidence, torch.tensor([False, False, False, True, False]), None)
    gaps = honest(found).binned
    share = np.eye(15)[bin_index(confidence, 15).numpy()]
    expected = absolute_gaps_interval(share, *_columns(found), _null(gaps, 0.5), 0.5)
    assert gaps.interval(0.5) == pytest.approx(expected, abs=1e-9)
    assert expected[0] == 0


@settings(deadline=None, max_examples=40)
@given(found=samples(25), bins=st.sampled_from([2, 4, 15]))
def test_the_interval_of_ada_ece_is_that_of_the_formula(found, bins):
    ranked = RankedSamples(found)
    ranking = ranked.ranking(bins)
    columns = (found.confidence.numpy(), found.correct.numpy(), found.mass.numpy(), np.arange(len(found)))
    cells = CellSamples(ranked.cell, *columns, len(ranking.mass))
    gaps = AbsoluteGaps(SampleUnits.of(cells), Bins.of_mass(ranking.mass, ranking.cuts))
    share = equal_mass_shares(found.confidence.numpy(), found.mass.numpy(), bins)
    expected = absolute_gaps_interval(share, *_columns(found), _null(gaps, 0.9), 0.9)
    assert gaps.interval(0.9) == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(found=samples())
@pytest.mark.parametrize("name", NAMES)
def test_the_estimate_lies_inside_and_the_ends_are_in_order(name, found):
    estimate = 0.37
    low, high = honest(found).interval(name, estimate, 0.9)
    assert 0 <= low <= high
    if name in ("ada_ece", "debiased_ece", "smooth_ece"):
        assert low <= estimate <= high


@settings(deadline=None, max_examples=40)
@given(found=samples(), factor=st.sampled_from([1e-3, 8.0]))
@pytest.mark.parametrize("name", NAMES)
def test_the_scale_of_weights_does_not_matter(name, found, factor):
    scaled = ConfidenceSamples(found.confidence, found.correct, found.mass * factor)
    expected = honest(found).interval(name, 0.2, 0.9)
    # A standard error is a root, which makes 1e-8 of the rounding of a variance that should be 0.
    assert honest(scaled).interval(name, 0.2, 0.9) == pytest.approx(expected, abs=1e-7)


def _units(found, cells):
    index = np.minimum((found.confidence.numpy() * cells).astype(int), cells - 1)
    columns = (found.confidence.numpy(), found.correct.numpy(), found.mass.numpy(), np.arange(len(found)))
    return CellSamples(index, *columns, cells)


@settings(deadline=None, max_examples=60)
@given(found=samples())
def test_clusters_of_one_sample_are_samples(found):
    cells = _units(found, 10)
    one, other = SampleUnits.of(cells), ClusterUnits(cells)
    bins = Bins.of_width(10)
    assert other.effective == pytest.approx(one.effective)
    np.testing.assert_allclose(other.squares(bins), one.squares(bins), atol=1e-12)
    v = np.linspace(-1, 1, 50).reshape(5, 10)
    assert other.error(v, 0.1) == pytest.approx(one.error(v, 0.1), abs=1e-12)
    assert other.error(v[0], 0.1) == pytest.approx(one.error(v[0], 0.1), abs=1e-12)


def test_repeating_every_sample_in_clusters_does_not_narrow_the_interval():
    """21 million pixels of 40 images are 40 images."""
    draws = np.random.default_rng(0)
    confidence = torch.from_numpy(draws.uniform(0.5, 1, 60))
    correct = torch.from_numpy(draws.uniform(size=60) < 0.5)
    once = honest(ConfidenceSamples(confidence, correct, None))
    repeated = ConfidenceSamples(confidence.repeat_interleave(50), correct.repeat_interleave(50), None)
    in_clusters = honest(repeated, torch.arange(60).repeat_interleave(50))
    for name in ("ece", "ks_error"):
        width = np.diff(once.interval(name, 0.25, 0.9))
        assert np.diff(in_clusters.interval(name, 0.25, 0.9)) == pytest.approx(width, rel=0.35)
        assert np.diff(honest(repeated).interval(name, 0.25, 0.9)) < 0.4 * width


def test_sums_of_parts_add_up_to_those_of_the_whole():
    draws = np.random.default_rng(1)
    found = ConfidenceSamples(
        torch.from_numpy(draws.uniform(size=200)), torch.from_numpy(draws.uniform(size=200) < 0.6), None
    )
    whole = _units(found, 15)
    parts = [
        SampleUnits.of(
            CellSamples(
                *(column[part] for column in (whole.cell, whole.confidence, whole.correct, whole.weight, whole.unit)),
                15,
            )
        )
        for part in (slice(0, 77), slice(77, 200))
    ]
    merged, expected = parts[0].merge(parts[1]), SampleUnits.of(whole)
    bins = Bins.of_width(15)
    assert AbsoluteGaps(merged, bins).interval(0.9) == pytest.approx(
        AbsoluteGaps(expected, bins).interval(0.9), abs=1e-12
    )
    assert SquaredGaps(merged, bins).interval(0.9) == pytest.approx(
        SquaredGaps(expected, bins).interval(0.9), abs=1e-12
    )
    assert partial_sum_interval(merged, 0.9) == pytest.approx(partial_sum_interval(expected, 0.9), abs=1e-12)


def test_the_bounds_of_mce_are_those_of_clopper_and_pearson():
    """One bin of 10 samples, 8 right: the 90% interval of the accuracy is [0.4931, 0.9632] in any table."""
    columns = (np.array([10.0]), np.array([9.9]), np.array([8.0]), np.array([10.0]))
    low, high = largest_gap_interval(*columns, 0.9)
    assert (low, high) == pytest.approx((0.99 - 0.9632, 0.99 - 0.4931), abs=1e-4)


@pytest.mark.parametrize(("temperature", "truth"), [(1.0, 0.0), (0.6, 0.1275)])
def test_intervals_cover(temperature, truth):
    """Ten classes, logits 3·N(0, 1), labels from their softmax, a model with another temperature."""
    draws = np.random.default_rng(5)
    missed = dict.fromkeys(("ece", "ada_ece", "ks_error"), 0)
    for _ in range(100):
        logits = 3 * draws.standard_normal((400, 10))
        truly, model = (torch.from_numpy(logits / t).softmax(1) for t in (1.0, temperature))
        confidence, answer = model.max(1)
        correct = torch.from_numpy(draws.uniform(size=400)) < truly[torch.arange(400), answer]
        made = honest(ConfidenceSamples(confidence, correct, None))
        for name in missed:
            low, high = made.interval(name, made.binned.value, 0.9)
            missed[name] += not low <= truth <= high
    assert max(missed.values()) <= 10
