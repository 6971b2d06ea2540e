"""AdaECE and debiased ECE of every replicate, re-cut: the bins of a resample are its own, not those of the data."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from focalcal.metrics.binning import BinSums, equal_mass_bounds
from focalcal.metrics.debiased import debiased_ece_of_sums
from focalcal.metrics.resampling.counts import Counts, column_slices
from focalcal.metrics.statistics import SampleStatistics

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EQUAL_MASS_METRICS = ("ada_ece", "debiased_ece")


class _Sorted(NamedTuple):
    """Some replicates in the order of confidence, and where their cuts fall."""

    mass: Array  # (N, B) of each sample's copies
    up_to: Array  # (N, B) cumulated mass
    cuts: Array  # (M − 1, B) inner cuts, on the axis of cumulated mass
    at: Integers  # (M − 1, B) the sample on which a cut falls

    def cumulated(self, values: Array) -> Array:
        """(N, B) sums of values (N,) over the copies of all samples up to each."""
        return np.cumsum(self.mass * values[:, None], axis=0)


class EqualMassReplicates:
    """Errors over bins of equal mass, from counts.

    In a sorted resample the copies of a sample stand side by side. With G(m) the sum of confidence − correctness over
    the first mass m of it, which is linear within a sample, AdaECE is Σ_j |G(m_j) − G(m_{j−1})| / m_M at the cuts m_j.
    Debiased ECE moves each cut to the end of the run of equal confidences that it falls into.

    Args:
        statistics: of N samples.
        bins: how many bins M.
        metrics: which of `EQUAL_MASS_METRICS`.
    """

    def __init__(self, statistics: SampleStatistics, bins: int, metrics: tuple[str, ...] = EQUAL_MASS_METRICS) -> None:
        self._bins = bins
        self._of_metric = {"ada_ece": self._ada_ece, "debiased_ece": self._debiased_ece}
        self._metrics = [name for name in EQUAL_MASS_METRICS if name in metrics]
        confidence = statistics.confidence.numpy()
        self._order = np.argsort(confidence, kind="stable")
        self._confidence = confidence[self._order]
        self._correct = statistics.correct.numpy()[self._order].astype(np.float64)
        self._weighted = statistics.weight is not None
        self._weight = np.ones(len(confidence)) if statistics.weight is None else statistics.weight.numpy()[self._order]
        self._last_of_run = np.searchsorted(self._confidence, self._confidence, side="right") - 1

    def values(self, counts: Counts) -> dict[str, Array]:
        """The metrics by name, (B,) each, for counts (N, B)."""
        parts = [self._values(self._sorted(counts[:, part])) for part in column_slices(counts)]
        return {name: np.concatenate([part[name] for part in parts]) for name in self._metrics}

    def _values(self, part: _Sorted) -> dict[str, Array]:
        return {name: self._of_metric[name](part) for name in self._metrics}

    def _sorted(self, counts: Counts) -> _Sorted:
        counts = np.take(counts, self._order, axis=0)
        mass: Array = counts.astype(np.float64)
        if self._weighted:
            mass *= self._weight[:, None]
        up_to = np.cumsum(mass, axis=0)
        sizes = counts.sum(axis=0, dtype=np.int64)
        different, where = np.unique(sizes, return_inverse=True)
        bounds = np.stack([equal_mass_bounds(int(size), self._bins).numpy()[1:-1] for size in different], axis=1)
        cuts = bounds[:, where] * (up_to[-1] / sizes)
        return _Sorted(mass, up_to, cuts, first_at_least(up_to, cuts))

    def _ada_ece(self, part: _Sorted) -> Array:
        gap_of_sample = self._confidence - self._correct
        gap = part.cumulated(gap_of_sample)
        column = np.arange(gap.shape[1])
        # A cut falls into the copies of one sample: take back the part of them that lies beyond it.
        beyond = part.up_to[part.at, column] - part.cuts
        up_to_cut = gap[part.at, column] - beyond * gap_of_sample[part.at]
        gap_of_bins = np.diff(up_to_cut, axis=0, prepend=0.0, append=gap[-1:])
        return np.asarray(np.abs(gap_of_bins).sum(axis=0) / part.up_to[-1])

    def _debiased_ece(self, part: _Sorted) -> Array:
        last = self._last_before_cut(part)
        count, confidence, correct = (
            torch.from_numpy(sums_of_bins(cumulated, last))
            for cumulated in (part.up_to, part.cumulated(self._confidence), part.cumulated(self._correct))
        )
        squared = torch.from_numpy(sums_of_bins(part.cumulated(self._weight), last)) if self._weighted else None
        return debiased_ece_of_sums(BinSums(count, confidence, correct), squared).numpy()

    def _last_before_cut(self, part: _Sorted) -> Integers:
        """(M − 1, B) the last sample of the run before each cut; −1 where there is none.

        A weighted sample on a cut is before it if the middle of its first copy is.
        """
        if not self._weighted:
            return np.asarray(self._last_of_run[part.at])
        column = np.arange(part.cuts.shape[1])
        before = np.where(part.at > 0, part.up_to[part.at - 1, column], 0.0)
        taken = before + self._weight[part.at] / 2 < part.cuts
        one_earlier = first_at_least(part.up_to, before)
        last = self._last_of_run[np.where(taken, part.at, one_earlier)]
        return np.asarray(np.where(taken | (before > 0), last, -1))


def sums_of_bins(cumulated: Array, last: Integers) -> Array:
    """(B, M) sums of each bin, from cumulated sums (N, B) and the last sample of all bins but one (M − 1, B)."""
    ends = np.where(last >= 0, cumulated[last, np.arange(last.shape[1])], 0.0)
    return np.ascontiguousarray(np.diff(ends, axis=0, prepend=0.0, append=cumulated[-1:]).T)


def first_at_least(ascending: Array, wanted: Array) -> Integers:
    """In each column of ``ascending`` (N, B), the first row that reaches ``wanted`` (M, B), or the last row."""
    low = np.zeros(wanted.shape, dtype=np.int64)
    high = np.full(wanted.shape, len(ascending) - 1)
    column = np.arange(wanted.shape[1])
    while (low < high).any():
        middle = (low + high) // 2
        # Where the search has ended, rounding may have left even the last row short of what is wanted.
        reached = (ascending[middle, column] >= wanted) | (low == high)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle + 1)
    return low
