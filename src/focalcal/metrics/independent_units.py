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
# Cuts at which the error of a partial sum over clusters is looked at.
_PARTIAL_SUMS = 64
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

    def noise_roots(self, variance: Array) -> Array:
        """Return (M, r) such that this times r normal draws is the noise of bins, from the variances (P,) of cells."""
        whole = sum_at(self.place[self._whole], variance[self._whole], self.count)
        shared = [share * math.sqrt(variance[cell]) for cell, share in self._shares.items()]
        return np.column_stack([np.diag(np.sqrt(whole)), *shared])


@dataclass(frozen=True)
class CellSamples:
    """N samples with their cells; every array has shape (N,).

    Attributes:
        cell: The cell, below ``cells``.
        confidence: Between 0 and 1.
        correct: Bool.
        weight: Not negative.
        unit: The number of the sample in the whole data, or of its cluster.
        cells: The number of cells, P.
    """

    cell: Integers
    confidence: Array
    correct: npt.NDArray[np.bool_]
    weight: Array
    unit: Integers
    cells: int

    @cached_property
    def gap(self) -> Array:
        """Weight · (confidence − correct)."""
        return self.weight * (self.confidence - self.correct)

    def per_fold_and_cell(self, term: Array) -> Array:
        """Add up (N,) terms: (F, P)."""
        place = (self.unit % FOLDS) * self.cells + self.cell
        return sum_at(place, term, FOLDS * self.cells).reshape(FOLDS, self.cells)


class Units(Protocol):
    """What intervals need to know of units that are independent of each other."""

    @property
    def mass(self) -> Array:
        """Σ w per fold and cell, (F, P)."""

    @property
    def gap(self) -> Array:
        """Σ w x per fold and cell, (F, P)."""

    @property
    def effective(self) -> float:
        """The number of units, (Σw)²/Σw² where they have weights."""

    def squares(self, bins: Bins) -> Array:
        """Σ over units of (Σ w x)², per fold and bin, (F, M)."""

    def noise_roots(self, bins: Bins) -> Array:
        """(M, r) such that this times r normal draws is the noise in the gaps of a perfectly calibrated model."""

    def error(self, direction: Array, mean: float) -> float:
        """Return the standard error of the mean Σ v w x / Σ w, for directions v, (P,) or (F, P)."""

    def cell_squares(self) -> Array:
        """Return about Σ (w x)² per cell, (P,), to judge by which gaps can be trusted."""

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
        """Add up samples."""
        w, c, gap = samples.weight, samples.confidence, samples.gap
        terms = (w, gap, w**2, w * gap, gap**2, w**2 * c * (1 - c))
        return cls(*map(samples.per_fold_and_cell, terms))

    def merge(self, other: "SampleUnits") -> "SampleUnits":
        """Add the sums of another part of the data."""
        return SampleUnits(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def effective(self) -> float:
        """(Σw)²/Σw²."""
        return float(self.mass.sum() ** 2 / self.weight_squares.sum())

    def squares(self, bins: Bins) -> Array:
        """Σ w² x² per fold and bin."""
        return bins.add(self.gap_squares)

    def noise_roots(self, bins: Bins) -> Array:
        """See `Units`."""
        return bins.noise_roots(self.chance.sum(0))

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

    def largest_partial_error(self) -> float:
        """See `Units`."""
        total = self.mass.sum()
        mean, squares, products = (np.cumsum(x.sum(0)) for x in (self.gap / total, self.gap_squares, self.gap_products))
        variance = squares - 2 * mean * products + mean**2 * self.weight_squares.sum()
        return math.sqrt(max(float(variance.max(initial=0.0)), 0.0)) / float(total)


class ClusterUnits:
    """Clusters of samples, which may depend on each other within a cluster in any way.

    Args:
        samples: Their ``unit`` is the number of the cluster.
    """

    def __init__(self, samples: CellSamples) -> None:
        self._samples = samples
        self._clusters = int(samples.unit.max(initial=-1)) + 1
        self._weight = sum_at(samples.unit, samples.weight, self._clusters)
        self.mass = samples.per_fold_and_cell(samples.weight)
        self.gap = samples.per_fold_and_cell(samples.gap)

    @property
    def effective(self) -> float:
        """(Σw)²/Σw² over the weights of clusters."""
        return float(self._weight.sum() ** 2 / (self._weight**2).sum())

    def _gaps(self, bins: Bins) -> Array:
        """Σ w x per cluster and bin, (clusters, M)."""
        place = self._samples.unit * bins.count + bins.place[self._samples.cell]
        return sum_at(place, self._samples.gap, self._clusters * bins.count).reshape(-1, bins.count)

    def squares(self, bins: Bins) -> Array:
        """See `Units`."""
        gaps = self._gaps(bins) ** 2
        return np.stack([gaps[fold::FOLDS].sum(0) for fold in range(FOLDS)])

    def noise_roots(self, bins: Bins) -> Array:
        """See `Units`; from the sums that were seen, as how samples of a cluster depend on each other is not known."""
        gaps = self._gaps(bins)
        size, axes = np.linalg.eigh(gaps.T @ gaps)
        return np.asarray(axes * np.sqrt(np.maximum(size, 0)))

    def error(self, direction: Array, mean: float) -> float:
        """See `Units`."""
        samples = self._samples
        v = direction[samples.cell] if direction.ndim == 1 else direction[samples.unit % FOLDS, samples.cell]
        sums = sum_at(samples.unit, v * samples.gap, self._clusters)
        return math.sqrt(float(((sums - mean * self._weight) ** 2).sum())) / float(self._weight.sum())

    def cell_squares(self) -> Array:
        """See `Units`; as if samples of different cells were independent."""
        return sum_at(self._samples.cell, self._samples.gap**2, self._samples.cells)

    def largest_partial_error(self) -> float:
        """See `Units`; looked at after each of 64 bins of equal mass."""
        mass = self.mass.sum(0)
        bins = Bins.of_mass(mass, np.linspace(0, mass.sum(), _PARTIAL_SUMS + 1)[1:-1])
        gaps = np.cumsum(self._gaps(bins), axis=1)
        total = self._weight.sum()
        spread = gaps - self._weight[:, None] * (gaps.sum(0) / total)
        return math.sqrt(float((spread**2).sum(0).max(initial=0.0))) / float(total)
