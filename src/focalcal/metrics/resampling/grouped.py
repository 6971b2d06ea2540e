"""Replicates of very many samples: they are dealt into groups at random, and the groups are resampled.

A group keeps sums. A resample draws G of the G groups. Because samples are dealt at random, sums over drawn groups have
the variance of sums over drawn samples, up to a factor of about 1 ± √(2/G): with 512 groups, intervals are as wide as
those of samples to about 3%, no more than 1,000 resamples leave open. Neither the time of a resample nor memory
grows with the data.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums
from focalcal.metrics.confidence_cells import CELLS, cell_index, cell_limits
from focalcal.metrics.debiased import debiased_ece_of_sums
from focalcal.metrics.resampling.classwise import ClasswiseReplicates
from focalcal.metrics.resampling.counts import Counts, Drawn, column_slices, counted_sums, with_weight
from focalcal.metrics.resampling.equal_mass import first_at_least, sums_of_bins
from focalcal.metrics.resampling.loss_parts import LOSS_PARTS, LossPartReplicates
from focalcal.metrics.resampling.resampler import Part, PartsResampler, Resampler
from focalcal.metrics.resampling.scalars import (
    SCALAR_METRICS,
    absolute_gap_of_sums,
    chunks_of,
    metrics_of_sums,
    rows_of_sums_width,
    sums_by_group,
)
from focalcal.metrics.resampling.smooth import spread_on_grid
from focalcal.metrics.smooth import smooth_ece_of_grids
from focalcal.metrics.statistics import SampleStatistics
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

GROUPS = 512
# What groups know only up to the width of a cell of confidence, and what they know at all.
CELL_METRICS = ("ada_ece", "smooth_ece", "debiased_ece")
STREAMED_METRICS = (*SCALAR_METRICS, "ada_ece", "smooth_ece")

# 128 neighbours of the fine grid of confidence make one cell here: 2^-10 wide, and 1/16 of the distance from an end.
_JOINED_BITS = 7
_CELLS = (CELLS - 1 >> _JOINED_BITS) + 1
_NODES = 2**10
_ROWS = 2**16
# Up to so many samples are resampled one by one, which takes about a tenth of a microsecond for each and each resample.
ONE_BY_ONE = 2**14


def deal(n: int, groups: int, generator: torch.Generator) -> Tensor:
    """(n,) int64: a group for each sample."""
    return torch.randint(groups, (n,), generator=generator)


class GroupedReplicates:
    """Metrics of resamples of groups, from counts (G, B): all but classwise-ECE, which needs all probabilities.

    AdaECE, smooth ECE and debiased ECE come from cells of confidence. In the first two, samples are taken to be spread
    evenly within a cell; the last has bins that end between cells.

    Args:
        bins: of the binned metrics.
        groups: how many groups G.
        debiased: whether debiased ECE is wanted, which takes 14 MB more for 512 groups.
    """

    def __init__(self, bins: int, groups: int = GROUPS, debiased: bool = False) -> None:
        self._bins = bins
        self._sums = torch.zeros(groups, rows_of_sums_width(bins), dtype=torch.float64)
        # Of each cell of each group: mass, gap (confidence − correctness); mass of right samples, squared weights.
        self._cells = torch.zeros(4 if debiased else 2, groups * _CELLS, dtype=torch.float64)

    def add(self, statistics: SampleStatistics, group: Tensor) -> None:
        """Add samples to their groups (N,)."""
        for chunk, groups in zip(chunks_of(statistics, _ROWS), torch.split(group, _ROWS), strict=True):
            self._add(chunk, groups)

    def _add(self, s: SampleStatistics, group: Tensor) -> None:
        self._sums += sums_by_group(s, self._bins, group, len(self._sums))
        mass = torch.ones_like(s.confidence) if s.weight is None else s.weight
        place = group * _CELLS + (cell_index(s.confidence) >> _JOINED_BITS)
        terms = (mass, mass * (s.confidence - s.correct.double()), mass * s.correct, mass.square())
        for row, term in zip(self._cells, terms, strict=False):
            row.index_add_(0, place, term)

    def values(self, counts: Counts) -> dict[str, Array]:
        """Metrics by name, (B,) each, for counts (G, B)."""
        parts = [self._values(counts[:, part]) for part in column_slices(counts, _CELLS)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _values(self, counts: Counts) -> dict[str, Array]:
        scalars = counted_sums(counts, [self._sums])
        mass, gap, *more = (counted_sums(counts, [part.view(len(counts), -1)]).numpy().T for part in self._cells)
        found = metrics_of_sums(scalars, self._bins)
        found["ada_ece"] = _ada_ece(mass, gap, self._bins)
        found["smooth_ece"] = _smooth_ece(mass, gap, absolute_gap_of_sums(scalars))
        if more:
            found["debiased_ece"] = _debiased_ece(mass, gap, more[0], more[1], self._bins)
        return found


def _cuts(up_to: Array, bins: int) -> Array:
    """(M − 1, B) inner cuts into equal masses of cumulated mass (cells, B)."""
    return np.asarray(up_to[-1] * np.arange(1, bins)[:, None] / bins)


def _ada_ece(mass: Array, gap: Array, bins: int) -> Array:
    """(B,) AdaECE of cells (cells, B), each of which a cut divides in proportion."""
    up_to, gap_up_to = np.cumsum(mass, axis=0), np.cumsum(gap, axis=0)
    cuts = _cuts(up_to, bins)
    at, column = first_at_least(up_to, cuts), np.arange(mass.shape[1])
    beyond = (up_to[at, column] - cuts) / mass[at, column]
    at_cut = gap_up_to[at, column] - beyond * gap[at, column]
    return np.asarray(np.abs(np.diff(at_cut, axis=0, prepend=0.0, append=gap_up_to[-1:])).sum(axis=0) / up_to[-1])


def _smooth_ece(mass: Array, gap: Array, absolute: Tensor) -> Array:
    """(B,) smooth ECE of cells (cells, B), each taken to be at its middle."""
    low, high = cell_limits()
    first = torch.arange(_CELLS) << _JOINED_BITS
    last = (first + (1 << _JOINED_BITS) - 1).clamp(max=CELLS - 1)
    grids = spread_on_grid(((low[first] + high[last]) / 2).numpy(), np.ones(_CELLS), _NODES) @ -gap
    total = torch.from_numpy(mass.sum(axis=0))
    return smooth_ece_of_grids(torch.from_numpy(np.ascontiguousarray(grids.T)), total, absolute)[0].numpy()


def _debiased_ece(mass: Array, gap: Array, correct: Array, squared: Array, bins: int) -> Array:
    """(B,) debiased ECE of cells (cells, B), in bins that end with the cell on which a cut falls."""
    up_to = np.cumsum(mass, axis=0)
    last = first_at_least(up_to, _cuts(up_to, bins))
    ends = (up_to, *(np.cumsum(part, axis=0) for part in (gap, correct, squared)))
    count, gap_of_bin, right, squares = (torch.from_numpy(sums_of_bins(part, last)) for part in ends)
    return debiased_ece_of_sums(BinSums(count, gap_of_bin + right, right), squares).numpy()


class GroupedResampler(PartsResampler):
    """`Resampler` of groups in place of samples.

    Args:
        sets: one or more predictions of the same N samples. With two, counts have 2G rows, in which the two predictions
            of a group stand side by side.
        metrics: names out of `RESAMPLED_METRICS`, and of `LOSS_PARTS` for one set.
        bins: how many bins.
        statistics: of each set.
        seed: of the dealing, which is the same for all sets.
        groups: how many groups G.
    """

    def __init__(
        self,
        sets: Sequence[Predictions],
        metrics: Sequence[str],
        bins: int,
        statistics: Sequence[SampleStatistics],
        seed: int,
        groups: int = GROUPS,
    ) -> None:
        group = deal(len(statistics[0]), groups, torch.Generator().manual_seed(seed))
        scalars = GroupedReplicates(bins, groups * len(statistics), "debiased_ece" in metrics)
        for place, each in enumerate(statistics):
            scalars.add(each, group * len(statistics) + place)
        parts: list[Part] = [scalars]
        if "classwise_ece" in metrics:
            parts.append(ClasswiseReplicates(sets, bins).by_group(group, groups))
        if set(LOSS_PARTS) & set(metrics):
            parts.append(LossPartReplicates(sets[0], statistics[0]).by_group(group, groups))
        super().__init__(metrics, parts)


def resampler_of(
    sets: Sequence[Predictions],
    metrics: Sequence[str],
    bins: int,
    statistics: Sequence[SampleStatistics],
    seed: int,
) -> tuple[PartsResampler, Drawn]:
    """What resamples these samples, or groups of them if there are more than `ONE_BY_ONE`, and what can be drawn."""
    drawn = with_weight(statistics[0].weight, len(statistics[0]))
    if drawn.sum() <= ONE_BY_ONE:
        return Resampler(sets, metrics, bins, statistics), drawn
    return GroupedResampler(sets, metrics, bins, statistics, seed), np.ones(GROUPS, dtype=np.bool_)
