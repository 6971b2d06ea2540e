"""Honest intervals by the name of a metric.

How they are made is said in `focalcal.metrics.gap_intervals`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions
from focalcal.metrics.binning import BinSums, bin_index, check_bins, equal_width_sums
from focalcal.metrics.bootstrap.interval_methods import UNKNOWN
from focalcal.metrics.bootstrap.intervals import check_resampling
from focalcal.metrics.calibration_error import mce
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.classwise_interval import ClasswiseInterval, FoldedClassSums
from focalcal.metrics.cluster_units import ClusterUnits
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.gap_intervals import (
    AbsoluteGaps,
    Interval,
    SquaredGaps,
    largest_gap_interval,
    partial_sum_interval,
    smooth_interval,
)
from focalcal.metrics.independent_units import Bins, CellSamples, SampleUnits, Units
from focalcal.metrics.ranking import RankedSamples, Ranking, ada_ece, debiased_ece, ks_error
from focalcal.metrics.samples import ConfidenceSamples, block_probabilities, confidence_samples
from focalcal.metrics.smooth import Residuals
from focalcal.metrics.sums import Sums
from focalcal.predictions import Predictions

HONEST_METRICS = tuple(name for name, metric in METRICS.items() if metric.default_method == "honest")


@dataclass(frozen=True)
class RankedUnits:
    """Units in cells that are in the order of confidence.

    Attributes:
        units: Sums per fold and cell.
        confidence: (P,) of the cells.
        ranking: Sums per cell, cut into bins of equal mass.
    """

    units: Units
    confidence: npt.NDArray[np.float64]
    ranking: Ranking


class GapSums(Protocol):
    """The data that honest intervals are made of."""

    @property
    def table(self) -> BinSums:
        """Sums per bin of equal width."""

    @property
    def binned(self) -> Units:
        """Units in bins of equal width."""

    @property
    def ranked(self) -> RankedUnits:
        """Units in the order of confidence."""


class SampledGaps:
    """Sums of samples that are at hand.

    Args:
        samples: N samples.
        bins: The number of bins of binned metrics.
        clusters: (N,) int64 numbers from 0 on of the clusters that samples belong to; None where they are independent.
        fold: (N,) int64, the folds of independent samples; None to go by the number of the sample.
    """

    def __init__(
        self,
        samples: ConfidenceSamples,
        bins: int = 15,
        clusters: Tensor | None = None,
        fold: Tensor | None = None,
    ) -> None:
        self._samples, self._bins, self._clusters, self._fold = samples, bins, clusters, fold

    @cached_property
    def table(self) -> BinSums:
        """See `GapSums`."""
        samples = self._samples
        return equal_width_sums(samples.confidence, samples.correct, self._bins, samples.weight)

    @cached_property
    def binned(self) -> Units:
        """See `GapSums`."""
        return self._units(bin_index(self._samples.confidence, self._bins).numpy(), self._bins)

    @cached_property
    def ranking(self) -> Ranking:
        """The samples in the order of confidence."""
        return self._in_order.ranking(self._bins)

    @cached_property
    def ranked(self) -> RankedUnits:
        """See `GapSums`."""
        cell, confidence = self._in_order.cell, self._in_order.confidence
        return RankedUnits(self._units(cell, len(confidence)), confidence, self.ranking)

    @cached_property
    def _in_order(self) -> RankedSamples:
        return RankedSamples(self._samples)

    def _units(self, cell: npt.NDArray[np.int64], cells: int) -> Units:
        rows = torch.arange(len(self._samples)) if self._fold is None else self._fold
        unit = rows if self._clusters is None else self._clusters
        in_cells = samples_in_cells(self._samples, cell, unit, cells)
        return SampleUnits.of(in_cells) if self._clusters is None else ClusterUnits(in_cells)


def samples_in_cells(samples: ConfidenceSamples, cell: npt.NDArray[np.int64], unit: Tensor, cells: int) -> CellSamples:
    """Find the cell and the unit of each sample."""
    columns = (samples.confidence.numpy(), samples.correct.numpy(), samples.mass.numpy())
    return CellSamples(cell, *columns, unit.numpy(), cells)


class HonestIntervals:
    """Intervals of the calibration errors of confidence.

    Args:
        sums: Sums over samples, or over a stream of them.
        seed: Seed for the draws of what a perfectly calibrated model would show.

    Examples:
        >>> confidence = torch.full((1000,), 0.75, dtype=torch.float64)
        >>> samples = ConfidenceSamples(confidence, torch.arange(1000) % 4 > 0, None)  # right in 750 of 1,000
        >>> low, high = HonestIntervals(SampledGaps(samples)).interval("ece", estimate=0.0, level=0.9)
        >>> low, round(high, 3)
        (0.0, 0.025)
    """

    def __init__(self, sums: GapSums, seed: int = 0) -> None:
        self._sums, self._seed = sums, seed
        self._makers: dict[str, Callable[[float, float], Interval]] = {
            "ece": self._ece,
            "ada_ece": self._ada_ece,
            "debiased_ece": self._debiased_ece,
            "mce": self._mce,
            "ks_error": self._ks_error,
            "smooth_ece": self._smooth_ece,
        }

    @cached_property
    def binned(self) -> AbsoluteGaps:
        """The gaps of bins of equal width, whose norm is ECE."""
        return AbsoluteGaps(self._sums.binned, Bins.of_width(len(self._sums.table.count)), self._seed)

    def has(self, name: str) -> bool:
        """Return whether there is an interval of this metric."""
        return name in self._makers

    def interval(self, name: str, estimate: float, level: float) -> Interval:
        """Return the ends of the interval of a metric whose estimate is known; NaN where one unit is all there is."""
        # Rounding may put the effective number of one weighted sample a hair above 1.
        if math.isnan(estimate) or self._sums.binned.effective <= 1 + 1e-9:
            return UNKNOWN
        low, high = np.clip(self._makers[name](estimate, level), *METRICS[name].range)
        return min(float(low), estimate), max(float(high), estimate)  # sums in another order round otherwise

    def _ece(self, estimate: float, level: float) -> Interval:
        return self.binned.interval(level, estimate)

    def _ada_ece(self, estimate: float, level: float) -> Interval:
        return self._of_equal_mass.interval(level, estimate)

    @cached_property
    def _of_equal_mass(self) -> AbsoluteGaps:
        ranked = self._sums.ranked
        return AbsoluteGaps(ranked.units, Bins.of_mass(ranked.ranking.mass, ranked.ranking.cuts), self._seed)

    def _debiased_ece(self, estimate: float, level: float) -> Interval:
        return self._of_whole_cells.interval(level, estimate)

    @cached_property
    def _of_whole_cells(self) -> SquaredGaps:
        ranked = self._sums.ranked
        return SquaredGaps(ranked.units, Bins(ranked.ranking.bin_of_whole_cells(), ranked.ranking.bins), self._seed)

    def _ks_error(self, estimate: float, level: float) -> Interval:
        return partial_sum_interval(self._sums.ranked.units, level, estimate)

    def _smooth_ece(self, estimate: float, level: float) -> Interval:
        ranked = self._sums.ranked
        return smooth_interval(ranked.units, ranked.confidence, estimate, level, self._seed)

    def _mce(self, estimate: float, level: float) -> Interval:
        table = self._sums.table
        count, sure, right = (part.double().numpy() for part in (table.count, table.confidence, table.correct))
        accuracy = np.divide(right, count, out=np.zeros_like(count), where=count > 0)
        return largest_gap_interval(count, sure, right, self._sums.binned.cell_effective(accuracy), level)


class CalibrationErrors:
    """All calibration errors of predictions, each with its interval at any level.

    Args:
        preds: Predictions with labels.
        bins: Number of bins of the binned metrics.
        seed: Seed for the draws of what a perfectly calibrated model would show.

    Attributes:
        estimates: The errors by the metric's name.
    """

    def __init__(self, preds: Predictions, bins: int = 15, seed: int = 0) -> None:
        preds = prepare_predictions(preds)
        samples = confidence_samples(preds)
        clusters = cluster_numbers(preds)
        sums = FoldedClassSums(preds.num_classes, bins, preds.weights is not None, clusters)
        for block, probs in block_probabilities(preds):
            sums.add(probs, block.hard_labels, block.weights)
        gaps = SampledGaps(samples, bins, clusters)
        self._of_confidence = HonestIntervals(gaps, seed)
        self._classwise = ClasswiseInterval(preds, sums.gaps(), gaps.binned.lump, clusters, seed)
        ranked = Sums(ranking=gaps.ranking)
        self.estimates = {
            "ece": self._of_confidence.binned.value,
            "ada_ece": ada_ece(ranked),
            "debiased_ece": debiased_ece(ranked),
            "smooth_ece": float(Residuals.of_samples(samples).solution[0]),
            "mce": mce(preds, bins=bins),
            "ks_error": ks_error(ranked),
            "classwise_ece": self._classwise.estimate,
        }

    def interval(self, name: str, level: float) -> Interval:
        """Return the ends of the interval of a metric."""
        if name == "classwise_ece":
            return self._classwise.at(level)
        return self._of_confidence.interval(name, self.estimates[name], level)


def calibration_intervals(
    preds: Predictions, *, bins: int = 15, level: float = 0.90, seed: int = 0
) -> dict[str, Interval]:
    """Compute confidence intervals of all calibration errors that cover the truth whatever it is, without resampling.

    Bootstrap intervals of a calibration error lie above the truth where that is small; these hold their level for
    calibrated models too, and the estimate always lies inside. How they are made: `focalcal.metrics.gap_intervals`.

    Args:
        preds: Predictions with labels, of at least two samples.
        bins: Number of bins of the binned metrics.
        level: Level of the intervals.
        seed: Seed for the draws of what a perfectly calibrated model would show.

    Returns:
        The two ends by the metric's name.

    Examples:
        >>> import torch
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(400, 2)
        >>> found = calibration_intervals(Predictions.from_probs(probs, torch.arange(400) % 4 == 0))  # right in 300
        >>> found["ece"][0], round(found["ece"][1], 3)
        (0.0, 0.042)
    """
    check_bins(bins)
    check_resampling(1, level, seed)
    if len(preds) < 2:
        raise ValueError(f"An interval needs at least 2 samples, and there are {len(preds)}.")
    errors = CalibrationErrors(preds, bins, seed=seed)
    return {name: errors.interval(name, level) for name in names_for(errors.estimates, preds.num_classes, preds.of)}
