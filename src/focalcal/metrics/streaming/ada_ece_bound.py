"""Bound on AdaECE where the order of samples is known only from cell to cell of confidence.

Let G(m) be the sum of confidence − correctness over the first mass m of the samples sorted by confidence. AdaECE is
Σ_j |G(c_{j+1}) − G(c_j)| / G's whole mass, at the cuts c_j of bins of equal mass. G is known where a piece ends. Where
a cut falls inside a piece of mass m with correctness k and confidences between low and high, then of the mass t before
the cut between max(0, t − (m − k)) and min(t, k) is right, whatever the order; so G(c_j) lies in an interval (a single
number where the piece holds one confidence only: ties are shared in proportion). The estimate takes the piece as well
mixed. The bound follows from the intervals, in two ways of which the better counts:

- the largest and the smallest variation of any curve through the intervals;
- the signs of the gaps: neighbouring bins of one sign share a cut without error, for what one loses the other gains.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# Relative to the total mass: what adding up in float64 can lose.
_ROUNDING = 1e-11


class Pieces(NamedTuple):
    """Groups of samples in ascending order of confidence; (P,) float64 each, masses positive.

    Attributes:
        mass: Number of samples, or their weight.
        correct: Mass of what is right.
        confidence: The sum of confidence (times weight).
        low: No confidence in the piece is below it.
        high: No confidence in the piece is above it.
    """

    mass: Tensor
    correct: Tensor
    confidence: Tensor
    low: Tensor
    high: Tensor


def ada_ece_range(pieces: Pieces, cuts: Tensor) -> tuple[float, float]:
    """Return the least and the largest AdaECE that samples in such pieces can have.

    Args:
        pieces: What is known.
        cuts: (M − 1,) float64, inner cuts on the axis of cumulated mass.

    Examples:
        >>> two = torch.tensor([2.0]).double()
        >>> tied = Pieces(two, two / 2, 0.75 * two, torch.tensor([0.75]).double(), torch.tensor([0.75]).double())
        >>> [round(end, 6) for end in ada_ece_range(tied, torch.tensor([1.0]).double())]
        [0.25, 0.25]
        >>> near = tied._replace(low=torch.tensor([0.7]).double(), high=torch.tensor([0.8]).double())
        >>> [round(end, 6) for end in ada_ece_range(near, torch.tensor([1.0]).double())]
        [0.25, 0.55]
    """
    total = float(pieces.mass.sum())
    low, high, piece = _curve_at(pieces, cuts)
    widths = torch.cat([cuts[:1], cuts.diff(), total - cuts[-1:]]) if len(cuts) else torch.tensor([total]).double()
    by_sign = _limits_by_sign(low, high, *_steps(pieces, piece, widths, low, high))
    lowest = max(by_sign[0], _least_variation(low.tolist(), high.tolist()))
    highest = min(by_sign[1], _most_variation(low.tolist(), high.tolist()))
    return lowest / total - _ROUNDING, highest / total + _ROUNDING


def _curve_at(pieces: Pieces, cuts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """G at 0, at the inner cuts and at the end: lowest and highest, (M + 1,) each; and the cuts' pieces."""
    mass, gap = pieces.mass.cumsum(0), (pieces.confidence - pieces.correct).cumsum(0)
    at = torch.searchsorted(mass, cuts).clamp(max=len(mass) - 1)
    m, k, s, low, high = (part[at] for part in pieces)
    t = (cuts - (mass[at] - m)).clamp(min=0).minimum(m)
    before = gap[at] - (s - k)
    mixed = before + t * (s - k) / m
    # The first t of m sorted confidences are no larger than the others on average.
    lowest = before + (t * low).maximum(s - (m - t) * high) - t.minimum(k)
    highest = before + (t * high).minimum(t * s / m) - (t - (m - k)).clamp(min=0)
    tied = low == high
    parts = (mixed.where(tied, lowest), mixed.where(tied, highest))
    return *(torch.cat([gap.new_zeros(1), part, gap[-1:]]) for part in parts), at  # type: ignore[return-value]


def _steps(pieces: Pieces, at: Tensor, widths: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Bound the gap of each bin, (M,) each. If it lies inside one piece its mass may say more than its ends do."""
    step_low, step_high = low[1:] - high[:-1], high[1:] - low[:-1]
    inside = torch.zeros_like(step_low, dtype=torch.bool)
    inside[1:-1] = (at[1:] == at[:-1]) & (pieces.low < pieces.high)[at[1:]]
    m, k, _, lowest, highest = (part[at[:-1][inside[1:-1]]] for part in pieces)
    t = widths[inside]
    step_low[inside] = step_low[inside].maximum(t * lowest - t.minimum(k))
    step_high[inside] = step_high[inside].minimum(t * highest - (t - (m - k)).clamp(min=0))
    return step_low, step_high


def _limits_by_sign(low: Tensor, high: Tensor, step_low: Tensor, step_high: Tensor) -> tuple[float, float]:
    """Compute limits of Σ_j |gap_j|, from the cuts at which the sign changes; a gap of unknown sign counts in full."""
    sign = (step_low >= 0).double() - ((step_high <= 0) & (step_low < 0)).double()
    nothing = sign.new_zeros(1)
    factor = torch.cat([nothing, sign]) - torch.cat([sign, nothing])
    ends = torch.stack([factor * low, factor * high])
    unknown = step_low.abs().maximum(step_high.abs())[sign == 0].sum()
    return float(ends.amin(dim=0).sum()), float(ends.amax(dim=0).sum() + unknown)


def _most_variation(low: list[float], high: list[float]) -> float:
    """Return the largest Σ |x_{j+1} − x_j| with each x_j in [low_j, high_j]: convex, so that every x_j is at an end."""
    to_low = to_high = 0.0
    for a, b, c, d in zip(low, high, low[1:], high[1:], strict=False):
        to_low, to_high = (max(to_low + abs(end - a), to_high + abs(end - b)) for end in (c, d))
    return max(to_low, to_high)


def _least_variation(low: list[float], high: list[float]) -> float:
    """Return the least Σ |x_{j+1} − x_j| with each x_j in [low_j, high_j]: move only if the next is out of reach."""
    variation, nearest, farthest = 0.0, low[0], high[0]
    for a, b in zip(low[1:], high[1:], strict=True):
        if a > farthest:
            variation, nearest, farthest = variation + a - farthest, a, a
        elif b < nearest:
            variation, nearest, farthest = variation + nearest - b, b, b
        else:
            nearest, farthest = max(nearest, a), min(farthest, b)
    return variation
