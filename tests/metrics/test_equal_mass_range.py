from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.binning import equal_mass_bounds, equal_mass_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.equal_mass_range import Pieces, ada_ece_of_pieces

samples_of_pieces = st.lists(
    st.lists(st.tuples(st.floats(0, 0.24), st.booleans()), min_size=1, max_size=5), min_size=1, max_size=4
)


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def pieces_of(groups):
    """Pieces of which the i-th holds confidences between i/4 and i/4 + 0.24."""
    return Pieces(
        mass=doubles([len(group) for group in groups]),
        correct=doubles([sum(right for _, right in group) for group in groups]),
        confidence=doubles([sum(c for c, _ in group) for group in groups]),
        low=doubles([i / 4 for i in range(len(groups))]),
        high=doubles([i / 4 + 0.24 for i in range(len(groups))]),
    )


def exact(samples, bins):
    confidence, correct = doubles([c for c, _ in samples]), torch.tensor([right for _, right in samples])
    return mean_gap(equal_mass_sums(confidence, correct, bins))


@settings(deadline=None, max_examples=200)
@given(samples_of_pieces, st.integers(1, 6))
def test_the_bound_holds_for_the_sorted_samples(drawn, bins):
    groups = [[(i / 4 + c, right) for c, right in group] for i, group in enumerate(drawn)]
    samples = [sample for group in groups for sample in group]
    found = ada_ece_of_pieces(pieces_of(groups), equal_mass_bounds(len(samples), bins).double())
    assert abs(found.value - exact(samples, bins)) <= found.bound


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([0.3, 0.7, 1.0]), st.booleans()), min_size=1, max_size=5), st.integers(1, 4))
def test_the_bound_holds_for_every_order_of_ties(samples, bins):
    values = sorted({c for c, _ in samples})
    groups = [[s for s in samples if s[0] == value] for value in values]
    pieces = pieces_of(groups)._replace(low=doubles(values), high=doubles(values))
    found = ada_ece_of_pieces(pieces, equal_mass_bounds(len(samples), bins).double())
    for order in permutations(samples):
        assert abs(found.value - exact(order, bins)) <= found.bound


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30), st.integers(1, 20))
def test_pieces_of_one_sample_are_exact(samples, bins):
    ordered = sorted(samples, key=lambda s: s[0])
    value = doubles([c for c, _ in ordered])
    pieces = Pieces(torch.ones_like(value), doubles([right for _, right in ordered]), value, value, value)
    found = ada_ece_of_pieces(pieces, equal_mass_bounds(len(samples), bins).double())
    assert found.value == pytest.approx(exact(samples, bins), abs=1e-12)
    assert found.bound <= 1e-11


def test_ties_at_1_need_no_order_because_every_gap_has_one_sign():
    """40% of all samples at confidence 1, of which some are wrong: their gaps are 0 or 1, never negative."""
    mass, correct = doubles([60.0, 40.0]), doubles([30.0, 33.0])
    pieces = Pieces(mass, correct, doubles([0.9 * 60, 40.0]), doubles([0.9, 1.0]), doubles([0.9, 1.0]))
    found = ada_ece_of_pieces(pieces, doubles([0, 60, 70, 80, 90, 100]))
    assert found.value == pytest.approx((0.9 * 60 - 30 + 7) / 100)
    assert found.bound <= 1e-11


def test_the_bound_of_one_heavy_tie_is_no_wider_than_it_must_be():
    """Two samples of one confidence, one right: the true value is 0.5 in either order, the estimate 0.25."""
    pieces = Pieces(doubles([2.0]), doubles([1.0]), doubles([1.5]), doubles([0.75]), doubles([0.75]))
    found = ada_ece_of_pieces(pieces, doubles([0, 1, 2]))
    assert found == pytest.approx((0.25, 0.25))
