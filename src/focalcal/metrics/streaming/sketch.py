"""The sketch of confidences: all samples while they are few, sums in the cells of a fine grid after that.

Nothing depends on the order in which samples come, and sketches of parts of the data add up to that of the whole.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.arguments import scale_weights
from focalcal.metrics.binning import sum_by_index
from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.confidence_cells import CELLS, JOINED_BITS, JOINED_CELLS, cell_index, joined_middles
from focalcal.metrics.honest_intervals import RankedUnits, SampledGaps, samples_in_cells
from focalcal.metrics.independent_units import COLUMNS, FIRST_SQUARE, FOLDS, SampleUnits
from focalcal.metrics.ranking import Column, RankedSamples, Ranking
from focalcal.metrics.samples import ConfidenceSamples
from focalcal.metrics.smooth import CELLS as SMOOTH_CELLS
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.metrics.streaming.ada_ece_bound import Pieces, ada_ece_range


@dataclass(frozen=True)
class Resolution:
    """Amount that a sketch remembers.

    Attributes:
        most: Number of samples kept one by one (24 bytes each) before they are counted in cells, which may be 0; None
            for KEPT_SAMPLES.
        bits: 2 to this power cells of the fine grid make one.
        nodes: Number of steps of the grid of smooth ECE.
    """

    most: int | None
    bits: int
    nodes: int

    @property
    def kept(self) -> int:
        """Number of samples kept one by one."""
        return KEPT_SAMPLES if self.most is None else self.most

    @property
    def cells(self) -> int:
        """Number of cells."""
        return (CELLS - 1 >> self.bits) + 1


KEPT_SAMPLES = 2**17
FINE = Resolution(None, 0, SMOOTH_CELLS)
# For shards of very large data: 0.8 MB instead of 9, and no sample is kept.
COMPACT = Resolution(0, 5, 2**14)
# For groups of samples, which are many: half a megabyte at most.
OF_GROUPS = Resolution(2**13, JOINED_BITS, 2**12)
# What adding up in float64 can lose, relative to the total mass.
_ROUNDING = 1e-11


def encode(confidence: Tensor, correct: Tensor) -> Tensor:
    """Turn samples into positive int64 numbers, which can be sent like counts.

    Args:
        confidence: (N,) float64 in [0, 1].
        correct: (N,) bool.

    Examples:
        >>> codes = encode(torch.tensor([0.0, 1.0, 0.5]).double(), torch.tensor([False, True, True]))
        >>> decode(codes)[0].tolist(), decode(codes)[1].tolist(), int(codes[0])
        ([0.0, 1.0, 0.5], [False, True, True], 1)
    """
    # −0.0 must not be among them: its sign is a bit.
    bits = (confidence + 0.0).view(torch.int64)
    return (bits << 1) + correct + 1


def decode(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return confidence and correctness of codes that `encode` gave."""
    codes = codes - 1
    return (codes >> 1).view(torch.float64), (codes & 1).bool()


class KeptSamples:
    """A growing list of samples with positive weight.

    Args:
        codes: (N,) int64 from `encode`.
        weights: (N,) float64, 1 for unweighted samples.
        folds: (N,) int64, the fold that each belongs to.
    """

    def __init__(self, codes: Tensor | None = None, weights: Tensor | None = None, folds: Tensor | None = None) -> None:
        self._codes = torch.zeros(0, dtype=torch.int64) if codes is None else codes
        self._weights = torch.zeros(0, dtype=torch.float64) if weights is None else weights
        self._folds = torch.zeros_like(self._codes) if folds is None else folds
        self._length = len(self._codes)

    def __len__(self) -> int:
        return self._length

    def add(self, codes: Tensor, weights: Tensor, folds: Tensor) -> None:
        """Append samples; those of weight 0 are left out."""
        used = weights > 0
        length = self._length + int(used.sum())
        if length > len(self._codes):
            # Room for as many again: many small batches then cost no more than one large one. Zeros, because rescaling
            # also reads the room that is not used yet.
            self._codes, self._weights, self._folds = (
                torch.cat([part, part.new_zeros(length)]) for part in self.columns()
            )
        for part, new in zip((self._codes, self._weights, self._folds), (codes, weights, folds), strict=True):
            part[self._length : length] = new[used]
        self._length = length

    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes, weights and folds of everything."""
        return self._codes[: self._length], self._weights[: self._length], self._folds[: self._length]

    def rescale(self, difference: int) -> None:
        """Divide the weights by a power of two."""
        self._weights = scale_weights(self._weights, difference)

    def samples(self) -> ConfidenceSamples:
        """Return the samples themselves; without weights if all of those are 1."""
        codes, weights, _ = self.columns()
        confidence, correct = decode(codes)
        return ConfidenceSamples(confidence, correct, None if bool((weights == 1).all()) else weights)


class ConfidenceCells:
    """Sums over the cells of the grid, and the least and largest confidence in each: one that ties is exact.

    Args:
        resolution: How fine the grid is.

    Attributes:
        sums: (3, cells) float64, mass, correct mass and weighted confidence.
        limits: (2, cells) float64, minus the least confidence, and the largest; −inf in empty cells.
        residuals: (nodes + 2,) float64, residuals on the grid of smooth ECE, and last the sum of their sizes.
        units: (6, folds, joined cells) float64, a table of `SampleUnits`, for intervals.
    """

    def __init__(self, resolution: Resolution = FINE) -> None:
        self._resolution = resolution
        self.sums = torch.zeros(3, resolution.cells, dtype=torch.float64)
        self.limits = torch.full((2, resolution.cells), -torch.inf, dtype=torch.float64)
        self.residuals = torch.zeros(resolution.nodes + 2, dtype=torch.float64)
        self.units = torch.zeros(COLUMNS, FOLDS, JOINED_CELLS, dtype=torch.float64)

    def add(self, samples: ConfidenceSamples, fold: Tensor) -> None:
        """Count samples."""
        cell = cell_index(samples.confidence)
        joined = samples_in_cells(samples, (cell >> JOINED_BITS).numpy(), fold, JOINED_CELLS)
        self.units += torch.from_numpy(SampleUnits.of(joined).to_table())
        cell >>= self._resolution.bits
        terms = (samples.mass, samples.mass * samples.correct, samples.mass * samples.confidence)
        for row, term in zip(self.sums, terms, strict=True):
            row += sum_by_index(cell, len(row), term)
        for row, value in zip(self.limits, (-samples.confidence, samples.confidence), strict=True):
            row.scatter_reduce_(0, cell, value, "amax")
        nodes = len(self.residuals) - 2
        self.residuals[:-1] += residual_grid(samples.confidence, samples.correct, samples.weight, cells=nodes)
        self.residuals[-1] += ((samples.correct.double() - samples.confidence).abs() * samples.mass).sum()

    def merge(self, other: "ConfidenceCells") -> None:
        """Add the cells of another part of the data."""
        self.sums += other.sums
        self.residuals += other.residuals
        self.units += other.units
        torch.maximum(self.limits, other.limits, out=self.limits)

    def rescale(self, difference: int) -> None:
        """Divide the weights by a power of two."""
        for sums in (self.sums, self.residuals, self.units, self.units[FIRST_SQUARE:]):
            sums.mul_(2.0**-difference)

    def pieces(self) -> Pieces:
        """Return the cells that hold samples."""
        held = self.sums[0] > 0
        mass, correct, confidence = self.sums[:, held]
        return Pieces(mass, correct, confidence, -self.limits[0, held], self.limits[1, held])


class ConfidenceSketch:
    """Confidence and correctness of all samples, in memory that does not grow with their number.

    Args:
        bins: The number of bins of equal mass.
        resolution: How much it remembers.

    Attributes:
        samples: How many samples there are.
        kept: The samples themselves, up to KEPT_SAMPLES, or the latest that are not yet in cells.
        cells: The samples beyond that, or None while there were none.
    """

    def __init__(self, bins: int, resolution: Resolution = FINE) -> None:
        self.bins, self.resolution = bins, resolution
        self.samples = 0
        self.kept = KeptSamples()
        self.cells: ConfidenceCells | None = None if resolution.kept else ConfidenceCells(resolution)

    def add(self, samples: ConfidenceSamples, fold: Tensor | None = None) -> None:
        """Add samples, whose folds (N,) go by their number in this call if they are not given."""
        fold = torch.arange(len(samples)) % FOLDS if fold is None else fold
        if not self.resolution.kept:
            self.samples += len(samples) if samples.weight is None else int((samples.weight > 0).sum())
            self._cells().add(samples, fold)
            return
        codes = encode(samples.confidence, samples.correct)
        parts = (torch.split(each, self.resolution.kept) for each in (codes, samples.mass, fold))
        for part in zip(*parts, strict=True):
            before = len(self.kept)
            self.kept.add(*part)
            self.samples += len(self.kept) - before
            if len(self.kept) > self.resolution.kept:
                self.fold()

    def fold(self) -> None:
        """Count the samples that are kept in cells."""
        self._cells().add(self.kept.samples(), self.kept.columns()[2])
        self.kept = KeptSamples()

    def _cells(self) -> ConfidenceCells:
        self.cells = self.cells or ConfidenceCells(self.resolution)
        return self.cells

    def settle(self) -> None:
        """Bring into the form that depends on the samples alone: all are kept, or all are in cells."""
        if len(self.kept) and (self.samples > self.resolution.kept or self.cells is not None):
            self.fold()

    def rescale(self, difference: int) -> None:
        """Divide the weights by a power of two."""
        self.kept.rescale(difference)
        if self.cells is not None:
            self.cells.rescale(difference)

    def merge(self, other: "ConfidenceSketch") -> None:
        """Add the samples of another sketch."""
        self.samples += other.samples
        self.kept.add(*other.kept.columns())
        if other.cells is not None:
            self._cells().merge(other.cells)
        self.settle()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        cells = self.cells
        parts = [] if cells is None else [cells.sums, cells.limits, cells.residuals, cells.units]
        return 24 * len(self.kept) + sum(part.nbytes for part in parts)

    def ranking(self) -> Ranking:
        """Rank the samples, or the cells where they are not kept (without squares of weights)."""
        self.settle()
        if self.cells is None:
            return RankedSamples(self.kept.samples()).ranking(self.bins)
        pieces = self.cells.pieces()
        columns: dict[Column, Tensor] = {
            "mass": pieces.mass,
            "gap": pieces.confidence - pieces.correct,
            "correct": pieces.correct,
        }
        return Ranking(self.samples, lambda column: columns[column].numpy(), self.bins)

    def rank(self) -> RankedUnits:
        """Return what intervals need of the order of confidence; of cells their middles stand for what they hold."""
        self.settle()
        if self.cells is None:
            return SampledGaps(self.kept.samples(), self.bins, fold=self.kept.columns()[2]).ranked
        held = self.cells.units[0].sum(0) > 0
        units = SampleUnits(*self.cells.units[:, :, held].numpy())
        columns: dict[Column, npt.NDArray[np.float64]] = {"mass": units.mass.sum(0), "gap": units.gap.sum(0)}
        ranking = Ranking(self.samples, columns.__getitem__, self.bins)
        return RankedUnits(units, joined_middles()[held].numpy(), ranking)

    def residuals(self) -> Residuals:
        """Return the residuals of everything on a grid."""
        self.settle()
        if self.cells is None:
            return Residuals.of_samples(self.kept.samples())
        residuals = self.cells.residuals
        return Residuals(residuals[:-1], self.cells.sums[0].sum(), residuals[-1])

    def missing(self) -> list[str]:
        """Return the metrics that cannot be computed from cells."""
        if self.cells is None:
            return []
        return [name for name, metric in METRICS.items() if metric.source == "ranking" and not metric.partial_sums]

    def bounds(self, values: Mapping[str, float]) -> dict[str, float]:
        """Bound how far the values of metrics may be from those of the samples: 0 while all are kept."""
        names = [name for name in values if METRICS[name].source == "ranking"]
        if self.cells is None:
            return dict.fromkeys(names, 0.0)
        pieces = self.cells.pieces()
        # Within a cell of one confidence only nothing is unknown: ties have no order.
        unknown = float(pieces.mass.masked_fill(pieces.low == pieces.high, 0).max() / pieces.mass.sum())
        found = {name: METRICS[name].partial_sums * unknown + _ROUNDING for name in names}
        if "ada_ece" in found:
            low, high = ada_ece_range(pieces, torch.from_numpy(self.ranking().cuts))
            found["ada_ece"] = max(high - values["ada_ece"], values["ada_ece"] - low)
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything, as tensors."""
        self.settle()
        codes, weights, folds = self.kept.columns()
        state = {"codes": codes, "weights": weights, "folds": folds}
        if self.cells is not None:
            cells = self.cells
            state |= {"cells": cells.sums, "limits": cells.limits, "residuals": cells.residuals, "units": cells.units}
        return {name: part.clone() for name, part in state.items()}

    @classmethod
    def from_state_dict(
        cls, bins: int, samples: int, state: Mapping[str, Tensor], resolution: Resolution = FINE
    ) -> "ConfidenceSketch":
        """Restore the sketch of this number of samples that `state_dict` described."""
        sketch = cls(bins, resolution)
        sketch.samples = samples
        sketch.kept = KeptSamples(*(state[name].clone() for name in ("codes", "weights", "folds")))
        if "cells" in state:
            sketch._take_cells(*(state[name].clone() for name in ("cells", "limits", "residuals", "units")))
        return sketch

    def to_flat(self, rank: int, processes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return int64 and float64 numbers that add up over processes, and limits whose largest counts.

        Each process has its own places for the samples that it keeps.
        """
        places = KEPT_SAMPLES // processes
        sketch = self
        if len(self.kept) > places:
            sketch = copy.deepcopy(self)
            sketch.fold()
        cells = sketch.cells or ConfidenceCells(self.resolution)
        counts, weights = (
            torch.zeros(2, KEPT_SAMPLES, dtype=torch.int64),
            torch.zeros(KEPT_SAMPLES, dtype=torch.float64),
        )
        own = slice(rank * places, rank * places + len(sketch.kept))
        counts[0, own], weights[own], counts[1, own] = sketch.kept.columns()
        sums = torch.cat([weights, cells.sums.flatten(), cells.residuals, cells.units.flatten()])
        return counts.flatten(), sums, cells.limits.flatten()

    @classmethod
    def from_flat(
        cls, bins: int, samples: int, counts: Tensor, sums: Tensor, limits: Tensor, resolution: Resolution = FINE
    ) -> "ConfidenceSketch":
        """Restore the sketch of this number of samples in all from the joined numbers of `to_flat`."""
        sketch = cls(bins, resolution)
        sketch.samples = samples
        codes, folds = counts.view(2, KEPT_SAMPLES)
        used = codes > 0
        sketch.kept = KeptSamples(codes[used], sums[:KEPT_SAMPLES][used], folds[used])
        width = len(limits) // 2
        units_size = COLUMNS * FOLDS * JOINED_CELLS
        sizes = [3 * width, len(sums) - KEPT_SAMPLES - 3 * width - units_size, units_size]
        cells, residuals, units = (part.clone() for part in torch.split(sums[KEPT_SAMPLES:], sizes))
        if bool(cells.any()) or int(used.sum()) < samples:
            units = units.view(COLUMNS, FOLDS, JOINED_CELLS)
            sketch._take_cells(cells.view(3, width), limits.view(2, width).clone(), residuals, units)
        sketch.settle()
        return sketch

    def _take_cells(self, sums: Tensor, limits: Tensor, residuals: Tensor, units: Tensor) -> None:
        cells = self.cells = ConfidenceCells(self.resolution)
        cells.sums, cells.limits, cells.residuals, cells.units = sums, limits, residuals, units
