"""Replicates of very many samples: they are dealt into groups at random, and the groups are resampled.

A group keeps sums. A resample draws G of the G groups. Because samples are dealt at random, sums over drawn groups have
the variance of sums over drawn samples, up to a factor of about 1 ± √(2/G): with 512 groups, intervals are as wide as
those of samples to about 3%, no more than 1,000 resamples leave open. Neither the time of a resample nor memory
grows with the data.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums
from focalcal.metrics.bootstrap.class_replicates import ClassReplicates
from focalcal.metrics.bootstrap.counts import Counts, Drawn, column_slices, counted_sums, drawable
from focalcal.metrics.bootstrap.loss_replicates import LossReplicates
from focalcal.metrics.bootstrap.replicates import Part, Resampler, chunks_of, resample_samples, spread_on_grid
from focalcal.metrics.catalogue import METRICS, Source
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.confidence_cells import JOINED_BITS, JOINED_CELLS, cell_index, joined_middles
from focalcal.metrics.ranking import Column, Ranking
from focalcal.metrics.refinement import LossSplits
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.smooth import Residuals
from focalcal.metrics.sums import Means, RowsOfSums, Sums
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

GROUPS = 512
# What groups know only up to the width of a cell of confidence.
CELL_SOURCES: tuple[Source, ...] = ("ranking", "residuals")

_NODES = 2**10
_ROWS = 2**16
_COLUMNS: tuple[Column, ...] = ("mass", "gap", "correct", "squares")
# Up to this many samples are resampled one by one, which takes about 0.1 µs per sample and resample.
ONE_BY_ONE = 2**14


def deal(n: int, groups: int, generator: torch.Generator) -> Tensor:
    """Return (n,) int64: a group for each sample."""
    return torch.randint(groups, (n,), generator=generator)


class GroupReplicates:
    """Sums of resamples of groups, from counts (G, B): all but those per class, which need all probabilities.

    What depends on the order of confidence, and residuals, come from cells of confidence, at whose middle samples are
    taken to be.

    Args:
        bins: Number of bins of the binned metrics.
        groups: Number of groups G.
        whole_cells: Whether debiased ECE is wanted, which takes 14 MB more for 512 groups.
    """

    sources: tuple[Source, ...] = ("means", "bins", "ranking", "residuals")

    def __init__(self, bins: int, groups: int = GROUPS, whole_cells: bool = False) -> None:
        self._rows = RowsOfSums(bins)
        self._sums = torch.zeros(groups, self._rows.width, dtype=torch.float64)
        # Of each cell of each group, the columns of a ranking.
        self._cells = torch.zeros(4 if whole_cells else 2, groups * JOINED_CELLS, dtype=torch.float64)
        self._samples = torch.zeros(groups, 1, dtype=torch.float64)

    def add(self, statistics: SampleStatistics, group: Tensor) -> None:
        """Add samples to their groups (N,)."""
        for chunk, groups in zip(chunks_of(statistics, _ROWS), torch.split(group, _ROWS), strict=True):
            self._add(chunk, groups)

    def _add(self, s: SampleStatistics, group: Tensor) -> None:
        self._rows.add_to_groups(self._sums, s, group)
        self._samples.view(-1).index_add_(0, group, (s.mass > 0).double())
        place = group * JOINED_CELLS + (cell_index(s.confidence) >> JOINED_BITS)
        terms = (s.mass, s.mass * (s.confidence - s.correct.double()), s.mass * s.correct, s.mass.square())
        for row, term in zip(self._cells, terms, strict=False):
            row.index_add_(0, place, term)

    @property
    def samples(self) -> int:
        """The number of samples of positive weight."""
        return int(self._samples.sum())

    @property
    def used(self) -> Tensor:
        """True for groups that have samples of positive weight, (G,) bool."""
        return self._samples[:, 0] > 0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All sums; those of parts of the data add up."""
        return self._sums, self._cells, self._samples

    def rescale(self, factor: float) -> None:
        """Multiply the weights of all samples so far by a power of two."""
        self._sums *= factor
        self._cells[:3] *= factor
        self._cells[3:] *= factor**2

    def terms(self) -> Tensor:
        """Return the sums of each group that `Means` have, (G, columns)."""
        return self._sums[:, : len(self._rows.columns)]

    def means(self) -> Means:
        """Return the sums over all groups."""
        return Means(*self.terms().sum(0).unbind())

    def by_bin(self) -> BinSums:
        """Return the sums of each group over bins of equal width: (G, bins) each."""
        binned = self._rows.sums(self._sums).bins
        assert binned is not None
        return binned

    def by_cell(self) -> tuple[Tensor, Tensor]:
        """Return mass and gap of each group and joined cell of confidence: (G, cells) each."""
        mass, gap = (part.view(len(self._sums), -1) for part in self._cells[:2])
        return mass, gap

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield as many replicates at a time as stay in the cache, for counts (G, B)."""
        for part in column_slices(counts, JOINED_CELLS):
            yield self._sums_of(counts[:, part])

    def _sums_of(self, counts: Counts) -> Sums:
        cells = [counted_sums(counts, [part.view(len(counts), -1)]).numpy().T for part in self._cells]
        columns = dict(zip(_COLUMNS, cells, strict=False))
        samples = counted_sums(counts, [self._samples])[:, 0].long().numpy()
        known = self._rows.sums(counted_sums(counts, [self._sums]))
        assert known.means is not None
        ranking = Ranking(samples, columns.__getitem__, self._rows.bins)
        return Sums(known.means, known.bins, ranking=ranking, residuals=_residuals(columns["gap"], known.means))


def _residuals(gap: Array, means: Means) -> Residuals:
    """Compute residuals of cells (cells, B), each taken to be at its middle."""
    grids = spread_on_grid(joined_middles().numpy(), np.ones(JOINED_CELLS), _NODES) @ -gap
    return Residuals(torch.from_numpy(np.ascontiguousarray(grids.T)), means.total, means.absolute_gap)


def resample_groups(
    sets: Sequence[Predictions],
    metrics: Sequence[str],
    bins: int,
    statistics: Sequence[SampleStatistics],
    seed: int,
    groups: int = GROUPS,
    group: Tensor | None = None,
    splits: LossSplits | None = None,
) -> Resampler:
    """Make a resampler of groups instead of samples.

    Args:
        sets: One or more predictions of the same N samples. With two, counts have 2G rows, in which the two predictions
            of a group stand side by side.
        metrics: Names out of `RESAMPLED_METRICS`, and parts of losses for one set.
        bins: Number of bins.
        statistics: Statistics of each set.
        seed: Seed for the dealing, which is the same for all sets.
        groups: Number of groups G.
        group: (N,) the group of each sample; by default dealt at random.
        splits: The parts of the losses of the one set, if they are at hand.
    """
    group = deal(len(statistics[0]), groups, torch.Generator().manual_seed(seed)) if group is None else group
    sums = GroupReplicates(bins, groups * len(statistics), whole_cells="debiased_ece" in metrics)
    for place, each in enumerate(statistics):
        sums.add(each, group * len(statistics) + place)
    parts: list[Part] = [sums]
    needed = {METRICS[name].source for name in metrics}
    if "classes" in needed:
        parts.append(ClassReplicates(sets, bins).by_group(group, groups))
    if "outputs" in needed:
        parts.append(LossReplicates(sets[0], statistics[0], splits).by_group(group, groups))
    return Resampler(metrics, parts)


def resampler_of(
    sets: Sequence[Predictions],
    metrics: Sequence[str],
    bins: int,
    statistics: Sequence[SampleStatistics],
    seed: int,
    splits: LossSplits | None = None,
) -> tuple[Resampler, Drawn]:
    """Make a resampler of these samples, or of groups if there are more than `ONE_BY_ONE`; and say what to draw.

    Clusters are never divided: they are the groups, or are dealt into those as wholes if there are more than 512.
    """
    clusters = cluster_numbers(sets[0]) if sets else None
    if clusters is not None:
        count = int(clusters.max()) + 1
        groups = min(count, GROUPS)
        if count > GROUPS:
            clusters = deal(count, GROUPS, torch.Generator().manual_seed(seed))[clusters]
        resampler = resample_groups(sets, metrics, bins, statistics, seed, groups, clusters, splits)
        return resampler, np.ones(groups, dtype=np.bool_)
    drawn = drawable(statistics[0].weight, len(statistics[0]))
    if drawn.sum() <= ONE_BY_ONE:
        return resample_samples(sets, metrics, bins, statistics, splits), drawn
    return resample_groups(sets, metrics, bins, statistics, seed, splits=splits), np.ones(GROUPS, dtype=np.bool_)
