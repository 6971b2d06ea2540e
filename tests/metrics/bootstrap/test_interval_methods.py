import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap

from focalcal.metrics.bootstrap.interval_methods import acceleration, interval_from_replicates

SKEWED = np.random.default_rng(0).exponential(size=40)


@pytest.mark.parametrize("method", ["basic", "percentile", "bca"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_are_scipys_up_to_the_rounding_of_quantiles(method, level):
    reference = scipy_bootstrap(
        (SKEWED,),
        np.mean,
        n_resamples=999,
        confidence_level=level,
        method=method,
        random_state=np.random.default_rng(1),
    )
    replicates = reference.bootstrap_distribution
    jackknife = np.array([np.delete(SKEWED, i).mean() for i in range(len(SKEWED))])
    found = interval_from_replicates(method, float(SKEWED.mean()), replicates, level, jackknife)
    # scipy interpolates between neighbours; we take the outer one.
    gap = np.diff(np.sort(replicates)).max()
    assert found == pytest.approx(tuple(reference.confidence_interval), abs=gap)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=50), st.floats(-5, 5), st.floats(0.05, 0.99))
@settings(deadline=None)
def test_basic_is_percentile_reflected_at_the_estimate(replicates, estimate, level):
    low, high = interval_from_replicates("percentile", estimate, np.array(replicates), level)
    assert interval_from_replicates("basic", estimate, np.array(replicates), level) == (
        2 * estimate - high,
        2 * estimate - low,
    )


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=50), st.floats(-5, 5), st.floats(0.05, 0.99))
@settings(deadline=None)
def test_the_interval_of_minus_a_metric_is_mirrored(replicates, estimate, level):
    values = np.array(replicates)
    for method in ("basic", "percentile", "bca"):
        low, high = interval_from_replicates(method, estimate, values, level, values)
        mirrored = interval_from_replicates(method, -estimate, -values, level, -values)
        if method != "bca":  # whose levels are rounded
            assert mirrored == (-high, -low)
        assert low <= high


def test_bca_moves_towards_the_side_that_the_replicates_miss():
    replicates = np.linspace(0, 1, 1001)
    jackknife = np.linspace(-1, 1, 11)
    low, high = interval_from_replicates("bca", 0.3, replicates, 0.9, jackknife)
    assert low < interval_from_replicates("percentile", 0.3, replicates, 0.9)[0]
    assert high < interval_from_replicates("percentile", 0.3, replicates, 0.9)[1]


def test_bca_with_all_replicates_on_one_side_is_finite():
    low, high = interval_from_replicates("bca", 0.0, np.linspace(1, 2, 100), 0.9, np.array([0.0, 1.0, 5.0]))
    assert low == 1.0
    assert high <= 2.0


def test_acceleration_is_a_sixth_of_the_skewness_by_the_root_of_n_for_a_mean():
    n = len(SKEWED)
    jackknife = (SKEWED.sum() - SKEWED) / (n - 1)
    centred = SKEWED - SKEWED.mean()
    skewness = np.mean(centred**3) / np.mean(centred**2) ** 1.5
    assert acceleration(jackknife) == pytest.approx(skewness / (6 * math.sqrt(n)))


def test_bca_without_jackknife_is_refused():
    with pytest.raises(ValueError, match="needs the values of a jackknife"):
        interval_from_replicates("bca", 0.5, np.array([0.4, 0.6]), 0.9)


@pytest.mark.parametrize(("undefined", "known"), [(5, True), (6, False)])
def test_more_undefined_replicates_than_a_tail_holds_leave_the_interval_unknown(undefined, known):
    replicates = np.arange(100.0)
    replicates[:undefined] = math.nan
    found = interval_from_replicates("percentile", 50.0, replicates, level=0.9)
    assert (not math.isnan(found[0])) == known


def test_an_undefined_estimate_has_no_interval():
    assert all(math.isnan(end) for end in interval_from_replicates("percentile", math.nan, np.arange(10.0), 0.9))


def test_infinite_replicates_stay_infinite():
    replicates = np.array([1.0] * 5 + [math.inf] * 5)
    assert interval_from_replicates("percentile", math.inf, replicates, 0.9) == (1.0, math.inf)
    assert all(math.isnan(end) for end in interval_from_replicates("basic", math.inf, replicates, 0.9))
