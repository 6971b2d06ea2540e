import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalcal.data.splits import choose_balanced_subset, hash_split, hold_out

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=200).map(torch.tensor)


@given(LABELS, st.floats(0, 1), st.integers(0, 2**31))
def test_a_split_is_disjoint_complete_and_keeps_the_classes(labels, share, seed):
    kept, held = hold_out(labels, share, seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    for label in labels.unique():
        wanted = share * int((labels == label).sum())
        assert abs(int((labels[held] == label).sum()) - wanted) <= 0.5 + 1e-4


@given(LABELS, st.integers(0, 100), st.data())
def test_a_subset_takes_classes_in_turn(labels, seed, data):
    size = data.draw(st.integers(1, len(labels)))
    chosen = choose_balanced_subset(labels, size, seed)
    assert len(chosen.unique()) == size
    taken, there = labels[chosen].bincount(minlength=6), labels.bincount(minlength=6)
    short = taken < there  # a class of which some are left has no fewer than any other, but for one
    assert bool((taken[short] >= taken.max() - 1).all())
    smaller = choose_balanced_subset(labels, max(1, size // 2), seed)
    assert set(smaller.tolist()) <= set(chosen.tolist())


def test_the_seed_decides():
    labels = torch.arange(10).repeat(20)
    first, again, other = (hold_out(labels, 0.1, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("size", [0, 21, -1])
def test_a_subset_larger_than_the_split_is_refused(size):
    with pytest.raises(ValueError, match="between 1 and 20"):
        choose_balanced_subset(torch.arange(20) % 2, size, 0)


def test_the_hash_depends_on_order_and_content():
    hashes = {hash_split(torch.tensor(ids)) for ids in ([1, 2], [2, 1], [1, 2, 3])}
    assert len(hashes) == 3
