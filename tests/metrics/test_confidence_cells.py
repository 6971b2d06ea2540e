import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.confidence_cells import CELLS, cell_index, cell_limits

probabilities = st.one_of(
    st.floats(0, 1),
    st.integers(1, 1074).map(lambda e: 2.0**-e),
    st.integers(1, 53).map(lambda e: 1 - 2.0**-e),
    st.sampled_from([0.0, 0.5, 1.0, 2.0**-6, 1 - 2.0**-6, 2.0**-26, 1 - 2.0**-26]),
)


def cells(*values):
    return cell_index(torch.tensor(values, dtype=torch.float64)).tolist()


@settings(deadline=None)
@given(probabilities, probabilities)
def test_cells_have_the_order_of_their_values(a, b):
    first, second = cells(min(a, b), max(a, b))
    assert 0 <= first <= second < CELLS


@settings(deadline=None)
@given(probabilities)
def test_a_value_lies_within_the_limits_of_its_cell(p):
    for value in (p, math.nextafter(p, 0), min(1.0, math.nextafter(p, 2))):
        (cell,) = cells(value)
        low, high = cell_limits()
        assert low[cell] <= value <= high[cell]


def test_cells_do_not_overlap_and_leave_nothing_out():
    low, high = cell_limits()
    assert low[0] == high[0] == 0
    assert low[-1] == high[-1] == 1
    assert torch.equal(low[1:], high[:-1])


def test_cells_are_as_fine_as_they_are_said_to_be():
    low, high = cell_limits()
    width, distance = high - low, torch.minimum(high, 1 - low)
    assert float(width.max()) <= 2.0**-17
    far = distance > 2.0**-26
    assert bool((width[far] <= distance[far] * 2.0**-11).all())


def test_exactly_0_and_exactly_1_stand_alone():
    tiny = math.nextafter(0, 1)
    assert cells(0.0, tiny, math.nextafter(1, 0), 1.0) == [0, 1, CELLS - 2, CELLS - 1]
