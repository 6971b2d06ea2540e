import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import ada_ece
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.samples import ConfidenceSamples
from focalcal.metrics.streaming.ada_ece_bound import Pieces, ada_ece_range
from focalcal.metrics.sums import Sums

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


def ranking(samples, bins):
    confidence, correct = doubles([c for c, _ in samples]), torch.tensor([right for _, right in samples])
    return RankedSamples(ConfidenceSamples(confidence, correct, None)).ranking(bins)


def range_and_value(pieces, samples, bins):
    ranked = ranking(samples, bins)
    return *ada_ece_range(pieces, torch.from_numpy(ranked.cuts)), ada_ece(Sums(ranking=ranked))


@settings(deadline=None, max_examples=200)
@given(samples_of_pieces, st.integers(1, 6))
def test_the_range_holds_the_value_of_the_sorted_samples(drawn, bins):
    groups = [[(i / 4 + c, right) for c, right in group] for i, group in enumerate(drawn)]
    samples = [sample for group in groups for sample in group]
    low, high, value = range_and_value(pieces_of(groups), samples, bins)
    assert low <= value <= high


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from([0.3, 0.7, 1.0]), st.booleans()), min_size=1, max_size=9), st.integers(1, 6))
def test_ties_leave_nothing_open(samples, bins):
    values = sorted({c for c, _ in samples})
    groups = [[s for s in samples if s[0] == value] for value in values]
    pieces = pieces_of(groups)._replace(low=doubles(values), high=doubles(values))
    low, high, value = range_and_value(pieces, samples, bins)
    assert (low, high) == pytest.approx((value, value), abs=1e-10)


def test_gaps_of_one_sign_need_no_order():
    """40% of all samples near confidence 1, of which some are wrong: all of their gaps are positive or small."""
    mass, correct = doubles([60.0, 40.0]), doubles([30.0, 33.0])
    pieces = Pieces(mass, correct, doubles([0.9 * 60, 40.0]), doubles([0.9, 1.0]), doubles([0.9, 1.0]))
    low, high = ada_ece_range(pieces, doubles([60, 70, 80, 90]))
    assert (low, high) == pytest.approx([(0.9 * 60 - 30 + 7) / 100] * 2)


def test_the_range_of_two_near_samples_is_no_wider_than_it_must_be():
    """Of 0.7 and 0.8 one is right, in two bins: gaps 0.7 and −0.2, or −0.3 and 0.8."""
    pieces = Pieces(doubles([2.0]), doubles([1.0]), doubles([1.5]), doubles([0.7]), doubles([0.8]))
    low, high = ada_ece_range(pieces, doubles([1.0]))
    for samples in ([(0.7, False), (0.8, True)], [(0.7, True), (0.8, False)]):
        assert low <= ada_ece(Sums(ranking=ranking(samples, 2))) <= high
    assert high == pytest.approx(0.55)
