"""Classwise sums of every replicate: one dense product for the totals of the classes, one sparse for the rest.

Most probabilities of many classes lie in the first bin. Its sums are not added up: they are what is left of a class's
total when the sums of the other bins are taken away.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions
from focalcal.metrics.binning import bin_index
from focalcal.metrics.bootstrap.counts import Counts, column_slices, counted_sums, rows_in_chunk
from focalcal.metrics.catalogue import Source
from focalcal.metrics.classwise import ClassGaps, beyond_first_bin
from focalcal.metrics.samples import block_probabilities
from focalcal.metrics.sums import Sums
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class ClassReplicates:
    """Classwise sums from counts: Σ_k Σ_m |Σ_i c_i w_i (p_ik − [y_i = k])| / (K Σ_i c_i w_i), m the bin of p_ik.

    Args:
        sets: One or more predictions of the same N samples and K classes. With two of them the counts have 2N rows, in
            which the two predictions of a sample stand side by side.
        bins: Number of bins M.
    """

    sources: tuple[Source, ...] = ("classes",)

    def __init__(self, sets: Sequence[Predictions], bins: int) -> None:
        sets = [prepare_predictions(preds) for preds in sets]
        weight = torch.ones(len(sets[0])).double() if sets[0].weights is None else sets[0].weights
        self._weight = weight.repeat_interleave(len(sets))[:, None]
        self._num_classes = sets[0].num_classes
        self._gaps: list[Callable[[int], Iterable[Tensor]]] = [partial(gaps, preds) for preds in sets]
        self._above, self._class_of_cell = _cells_above_first_bin(sets, bins)

    def by_group(self, group: Tensor, groups: int) -> "ClassReplicates":
        """Take counts of groups instead of samples: (groups · number of sets, B).

        Args:
            group: (N,) int64, below ``groups``.
            groups: Number of groups.
        """
        sets = len(self._gaps)
        places = (group[:, None] * sets + torch.arange(sets)).reshape(-1)
        member = (np.arange(len(places)), places.numpy())
        grouped = copy(self)
        grouped._above = self._above @ csr_array((np.ones(len(places)), member), shape=(len(places), groups * sets))
        grouped._weight = torch.zeros(groups * sets, 1).double().index_add_(0, places, self._weight)
        totals = [_by_group(blocks(rows_in_chunk(self._num_classes)), group, groups) for blocks in self._gaps]
        grouped._gaps = [partial(_one_block, each) for each in totals]
        return grouped

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield the sums of all replicates at once, for counts (N · number of sets, B)."""
        totals = self._totals(counts)
        gap = np.concatenate(
            [self._gap(totals[:, part], self._cells(counts[:, part])) for part in column_slices(counts)]
        )
        yield self._sums(gap, counts)

    def sums_of_complements(self, counts: Counts, others: Counts) -> tuple[list[Sums], list[Sums]]:
        """Compute `sums` of counts and of others that add up to the same in every replicate, for the price of one."""
        everything = counts[:, :1] + others[:, :1]
        all_totals, all_cells = self._totals(everything), self._cells(everything)
        totals = self._totals(counts)
        gaps_of_both = []
        for part in column_slices(counts):
            here, cells = totals[:, part], self._cells(counts[:, part])
            gaps_of_both.append((self._gap(here, cells), self._gap(all_totals - here, all_cells - cells)))
        gap, other_gap = (np.concatenate(each) for each in zip(*gaps_of_both, strict=True))
        return [self._sums(gap, counts)], [self._sums(other_gap, others)]

    def _totals(self, counts: Counts) -> Array:
        """Return (K, B) sums of the gaps of each class, whatever their bin."""
        rows, sets = rows_in_chunk(max(counts.shape[1], self._num_classes)), len(self._gaps)
        each = [counted_sums(counts[place::sets], blocks(rows)) for place, blocks in enumerate(self._gaps)]
        return torch.stack(each).sum(dim=0).numpy().T

    def _cells(self, counts: Counts) -> Array:
        """Return (cells, B) sums of the gaps of each cell above the first bin."""
        return np.asarray(self._above @ counts.astype(np.float64))

    def _gap(self, totals: Array, cells: Array) -> Array:
        """Return (B,) absolute gaps, summed over classes and bins."""
        first = totals - self._class_of_cell @ cells
        return np.asarray(np.abs(first).sum(axis=0) + np.abs(cells).sum(axis=0))

    def _sums(self, gap: Array, counts: Counts) -> Sums:
        mass = counted_sums(counts, torch.split(self._weight, rows_in_chunk(counts.shape[1])))[:, 0]
        return Sums(classes=ClassGaps(torch.from_numpy(gap), mass, self._num_classes))


def gaps(preds: Predictions, rows: int) -> Iterator[Tensor]:
    """Yield weighted p_ik − [y_i = k] of consecutive blocks of at most ``rows`` samples, (rows, K) float64."""
    for block, probs in block_probabilities(preds):
        yield from torch.split(_gaps_of_block(block, probs), rows)


def _gaps_of_block(block: Predictions, probs: Tensor) -> Tensor:
    gap = probs.clone()
    gap[torch.arange(len(gap)), block.hard_labels] -= 1
    return gap if block.weights is None else gap.mul_(block.weights[:, None])


def _one_block(values: Tensor, rows: int) -> Iterator[Tensor]:
    """Compute what `gaps` gives, where all rows are at hand."""
    yield values


def _by_group(blocks: Iterable[Tensor], group: Tensor, groups: int) -> Tensor:
    """Return (groups, K) sums of consecutive blocks of (rows, K) values."""
    total: Tensor | None = None
    start = 0
    for block in blocks:
        total = torch.zeros(groups, block.shape[1], dtype=torch.float64) if total is None else total
        total.index_add_(0, group[start : start + len(block)], block)
        start += len(block)
    if total is None:
        raise ValueError("there are no samples to put into groups: give at least one.")
    return total


def _cells_above_first_bin(sets: Sequence[Predictions], bins: int) -> tuple[csr_array, csr_array]:
    """Return sparse (cells, samples) gaps of probabilities above the first bin, and (K, cells) which class has them."""
    found = [_above_first_bin(preds, bins) for preds in sets]
    sample = np.concatenate([place[0] * len(sets) + i for i, place in enumerate(found)])
    cell, gap = (np.concatenate([place[field] for place in found]) for field in (1, 2))
    used, place = np.unique(cell, return_inverse=True)
    above = csr_array((gap, (place, sample)), shape=(len(used), len(sets) * len(sets[0])))
    of_class = (used // bins, np.arange(len(used)))
    return above, csr_array((np.ones(len(used)), of_class), shape=(sets[0].num_classes, len(used)))


def _above_first_bin(preds: Predictions, bins: int) -> tuple[Integers, Integers, Array]:
    """Sample, cell (class · bins + bin) and gap of every probability above the first bin."""
    samples, cells, values, start = [], [], [], 0
    for block, probs in block_probabilities(preds):
        sample, label, p = beyond_first_bin(probs, bins)
        samples.append(sample.numpy() + start)
        cells.append((label * bins + bin_index(p, bins)).numpy())
        values.append(_gaps_of_block(block, probs)[sample, label].numpy())
        start += len(block)
    return np.concatenate(samples), np.concatenate(cells), np.concatenate(values)
