"""A fixed fine grid on [0, 1], finer towards both ends, to count confidences on when there are too many to keep.

A cell is at most 2^-17 wide, and at most 2^-11 of its distance from the nearer end, down to a distance of 2^-26.
Exactly 0 and exactly 1 have cells of their own. The grid is the same for everybody, so that counts of parts add up.
"""

from functools import cache

import torch
from torch import Tensor

_WIDTH_BITS = 17
_OCTAVE_BITS = 11
# At this distance from an end, 2^-6, a cell of width 2^-17 is 2^-11 of the distance: here the two grids meet.
_MEETING = _WIDTH_BITS - _OCTAVE_BITS
_NEAREST = 26
# Mantissa bits of a double that lie below the cells of an octave, and what the bits above them are for 2^-26.
_SHIFT = 52 - _OCTAVE_BITS
_FIRST_OCTAVE = (1023 - _NEAREST) << _OCTAVE_BITS
# Cells 0 (the end itself) and 1 (nearer than 2^-26), then those of the octaves, then those of equal width.
_FIRST_LINEAR = 2 + ((_NEAREST - _MEETING) << _OCTAVE_BITS)
_LINEAR_OFFSET = _FIRST_LINEAR - (1 << _OCTAVE_BITS)
_HALF = _LINEAR_OFFSET + (1 << (_WIDTH_BITS - 1)) + 1
CELLS = 2 * _HALF
# Where sums are kept of many groups of samples, 128 neighbours make one cell: 2^-10 wide, and 1/16 of the distance from
# an end.
JOINED_BITS = 7
JOINED_CELLS = (CELLS - 1 >> JOINED_BITS) + 1


def cell_index(p: Tensor) -> Tensor:
    """Return the cell of every probability, in the order of the probabilities.

    Args:
        p: (N,) float64 in [0, 1].

    Returns:
        (N,) int64 in [0, CELLS).

    Examples:
        >>> cells = cell_index(torch.tensor([0.0, 1e-9, 0.3, 0.7, 1 - 1e-9, 1.0], dtype=torch.float64))
        >>> bool((cells.diff() > 0).all()), int(cells[0]), CELLS - int(cells[-1])
        (True, 0, 1)
    """
    upper = p >= 0.5
    # 1 − p is exact for p in [0.5, 1].
    distance = torch.where(upper, 1 - p, p)
    octave = (distance.view(torch.int64) >> _SHIFT) - (_FIRST_OCTAVE - 2)
    linear = (distance * 2**_WIDTH_BITS).long() + _LINEAR_OFFSET
    cell = torch.where(distance < 2.0**-_MEETING, octave.clamp_(min=1), linear).masked_fill_(distance == 0, 0)
    return torch.where(upper, CELLS - 1 - cell, cell)


@cache
def cell_limits() -> tuple[Tensor, Tensor]:
    """Return the lowest and highest value that each cell may hold, (CELLS,) float64 each."""
    cell = torch.arange(_HALF + 1)
    octaves = (cell + (_FIRST_OCTAVE - 2) << _SHIFT).view(torch.float64)
    linear = (cell - _LINEAR_OFFSET).double() / 2**_WIDTH_BITS
    nearest = torch.where(cell < _FIRST_LINEAR, octaves, linear)
    nearest[:2] = 0
    nearest[_HALF] = 0.5
    low, high = nearest[:-1], nearest[1:].clone()
    high[0] = 0
    return torch.cat([low, 1 - high.flip(0)]), torch.cat([high, 1 - low.flip(0)])


@cache
def joined_middles() -> Tensor:
    """Return the middle of what each joined cell may hold, (JOINED_CELLS,) float64."""
    low, high = cell_limits()
    first = torch.arange(JOINED_CELLS) << JOINED_BITS
    last = (first + (1 << JOINED_BITS) - 1).clamp(max=CELLS - 1)
    return (low[first] + high[last]) / 2
