"""Duplicate ids are found in any number of shares, and equal hashes alone are no duplicates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.predictions.ids import check_unique_in_blocks


def first_repetition(ids):
    """The obvious way: the earliest row that repeats one before it."""
    for second in range(len(ids)):
        if ids[second] in ids[:second]:
            return ids[second]
    return None


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(0, 40).map(str), min_size=1, max_size=30), st.integers(1, 7), st.integers(1, 40))
def test_a_repeated_id_is_found_whatever_the_blocks_and_shares(ids, rows, at_once):
    def blocks():
        return (ids[start : start + rows] for start in range(0, len(ids), rows))

    if first_repetition(ids) is None:
        check_unique_in_blocks(blocks, len(ids), at_once)
        return
    with pytest.raises(ValueError, match="occurs twice") as refused:
        check_unique_in_blocks(blocks, len(ids), at_once)
    named = str(refused.value).split("'")[1]
    rows_of_it = [row for row, name in enumerate(ids) if name == named]
    assert f"in rows {rows_of_it[0]} and {rows_of_it[1]};" in str(refused.value)


def test_ids_with_equal_hashes_are_compared_in_full(monkeypatch):
    monkeypatch.setattr("focalcal.predictions.ids.hash", len, raising=False)  # every letter gets the same
    check_unique_in_blocks(lambda: iter([["a", "b"], ["c", "d"]]), 4)
    with pytest.raises(ValueError, match="'b' occurs twice, in rows 1 and 3"):
        check_unique_in_blocks(lambda: iter([["a", "b"], ["c", "b"]]), 4)
