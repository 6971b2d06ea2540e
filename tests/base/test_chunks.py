from hypothesis import given
from hypothesis import strategies as st

from focalcal.base.chunks import chunk_rows, chunks


@given(st.integers(0, 500), st.integers(0, 50), st.integers(1, 200))
def test_chunks_cover_every_row_once_within_the_budget(n, width, budget):
    found = list(chunks(n, width, budget))
    assert [row for one in found for row in range(one.start, one.stop)] == list(range(n))
    for one in found:
        assert one.stop - one.start == 1 or (one.stop - one.start) * width <= budget
    assert chunk_rows(width, budget) >= 1
