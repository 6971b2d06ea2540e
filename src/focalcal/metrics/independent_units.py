"""Independent units (samples, or clusters of them), their sums per fold and cell of confidence, and bins of cells.

A cell is a bin of equal width, or all samples of one confidence, or a range of confidences of a sketch; cells come in
ascending order. Linear functions of the gaps x = confidence − correct, one number v per cell, have a mean and a
standard error that follow from these sums alone where samples are independent; clusters need their samples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FOLDS = 5
# Columns of a table of `SampleUnits`, of which those from the third on are of squared weights.
COLUMNS, FIRST_SQUARE = 6, 2
# Relative to the terms of a sum: what float64 can lose.
_ROUNDING = 1e-13


def sum_at(index: Integers, values: Array, size: int) -> Array:
    """Add up values by index: (size,) float64."""
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)


def other_folds(sums: Array) -> Array:
    """Add up, for each fold of (F, …) sums, those of the other folds.

    They are never the total less the fold: what a large fold leaves of a small number is rounding, and as a direction
    is a ratio, rounding alone would choose it.

    Examples:
        >>> other_folds(np.array([-1.0, 1e-30, 0.0])).tolist()
        [1e-30, -1.0, -1.0]
    """
    return np.stack([np.delete(sums, fold, axis=0).sum(0) for fold in range(len(sums))])


class Bins:
    """M bins of P cells: each cell lies in one bin, except those that several bins share in proportion.

    Args:
        place: (P,) the bin of each cell; of a shared one, the bin that has its middle.
        count: The number of bins, M.
        shares: (M,) the share of each bin, by shared cell.
    """

    def __init__(self, place: Integers, count: int, shares: Mapping[int, Array] | None = None) -> None:
        self.place, self.count, self._shares = place, count, shares or {}
        self._whole = np.ones(len(place), dtype=np.bool_)
        self._whole[list(self._shares)] = False

    @classmethod
    def of_width(cls, count: int) -> "Bins":
        """Take each cell for a bin."""
        return cls(np.arange(count), count)

    @classmethod
    def of_mass(cls, mass: Array, cuts: Array) -> "Bins":
        """Cut cells into bins.

        Args:
            mass: (P,) of the cells.
            cuts: (M − 1,) ascending, on the axis of cumulated mass.

        Examples:
            >>> bins = Bins.of_mass(np.array([1.0, 2.0, 1.0]), np.array([2.0]))
            >>> bins.add(np.array([1.0, 10.0, 100.0])).tolist(), bins.spread(np.array([1.0, -1.0])).tolist()
            ([6.0, 105.0], [1.0, 0.0, -1.0])
        """
        ends = np.concatenate([[0.0], np.cumsum(mass)])
        edges = np.concatenate([[0.0], cuts, [max(ends[-1], cuts.max(initial=0.0))]])
        first = np.searchsorted(cuts, ends[:-1], side="right")
        last = np.searchsorted(cuts, ends[1:], side="left")
        shares = {}
        for cell in np.flatnonzero((last > first) & (mass > 0)):
            inside = np.minimum(edges[1:], ends[cell + 1]) - np.maximum(edges[:-1], ends[cell])
            shares[int(cell)] = np.maximum(inside, 0) / (ends[cell + 1] - ends[cell])
        return cls(np.searchsorted(cuts, (ends[:-1] + ends[1:]) / 2), len(cuts) + 1, shares)

    def add(self, values: Array) -> Array:
        """Add up values of cells, (…, P), over bins: (…, M)."""
        found = np.stack([self._add(row) for row in values.reshape(-1, values.shape[-1])])
        return found.reshape(*values.shape[:-1], self.count)

    def _add(self, values: Array) -> Array:
        found = sum_at(self.place[self._whole], values[self._whole], self.count)
        for cell, share in self._shares.items():
            found += share * values[cell]
        return found

    def spread(self, per_bin: Array) -> Array:
        """Give each cell what its bin has, or the mean of those that share it: (P,) from (M,)."""
        found = per_bin[self.place]
        for cell, share in self._shares.items():
            found[cell] = share @ per_bin
        return found

    def pieces(self, values: Array) -> Array:
        """Add up values of cells, (P,), over the whole cells of each bin, then name each shared cell: (M + S,)."""
        whole = sum_at(self.place[self._whole], values[self._whole], self.count)
        return np.concatenate([whole, values[list(self._shares)]])

    def join(self, pieces: Array) -> Array:
        """Add up what pieces have, (M + S, …), over the bins that they lie in: (M, …)."""
        shares = np.column_stack([np.eye(self.count), *self._shares.values()])
        return np.asarray(shares @ pieces)


def binomial_gaps(mass: Array, squares: Array, variance: Array, draws: int, seed: int) -> Array:
    """Draw the sums of gaps of a perfectly calibrated model: (size, draws), as binomial numbers of errors.

    A sum of gaps is nearly normal only where errors are many. Here a binomial number has the variance of the sum, and
    as many trials as there are samples of equal weight, so that few or no errors are as likely as they should be.

    Args:
        mass: (size,) Σ w.
        squares: (size,) Σ w².
        variance: (size,) Σ w² c (1 − c).
        draws: Number of draws.
        seed: Seed for the draws.

    Examples:
        >>> size = np.array([300.0])
        >>> drawn = binomial_gaps(size, size, size * 0.0001 * 0.9999, 4000, 0)  # a chance of 1 in 10,000, 300 times
        >>> 0.02 < float((drawn > 0.5).mean()) < 0.04  # an error at all: 1 − 0.9999^300 = 0.0296
        True
    """
    held = squares > 0
    trials = np.where(held, np.maximum(np.rint(mass**2 / np.where(held, squares, 1.0)), 1), 1).astype(np.int64)
    each = np.clip(np.divide(variance, squares, out=np.zeros_like(mass), where=held), 0, 0.25)
    # The rarer of right and wrong: p (1 − p) = each.
    p = 2 * each / (1 + np.sqrt(1 - 4 * each))
    errors = np.random.default_rng(seed).binomial(trials[:, None], p[:, None], (len(mass), draws))
    return np.asarray(mass[:, None] * (errors / trials[:, None] - p[:, None]))


@dataclass(frozen=True)
class CellSamples:
    """N samples with their cells; every array has shape (N,).

    Attributes:
        cell: The cell, below ``cells``.
        confidence: Between 0 and 1.
        correct: Bool; or the share of right ones, where a row stands for several samples.
        weight: Not negative.
        unit: The number of the sample in the whole data, or of its cluster.
        cells: The number of cells, P.
    """

    cell: Integers
    confidence: Array
    correct: npt.NDArray[np.bool_] | Array
    weight: Array
    unit: Integers
    cells: int

    @cached_property
    def gap(self) -> Array:
        """Weight · (confidence − correct)."""
        return self.weight * (self.confidence - self.correct)

    def per_fold_and_cell(self, term: Array) -> Array:
        """Add up (N,) terms: (F, P)."""
        return sum_at(self._place, term, FOLDS * self.cells).reshape(FOLDS, self.cells)

    @cached_property
    def _place(self) -> Integers:
        fold = self.unit - self.unit // FOLDS * FOLDS  # numpy's remainder takes twice as long
        return fold * self.cells + self.cell


class Units(Protocol):
    """Sums over units that are independent of each other, as intervals need them."""

    @property
    def mass(self) -> Array:
        """Σ w per fold and cell, (F, P)."""

    @property
    def gap(self) -> Array:
        """Σ w x per fold and cell, (F, P)."""

    @property
    def effective(self) -> float:
        """The number of units, (Σw)²/Σw² where they have weights."""

    @property
    def lump(self) -> float:
        """The size in which errors come, a share of the whole: z² of it is allowed for errors too rare to be seen."""

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a standard error."""

    @property
    def noise_variance(self) -> float:
        """The variance of the sum of all gaps of a perfectly calibrated model."""

    def squares(self, bins: Bins) -> Array:
        """Σ over units of (Σ w x)², per fold and bin, (F, M)."""

    def noise(self, bins: Bins, draws: int, seed: int) -> Array:
        """Draw the gaps of bins that a perfectly calibrated model would show: (M, draws)."""

    def error(self, direction: Array, mean: float) -> float:
        """Return the standard error of the mean Σ v w x / Σ w, for directions v, (P,) or (F, P)."""

    def cell_squares(self) -> Array:
        """Return about Σ (w x)² per cell, (P,), to judge by which gaps can be trusted."""

    def cell_effective(self, accuracy: Array) -> Array:
        """Return the number of independent samples that would know the accuracy (P,) of each cell as well: (P,)."""

    def largest_partial_error(self) -> float:
        """Return the largest standard error of Σ w x / Σ w over all cells up to one."""


@dataclass(frozen=True)
class SampleUnits:
    """Sums of independent samples per fold and cell, (F, P) float64 each; those of parts of the data add up.

    Attributes:
        mass: Σ w.
        gap: Σ w x.
        weight_squares: Σ w².
        gap_products: Σ w² x.
        gap_squares: Σ w² x².
        chance: Σ w² c (1 − c): the variance of Σ w x if a sample of confidence c is right with probability c.
    """

    mass: Array
    gap: Array
    weight_squares: Array
    gap_products: Array
    gap_squares: Array
    chance: Array

    @classmethod
    def of(cls, samples: CellSamples) -> "SampleUnits":
        """Add up samples; ``unit`` may be the fold as well as the number of the sample."""
        w, c, gap = samples.weight, samples.confidence, samples.gap
        if bool((w == 1).all()):
            mass, sums, squares, chance = map(samples.per_fold_and_cell, (w, gap, gap**2, c * (1 - c)))
            return cls(mass, sums, mass, sums, squares, chance)
        terms = (w, gap, w**2, w * gap, gap**2, w**2 * c * (1 - c))
        return cls(*map(samples.per_fold_and_cell, terms))

    def to_table(self) -> Array:
        """Return all sums, (6, F, P); those of parts of the data add up."""
        return np.stack([getattr(self, one.name) for one in fields(self)])

    def merge(self, other: "SampleUnits") -> "SampleUnits":
        """Add the sums of another part of the data."""
        return SampleUnits(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def effective(self) -> float:
        """(Σw)²/Σw²."""
        return float(self.mass.sum() ** 2 / self.weight_squares.sum())

    @property
    def lump(self) -> float:
        """One sample."""
        return 1 / self.effective

    def squares(self, bins: Bins) -> Array:
        """Σ w² x² per fold and bin."""
        return bins.add(self.gap_squares)

    @property
    def degrees(self) -> float:
        """Infinite: there are enough samples for a normal distribution."""
        return math.inf

    @property
    def noise_variance(self) -> float:
        """See `Units`."""
        return float(self.chance.sum())

    def noise(self, bins: Bins, draws: int, seed: int) -> Array:
        """See `Units`."""
        mass, squares, chance = (bins.pieces(part.sum(0)) for part in (self.mass, self.weight_squares, self.chance))
        return bins.join(binomial_gaps(mass, squares, chance, draws, seed))

    def error(self, direction: Array, mean: float) -> float:
        """See `Units`."""
        terms = np.stack(
            [
                direction**2 * self.gap_squares,
                -2 * mean * direction * self.gap_products,
                mean**2 * self.weight_squares,
            ]
        )
        variance = float(terms.sum())
        # Terms that cancel leave rounding, whose root is not small.
        known = variance > _ROUNDING * float(np.abs(terms).sum())
        return math.sqrt(variance) / float(self.mass.sum()) if known else 0.0

    def cell_squares(self) -> Array:
        """See `Units`."""
        return np.asarray(self.gap_squares.sum(0))

    def cell_effective(self, accuracy: Array) -> Array:
        """(Σw)²/Σw² per cell."""
        mass, squares = self.mass.sum(0), self.weight_squares.sum(0)
        return np.asarray(np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0))

    def largest_partial_error(self) -> float:
        """See `Units`."""
        total = self.mass.sum()
        mean, squares, products = (np.cumsum(x.sum(0)) for x in (self.gap / total, self.gap_squares, self.gap_products))
        variance = squares - 2 * mean * products + mean**2 * self.weight_squares.sum()
        return math.sqrt(max(float(variance.max(initial=0.0)), 0.0)) / float(total)
