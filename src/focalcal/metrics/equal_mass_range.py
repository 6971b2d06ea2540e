"""AdaECE where the order of samples is known only from piece to piece, with a bound on the error that this leaves.

Let G(m) be the sum of confidence − correctness over the first mass m of the samples sorted by confidence. AdaECE is
Σ_j |G(c_{j+1}) − G(c_j)| / G's whole mass, at the cuts c_j of bins of equal mass. G is known where a piece ends. Where
a cut falls inside a piece of mass m with correctness k and confidences between low and high, then of the mass t before
the cut between max(0, t − (m − k)) and min(t, k) is right, whatever the order; so G(c_j) lies in an interval. The
estimate takes the piece as well mixed. The bound follows from the intervals, in two ways of which the better counts:

- the largest and the smallest variation of any curve through the intervals;
- the signs of the gaps: neighbouring bins of one sign share a cut without error, for what one loses the other gains.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from focalcal.metrics.smooth import BoundedValue

# Relative to the total mass: what adding up in float64 can lose.
_ROUNDING = 1e-12


class Pieces(NamedTuple):
    """Groups of samples in ascending order of confidence; (P,) float64 each, masses positive.

    Attributes:
        mass: number of samples, or their weight.
        correct: how much of it is right.
        confidence: the sum of confidence (times weight).
        low: no confidence in the piece is below it.
        high: no confidence in the piece is above it.
    """

    mass: Tensor
    correct: Tensor
    confidence: Tensor
    low: Tensor
    high: Tensor


def ada_ece_of_pieces(pieces: Pieces, cuts: Tensor) -> BoundedValue:
    """AdaECE and a bound on its distance from that of the sorted samples, however ties are ordered.

    Args:
        pieces: what is known.
        cuts: (M + 1,) float64, positions on the axis of cumulated mass, from 0 to the total.

    Examples:
        >>> one = torch.ones(2, dtype=torch.float64)
        >>> certain = Pieces(one, torch.tensor([0.0, 1.0]).double(), 0.75 * one, 0.75 * one, 0.75 * one)
        >>> ada_ece_of_pieces(certain, torch.tensor([0.0, 1.0, 2.0]).double()).value
        0.5
        >>> tied = Pieces(*(part.sum()[None] for part in certain[:3]), 0.75 * one[:1], 0.75 * one[:1])
        >>> value, bound = ada_ece_of_pieces(tied, torch.tensor([0.0, 1.0, 2.0]).double())
        >>> round(value, 6), round(bound, 6)
        (0.25, 0.25)
    """
    total = float(pieces.mass.sum())
    curve, low, high, piece = _curve_at(pieces, cuts[1:-1])
    by_sign = _limits_by_sign(low, high, *_steps(pieces, piece, cuts, low, high))
    lowest = max(by_sign[0], _least_variation(low.tolist(), high.tolist()))
    highest = min(by_sign[1], _most_variation(low.tolist(), high.tolist()))
    value = float(curve.diff().abs().sum())
    return BoundedValue(value / total, max(highest - value, value - lowest, 0.0) / total + _ROUNDING)


def _curve_at(pieces: Pieces, cuts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """G at 0, at the inner cuts and at the end: estimate, lowest, highest, (M + 1,) each; and the cuts' pieces."""
    mass, gap = pieces.mass.cumsum(0), (pieces.confidence - pieces.correct).cumsum(0)
    at = torch.searchsorted(mass, cuts).clamp(max=len(mass) - 1)
    m, k, s, low, high = (part[at] for part in pieces)
    t = (cuts - (mass[at] - m)).clamp(min=0).minimum(m)
    before = gap[at] - (s - k)
    estimate = before + t * (s - k) / m
    # The first t of m sorted confidences are no larger than the others on average.
    lowest = before + (t * low).maximum(s - (m - t) * high) - t.minimum(k)
    highest = before + (t * high).minimum(t * s / m) - (t - (m - k)).clamp(min=0)
    ends = gap.new_zeros(1), gap[-1:]
    return *(torch.cat([ends[0], part, ends[1]]) for part in (estimate, lowest, highest)), at  # type: ignore[return-value]


def _steps(pieces: Pieces, at: Tensor, cuts: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Limits of the gap of each bin, (M,) each. If it lies inside one piece its mass may say more than its ends do."""
    step_low, step_high = low[1:] - high[:-1], high[1:] - low[:-1]
    inside = torch.zeros_like(step_low, dtype=torch.bool)
    inside[1:-1] = at[1:] == at[:-1]
    m, k, _, lowest, highest = (part[at[:-1][inside[1:-1]]] for part in pieces)
    t = cuts.diff()[inside]
    step_low[inside] = step_low[inside].maximum(t * lowest - t.minimum(k))
    step_high[inside] = step_high[inside].minimum(t * highest - (t - (m - k)).clamp(min=0))
    return step_low, step_high


def _limits_by_sign(low: Tensor, high: Tensor, step_low: Tensor, step_high: Tensor) -> tuple[float, float]:
    """Limits of Σ_j |gap_j|, from the cuts at which the sign changes; a gap of unknown sign counts in full."""
    sign = (step_low >= 0).double() - ((step_high <= 0) & (step_low < 0)).double()
    nothing = sign.new_zeros(1)
    factor = torch.cat([nothing, sign]) - torch.cat([sign, nothing])
    ends = torch.stack([factor * low, factor * high])
    unknown = step_low.abs().maximum(step_high.abs())[sign == 0].sum()
    return float(ends.amin(dim=0).sum()), float(ends.amax(dim=0).sum() + unknown)


def _most_variation(low: list[float], high: list[float]) -> float:
    """The largest Σ |x_{j+1} − x_j| with each x_j in [low_j, high_j]: convex, so that every x_j is at an end."""
    to_low = to_high = 0.0
    for a, b, c, d in zip(low, high, low[1:], high[1:], strict=False):
        to_low, to_high = (max(to_low + abs(end - a), to_high + abs(end - b)) for end in (c, d))
    return max(to_low, to_high)


def _least_variation(low: list[float], high: list[float]) -> float:
    """The smallest Σ |x_{j+1} − x_j| with each x_j in [low_j, high_j]: move only if the next one is out of reach."""
    variation, nearest, farthest = 0.0, low[0], high[0]
    for a, b in zip(low[1:], high[1:], strict=True):
        if a > farthest:
            variation, nearest, farthest = variation + a - farthest, a, a
        elif b < nearest:
            variation, nearest, farthest = variation + nearest - b, b, b
        else:
            nearest, farthest = max(nearest, a), min(farthest, b)
    return variation
