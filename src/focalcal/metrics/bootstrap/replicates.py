"""Metrics of many replicates at once, from how often each sample occurs in each: bootstrap, jackknife, permutations.

A part turns counts into sums; the metrics of the sums are those of the data, computed by the same functions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from focalcal.metrics.bootstrap.class_replicates import ClassReplicates
from focalcal.metrics.bootstrap.counts import Counts, column_slices, counted_sums, rows_in_chunk
from focalcal.metrics.bootstrap.loss_replicates import LossReplicates
from focalcal.metrics.catalogue import METRICS, Source
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.refinement import LossSplits
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.metrics.smooth import CUBIC_WEIGHTS, Residuals
from focalcal.metrics.sums import RowsOfSums, Sums, names_from, values
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

INTERVAL_METRICS = tuple(name for name, metric in METRICS.items() if metric.has_interval)
# What can be compared between models, too; the parts of losses can be resampled, but not swapped.
RESAMPLED_METRICS = tuple(name for name in INTERVAL_METRICS if METRICS[name].source != "outputs")

# The grid's error grows as 1/smECE²: at 2^10 cells it is below 1% of a value of 0.005. Values fall as samples grow.
_NODES, _NODES_OF_MANY = 2**10, 2**12
_MANY_SAMPLES = 2**15


class Part(Protocol):
    """Turns counts into some of the sums."""

    sources: tuple[Source, ...]

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield the sums of one group of replicates after another, for counts (rows, B)."""


class Resampler:
    """Evaluates metrics on any resample, given as counts, without writing the resample out.

    Args:
        metrics: Names, each of which some part has the sums for.
        parts: What turns counts into sums.
    """

    def __init__(self, metrics: Sequence[str], parts: Sequence[Part]) -> None:
        self._metrics = tuple(metrics)
        self._parts = tuple(parts)

    def values(self, counts: Counts) -> dict[str, Array]:
        """Compute metrics by name, (B,) float64 each, for counts (rows, B); NaN where one is undefined."""
        found: dict[str, Array] = {}
        for part in self._parts:
            found |= self._join(part, part.sums(counts))
        return {name: found[name] for name in self._metrics}

    def values_of_blocks(self, blocks: Iterable[Counts]) -> dict[str, Array]:
        """Compute the values of one block of replicates after another, and join them."""
        parts = [self.values(counts) for counts in blocks]
        return {name: np.concatenate([part[name] for part in parts]) for name in self._metrics}

    def values_of_swaps(self, counts: Counts, others: Counts) -> tuple[dict[str, Array], dict[str, Array]]:
        """Compute the values of two sets of counts that add up to the same in every replicate, as after swaps."""
        first: dict[str, Array] = {}
        second: dict[str, Array] = {}
        for part in self._parts:
            # Classwise sums are the dearest, and those of the others are what is left of the sums of all.
            both: tuple[Iterable[Sums], Iterable[Sums]] = (
                part.sums_of_complements(counts, others)
                if isinstance(part, ClassReplicates)
                else (part.sums(counts), part.sums(others))
            )
            first |= self._join(part, both[0])
            second |= self._join(part, both[1])
        return {name: first[name] for name in self._metrics}, {name: second[name] for name in self._metrics}

    def _join(self, part: Part, groups: Iterable[Sums]) -> dict[str, Array]:
        names = names_from(self._metrics, part.sources)
        found = [values(sums, names) for sums in groups]
        return {name: np.concatenate([each[name] for each in found]) for name in names}


def resample_samples(
    sets: Sequence[Predictions],
    metrics: Sequence[str],
    bins: int = 15,
    statistics: Sequence[SampleStatistics] | None = None,
    splits: LossSplits | None = None,
) -> Resampler:
    """Make a resampler of samples.

    Args:
        sets: One or more predictions of the same N samples (same labels, same weights). With two of them the counts
            have 2N rows, in which the two predictions of a sample stand side by side. None need be given where their
            statistics are and classwise-ECE is not wanted.
        metrics: Names out of `RESAMPLED_METRICS`, and parts of losses for one set.
        bins: Number of bins.
        statistics: Statistics of each set, if they are at hand.
        splits: The parts of the losses of the one set, if they are at hand.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], [0, 1, 1])
        >>> counts = np.array([[1, 3], [1, 0], [1, 0]], dtype=np.uint8)
        >>> resample_samples([preds], ["error", "ece"]).values(counts)["ece"].round(4).tolist()
        [0.2917, 0.25]
    """
    each = [sample_statistics(preds) for preds in sets] if statistics is None else statistics
    joined = each[0] if len(each) == 1 else _side_by_side(each)
    needed = {METRICS[name].source for name in metrics}
    parts: list[Part] = []
    if needed & {"means", "bins"}:
        parts.append(RowReplicates(joined, bins))
    if "ranking" in needed:
        parts.append(RankingReplicates(joined, bins))
    if "residuals" in needed:
        parts.append(ResidualReplicates(joined))
    if "classes" in needed:
        parts.append(ClassReplicates(sets, bins))
    if "outputs" in needed:
        parts.append(LossReplicates(sets[0], each[0], splits))
    return Resampler(metrics, parts)


def _side_by_side(sets: Sequence[SampleStatistics]) -> SampleStatistics:
    """Join statistics so that the several predictions of each sample follow each other."""
    columns = {field.name: [getattr(s, field.name) for s in sets] for field in fields(SampleStatistics)}
    joined: dict[str, Any] = {
        name: None if each[0] is None else torch.stack(each, dim=1).reshape(-1) for name, each in columns.items()
    }
    return SampleStatistics(**joined)


class RowReplicates:
    """Sums over all samples and per bin of equal width: one product of matrices.

    Args:
        statistics: Statistics of N samples.
        bins: Number of bins of equal width.
    """

    sources: tuple[Source, ...] = ("means", "bins")

    def __init__(self, statistics: SampleStatistics, bins: int) -> None:
        self._statistics = statistics
        self._rows = RowsOfSums(bins)

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield all sums at once."""
        chunks = chunks_of(self._statistics, rows_in_chunk(counts.shape[1]))
        yield self._rows.sums(counted_sums(counts, map(self._rows.of_samples, chunks)))


def chunks_of(statistics: SampleStatistics, rows: int) -> Iterator[SampleStatistics]:
    """Yield consecutive parts of at most ``rows`` samples; nothing is copied."""
    columns: dict[str, Tensor | None] = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    for start in range(0, len(statistics), rows):
        part: dict[str, Any] = {k: None if v is None else v[start : start + rows] for k, v in columns.items()}
        yield SampleStatistics(**part)


class RankingReplicates:
    """Sums in the order of confidence: the bins of a resample are its own, not those of the data.

    Args:
        statistics: Statistics of N samples.
        bins: Number of bins of equal mass.
    """

    sources: tuple[Source, ...] = ("ranking",)

    def __init__(self, statistics: SampleStatistics, bins: int) -> None:
        self._samples = RankedSamples(statistics)
        self._bins = bins

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield as many replicates at a time as stay in the cache."""
        for part in column_slices(counts):
            yield Sums(ranking=self._samples.ranking(self._bins, counts[:, part]))


class ResidualReplicates:
    """Residuals on a grid, coarser than that of `focalcal.metrics.smooth_ece`.

    Args:
        statistics: Statistics of N samples.
        nodes: Number of steps of the grid; by default as many as this number of samples needs.
    """

    sources: tuple[Source, ...] = ("residuals",)

    def __init__(self, statistics: SampleStatistics, nodes: int | None = None) -> None:
        nodes = nodes or (_NODES if len(statistics) <= _MANY_SAMPLES else _NODES_OF_MANY)
        residual = statistics.mass * (statistics.correct.double() - statistics.confidence)
        self._grid = spread_on_grid(statistics.confidence.numpy(), residual.numpy(), nodes)
        self._total_and_size = torch.stack([statistics.mass, residual.abs()], dim=1)

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield as many replicates at a time as stay in the cache."""
        sums = counted_sums(counts, torch.split(self._total_and_size, rows_in_chunk(counts.shape[1])))
        for part in column_slices(counts):
            grids = np.ascontiguousarray((self._grid @ counts[:, part].astype(np.float64)).T)
            yield Sums(residuals=Residuals(torch.from_numpy(grids), sums[part, 0], sums[part, 1]))


def spread_on_grid(confidence: Array, residuals: Array, nodes: int) -> csr_array:
    """Put each residual on the four nodes around its confidence, by cubic interpolation: sparse (nodes + 1, N).

    Its row sums are `residual_grid`.
    """
    place = confidence * nodes
    cell = np.minimum(place.astype(np.int64), nodes - 1)
    spread = np.asarray(CUBIC_WEIGHTS) @ (place - cell) ** np.arange(4)[:, None] * residuals
    node = np.abs(cell + np.arange(-1, 3)[:, None])
    node = np.where(node > nodes, 2 * nodes - node, node)  # beyond the ends stand mirror images
    sample = np.broadcast_to(np.arange(len(cell)), node.shape)
    return csr_array((spread.ravel(), (node.ravel(), sample.ravel())), shape=(nodes + 1, len(cell)))
