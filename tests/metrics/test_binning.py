import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.binning import (
    bin_index,
    check_bins,
    edges,
    equal_mass_bounds,
    equal_width_sums,
)
from oracles.metrics import bin_of

bin_numbers = st.integers(1, 60)
quick = settings(deadline=None, max_examples=60)


@quick
@given(bin_numbers)
def test_edges_are_the_doubles_i_over_m(bins):
    assert edges(bins).tolist() == [i / bins for i in range(bins + 1)]


def test_more_bins_than_anyone_can_look_at_are_refused():
    check_bins(10_000)
    with pytest.raises(ValueError, match=r"at most 10,000, not 1,000,000,000: pass for example bins=15\."):
        check_bins(1_000_000_000)


@pytest.mark.parametrize("bins", range(1, 130))
def test_an_edge_belongs_to_the_bin_that_ends_there_and_its_neighbours_do_not_both(bins):
    at = edges(bins)[1:]
    above = torch.nextafter(at, torch.tensor(2.0, dtype=torch.float64))
    assert bin_index(at, bins).tolist() == list(range(bins))
    assert bin_index(above[:-1], bins).tolist() == list(range(1, bins))


def test_ceil_would_get_some_edges_wrong():
    wrong = [(i, m) for m in range(1, 60) for i in range(1, m + 1) if math.ceil(i / m * m) - 1 != i - 1]
    wrong += [(i, m) for m in range(1, 60) for i in range(1, m) if math.ceil(math.nextafter(i / m, 2) * m) - 1 != i]
    assert wrong
    for i, m in wrong:
        assert bin_index(torch.tensor(i / m, dtype=torch.float64), m) == i - 1


@pytest.mark.parametrize("bins", [1, 3, 10, 15, 25, 49, 100])
def test_a_float32_is_compared_as_the_double_that_it_is(bins):
    p = torch.from_numpy(np.arange(bins + 1, dtype=np.float32) / np.float32(bins)).clamp(max=1)
    expected = [bin_of(x, bins) for x in p.double().tolist()]
    assert bin_index(p, bins).tolist() == expected
    assert bin_index(p.double(), bins).tolist() == expected


def test_float32_neighbours_of_every_edge_fall_where_their_doubles_do():
    for bins in range(2, 100):
        near = torch.tensor([i / bins for i in range(1, bins)], dtype=torch.float32)
        for p in (near, torch.nextafter(near, torch.tensor(0.0)), torch.nextafter(near, torch.tensor(1.0))):
            assert bin_index(p, bins).tolist() == [bin_of(x, bins) for x in p.double().tolist()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_zero_is_in_the_first_bin_and_one_in_the_last(dtype):
    assert bin_index(torch.tensor([0.0, 1.0], dtype=dtype), 15).tolist() == [0, 14]


@quick
@given(st.floats(0, 1), bin_numbers)
def test_bin_index_is_the_bin_of_the_definition(p, bins):
    assert bin_index(torch.tensor(p, dtype=torch.float64), bins) == bin_of(p, bins)


@quick
@given(st.integers(0, 300), bin_numbers)
def test_equal_mass_bounds_cut_as_array_split(n, bins):
    sizes = [len(part) for part in np.array_split(np.arange(n), bins)]
    assert equal_mass_bounds(n, bins).diff().tolist() == sizes


@quick
@given(st.integers(0, 2**31), st.booleans())
def test_sums_of_equal_width_bins_add_up(seed, weighted):
    generator = torch.Generator().manual_seed(seed)
    confidence, correct = torch.rand(200, generator=generator).double(), torch.rand(200, generator=generator) < 0.7
    weight = torch.rand(200, generator=generator).double() if weighted else None
    sums = equal_width_sums(confidence, correct, 15, weight)
    once = torch.ones(200, dtype=torch.float64) if weight is None else weight
    assert sums.count.dtype == (torch.float64 if weighted else torch.int64)
    assert float(sums.count.sum()) == pytest.approx(float(once.sum()))
    assert float(sums.confidence.sum()) == pytest.approx(float(confidence @ once))
    assert float(sums.correct.sum()) == pytest.approx(float(correct.double() @ once))


@pytest.mark.parametrize(("bins", "problem"), [(0, ValueError), (-3, ValueError), (15.0, TypeError), (True, TypeError)])
def test_a_number_of_bins_that_is_none_is_refused(bins, problem):
    with pytest.raises(problem, match="number of bins must be"):
        edges(bins)
