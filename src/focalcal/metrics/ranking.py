"""Samples in the order of their confidence, and the metrics that depend on it: AdaECE and debiased ECE.

Samples of equal confidence have no order: they form one cell, and a cut through a cell takes of everything in it the
same share. So nothing here depends on the order of the rows, and cells of parts of the data add up to those of the
whole. Where there are too many samples to keep, cells are ranges of confidence instead of single values.

**Debiased ECE** (L2) of Kumar, Liang & Ma (2019) is what is left of binned gaps after their noise. In each bin the
squared gap between mean confidence and accuracy a is too large by the variance of a, on average. That variance is
estimated without bias by a(1 − a)/(n_b − 1) and taken off:

    debiased = sqrt(max(0, Σ_b n_b/n · [(confidence_b − a_b)² − a_b (1 − a_b)/(n_b − 1)]))

A cell is never cut here: a bin ends with the cell that a cut falls into. A bin with one sample says nothing about its
own variance and counts as 0. This is what the authors' package computes.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.arguments import takes_predictions
from focalcal.metrics.binning import BinSums, as_number, check_bins, equal_mass_bounds
from focalcal.metrics.samples import ConfidenceSamples, confidence_samples
from focalcal.metrics.sums import Measurable, Sums, get_sums

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Column = Literal["mass", "gap", "correct", "squares"]

# A weighted cell ends a bin if it reaches the cut but for rounding, relative to the whole mass.
_ROUNDING = 1e-12


class Ranking:
    """Sums over cells of equal (or nearly equal) confidence, in ascending order: (P,) float64, or (P, B).

    Args:
        samples: Number of samples of positive weight; (B,) for B resamples.
        column: Gives each column of sums when it is first asked for.
        bins: Number of bins of equal mass, M.
    """

    def __init__(self, samples: int | Integers, column: Callable[[Column], Array], bins: int = 15) -> None:
        check_bins(bins)
        self.samples = samples
        self.bins = bins
        self._column = cache(column)

    @property
    def mass(self) -> Array:
        """Σ weight."""
        return self._column("mass")

    @property
    def gap(self) -> Array:
        """Σ weight · (confidence − correct)."""
        return self._column("gap")

    @property
    def correct(self) -> Array:
        """Σ weight of right samples."""
        return self._column("correct")

    @cached_property
    def mass_up_to(self) -> Array:
        """Mass of all cells up to each one."""
        return np.cumsum(self.mass, axis=0)

    @cached_property
    def gap_up_to(self) -> Array:
        """Gap of all cells up to each one: at the ends of ties, never among them."""
        return np.cumsum(self.gap, axis=0)

    @property
    def total(self) -> Array:
        """The whole mass: (), or (B,)."""
        return np.asarray(self.mass_up_to[-1])

    @cached_property
    def cuts(self) -> Array:
        """The M − 1 inner cuts into bins of equal mass on the axis of cumulated mass: (M − 1,), or (M − 1, B).

        They lie where ``numpy.array_split`` cuts, in units of the mean weight.
        """
        sizes, where = np.unique(self.samples, return_inverse=True)
        bounds = np.stack([equal_mass_bounds(int(size), self.bins).numpy()[1:-1] for size in sizes], axis=1)
        bounds = bounds[:, where.reshape(np.shape(self.samples))]
        return np.asarray(bounds * (self.total / np.maximum(self.samples, 1)))

    def gaps_of_equal_mass(self) -> Array:
        """Return the gap of each bin of equal mass, (M,) or (M, B); two bins share the cell that a cut falls into."""
        return self._between_cuts(self.gap, self.gap_up_to)

    def equal_mass_bins(self) -> BinSums:
        """Sum over the bins of equal mass, as `gaps_of_equal_mass` has them."""
        columns: tuple[Column, ...] = ("mass", "gap", "correct")
        parts = (self._between_cuts(values, np.cumsum(values, axis=0)) for values in map(self._column, columns))
        return _bin_sums(*parts)

    def _between_cuts(self, values: Array, up_to: Array) -> Array:
        cell, beyond = self._cells_at_cuts
        at_cuts = np.take_along_axis(up_to, cell, axis=0) - beyond * np.take_along_axis(values, cell, axis=0)
        return np.diff(at_cuts, axis=0, prepend=0.0, append=up_to[-1:])

    @cached_property
    def _cells_at_cuts(self) -> tuple[Integers, Array]:
        """The cell that each cut falls into, and the share of it that lies beyond the cut."""
        cell = first_at_least(self.mass_up_to, self.cuts)
        mass = np.take_along_axis(self.mass, cell, axis=0)
        beyond = np.take_along_axis(self.mass_up_to, cell, axis=0) - self.cuts
        return cell, np.divide(beyond, mass, out=np.zeros_like(mass), where=mass > 0)

    def bin_of_whole_cells(self) -> Integers:
        """Return the bin of each cell, (P,), where a bin ends with the cell that a cut falls into."""
        return np.searchsorted(self._last_whole_cells, np.arange(len(self.mass)))

    @cached_property
    def _last_whole_cells(self) -> Integers:
        return first_at_least(self.mass_up_to, self.cuts - _ROUNDING * self.total)

    def bins_of_whole_cells(self) -> tuple[BinSums, Tensor]:
        """Sum over M bins that end with the cell that a cut falls into, and the squares of the weights there."""
        last = self._last_whole_cells
        columns: tuple[Column, ...] = ("mass", "gap", "correct", "squares")
        sums = (np.cumsum(self._column(column), axis=0) for column in columns)
        mass, gap, correct, squares = (
            np.diff(np.take_along_axis(up_to, last, axis=0), axis=0, prepend=0.0, append=up_to[-1:]) for up_to in sums
        )
        return _bin_sums(mass, gap, correct), _bins_last(squares)


def _bin_sums(mass: Array, gap: Array, correct: Array) -> BinSums:
    return BinSums(_bins_last(mass), _bins_last(gap + correct), _bins_last(correct))


def _bins_last(values: Array) -> Tensor:
    """Turn (M, B) into (B, M)."""
    return torch.from_numpy(np.ascontiguousarray(values.T))


def first_at_least(ascending: Array, wanted: Array) -> Integers:
    """In each column of ``ascending`` (P, …), find the first row that reaches ``wanted`` (M, …), or the last row.

    Examples:
        >>> first_at_least(np.array([1.0, 3.0, 6.0]), np.array([0.5, 3.0, 3.1, 7.0])).tolist()
        [0, 1, 2, 2]
    """
    if ascending.ndim == 1:
        return np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    low = np.zeros(wanted.shape, dtype=np.int64)
    high = np.full(wanted.shape, len(ascending) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        # Where the search has ended, rounding may have left even the last row short of what is wanted.
        reached = (np.take_along_axis(ascending, middle, axis=0) >= wanted) | (low == high)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle + 1)
    return low


class RankedSamples:
    """Samples sorted by confidence, of which rankings of any resample can be made.

    Args:
        samples: N samples; those of weight 0 count for nothing.

    Attributes:
        order: (N,) the samples in ascending order of confidence.
        confidence: (P,) the confidence of each cell.
    """

    def __init__(self, samples: ConfidenceSamples) -> None:
        confidence = samples.confidence.double().numpy()
        self.order = np.argsort(confidence, kind="stable")
        confidence = confidence[self.order]
        self._first = np.flatnonzero(np.diff(confidence, prepend=-1.0))
        self.confidence = confidence[self._first]
        self._weight = None if samples.weight is None else samples.weight.numpy()[self.order]
        self._correct = samples.correct.numpy()[self.order].astype(np.float64)
        self._gap = confidence - self._correct

    @property
    def cell(self) -> Integers:
        """The cell of each sample, (N,), in the order of the data."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self._first)), np.diff(self._first, append=len(self.order)))
        return found

    def ranking(self, bins: int = 15, counts: npt.NDArray[np.uint8] | None = None) -> Ranking:
        """Rank the samples, or B resamples of them given as counts (N, B), which are in the order of the data."""
        counts = None if counts is None else np.take(counts, self.order, axis=0)
        used = np.ones(len(self.order), dtype=np.bool_) if self._weight is None else self._weight > 0
        samples = int(used.sum()) if counts is None else counts[used].sum(axis=0, dtype=np.int64)

        def column(name: Column) -> Array:
            terms = self._terms(name)
            rows: Array = terms if counts is None else counts * terms[:, None]
            if len(self._first) == len(rows):
                return rows
            return np.asarray(np.add.reduceat(rows, self._first, axis=0), dtype=np.float64)

        return Ranking(samples, column, bins)

    def _terms(self, column: Column) -> Array:
        values: dict[Column, Array] = {"gap": self._gap, "correct": self._correct}
        each = values.get(column, np.ones(len(self.order)))
        if self._weight is None:
            return each
        return np.asarray(each * (self._weight**2 if column == "squares" else self._weight))


def ranking(preds: Measurable, bins: int = 15) -> Ranking:
    """Rank samples by confidence; sums have a ranking, with bins of its own."""
    if isinstance(preds, Sums):
        return cast(Ranking, get_sums(preds, "ranking"))
    return RankedSamples(confidence_samples(preds)).ranking(bins)


@takes_predictions
def ada_ece(preds: Measurable, *, bins: int = 15) -> float:
    """Adaptive ECE: Σ_m (n_m / n) |accuracy_m − confidence_m| over M bins of equal mass.

    The samples are sorted by confidence and cut as ``numpy.array_split`` cuts: sizes differ by at most one. Where a cut
    falls among samples of equal confidence, each side gets its share of all of them, so that the order of the rows does
    not matter. Fewer samples than bins leave bins empty. With weights the cuts lie at the same fractions of the total
    weight.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> ada_ece(Predictions.from_probs([[0.75, 0.25], [0.625, 0.375], [1.0, 0.0]], [0, 1, 0]), bins=2)
        0.125
    """
    ranked = ranking(preds, bins)
    return as_number(np.abs(ranked.gaps_of_equal_mass()).sum(axis=0) / ranked.total)


@takes_predictions
def debiased_ece(preds: Measurable, *, bins: int = 15) -> float:
    """Debiased L2 calibration error of the top-label confidence (formula: the module's first lines).

    Comparable with the root mean square of binned gaps, not with ECE, which is a mean of absolute gaps. It is 0 where
    the gaps are no larger than chance makes them.

    Args:
        preds: Predictions. With weights, n_b is the effective number (Σw)²/Σw² of the bin, so that the scale of the
            weights does not matter.
        bins: Number of bins.

    Returns:
        A number between 0 and 1.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(8, 2)
        >>> debiased_ece(Predictions.from_probs(probs, torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])))  # right in 0.75 of 8
        0.0
        >>> round(debiased_ece(Predictions.from_probs(probs, torch.ones(8, dtype=torch.int64))), 6)  # never right
        0.75
    """
    sums, squares = ranking(preds, bins).bins_of_whole_cells()
    count = sums.count
    divisor = count.where(count > 0, torch.ones_like(count))
    accuracy = sums.correct / divisor
    effective = count.square() / squares.where(count > 0, divisor)
    # Rounding may put the effective number of one weighted sample a hair above 1.
    several = effective > 1 + 1e-9
    noise = accuracy * (1 - accuracy) / (effective - 1).where(several, torch.ones_like(count))
    excess = ((sums.gap / divisor).square() - noise).where(several, torch.zeros_like(count))
    return as_number(((count * excess).sum(-1) / count.sum(-1)).clamp(min=0).sqrt())


@takes_predictions
def ks_error(preds: Measurable) -> float:
    """Kolmogorov–Smirnov calibration error: the largest |Σ (confidence − correct)| / n up to any confidence.

    The samples are sorted by confidence, and sums are taken at the ends of ties, so that the order of the rows does not
    matter (Gupta et al. 2021). There are no bins. It is at least |mean confidence − accuracy|, and equal to it where
    the model is over-confident (or under-confident) at every confidence.

    Args:
        preds: N predictions of K classes; per-sample weights count as usual.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> ks_error(Predictions.from_probs([[0.75, 0.25], [0.625, 0.375], [1.0, 0.0], [0.5, 0.5]], [0, 1, 0, 0]))
        0.125
    """
    ranked = ranking(preds)
    return as_number(np.abs(ranked.gap_up_to).max(axis=0) / ranked.total)
