"""Honest intervals by the name of a metric.

How they are made is said in `focalcal.metrics.gap_intervals`.
"""

import math
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.binning import bin_index, check_bins, sum_by_index
from focalcal.metrics.bootstrap.intervals import check_resampling
from focalcal.metrics.calibration_error import mce
from focalcal.metrics.classwise_interval import ClasswiseInterval, FoldedClassSums
from focalcal.metrics.gap_intervals import (
    AbsoluteGaps,
    Interval,
    SquaredGaps,
    largest_gap_interval,
    partial_sum_interval,
)
from focalcal.metrics.independent_units import Bins, CellSamples, ClusterUnits, SampleUnits, Units
from focalcal.metrics.ranking import RankedSamples, Ranking, ada_ece, debiased_ece, ks_error
from focalcal.metrics.samples import ConfidenceSamples, block_probabilities, confidence_samples, measured
from focalcal.metrics.smooth import Residuals
from focalcal.metrics.smooth_intervals import smooth_interval
from focalcal.metrics.sums import Sums
from focalcal.predictions import Predictions

HONEST_METRICS = ("ece", "ada_ece", "debiased_ece", "smooth_ece", "mce", "ks_error", "classwise_ece")


class HonestIntervals:
    """Intervals of the calibration errors of confidence.

    Args:
        samples: N samples.
        bins: The number of bins of binned metrics.
        clusters: (N,) int64 numbers from 0 on of the clusters that samples belong to; None where they are independent.
        seed: Seed for the draws of what a perfectly calibrated model would show.

    Examples:
        >>> confidence = torch.full((1000,), 0.75, dtype=torch.float64)
        >>> samples = ConfidenceSamples(confidence, torch.arange(1000) % 4 > 0, None)  # right in 750 of 1,000
        >>> low, high = HonestIntervals(samples).interval("ece", estimate=0.0, level=0.9)
        >>> low, round(high, 3)
        (0.0, 0.025)
    """

    def __init__(
        self, samples: ConfidenceSamples, bins: int = 15, clusters: Tensor | None = None, seed: int = 0
    ) -> None:
        self._samples, self._clusters = samples, clusters
        self._bins, self._seed = bins, seed

    def interval(self, name: str, estimate: float, level: float) -> Interval:
        """Return the ends of the interval of a metric whose estimate is known."""
        if math.isnan(estimate):
            return math.nan, math.nan
        low, high = getattr(self, f"_{name}")(estimate, level)
        return float(low), float(high)

    @cached_property
    def binned(self) -> AbsoluteGaps:
        """The gaps of bins of equal width, whose norm is ECE."""
        cell = bin_index(self._samples.confidence, self._bins).numpy()
        return AbsoluteGaps(self._units(cell, self._bins), Bins.of_width(self._bins), self._seed)

    def _units(self, cell: np.ndarray, cells: int) -> Units:
        samples, rows = self._samples, torch.arange(len(self._samples))
        in_cells = CellSamples(
            cell=cell,
            confidence=samples.confidence.numpy(),
            correct=samples.correct.numpy(),
            weight=samples.mass.numpy(),
            unit=(rows if self._clusters is None else self._clusters).numpy(),
            cells=cells,
        )
        return SampleUnits.of(in_cells) if self._clusters is None else ClusterUnits(in_cells)

    @cached_property
    def ranking(self) -> Ranking:
        """The samples in the order of confidence."""
        return self._ranked.ranking(self._bins)

    @cached_property
    def _ranked(self) -> RankedSamples:
        return RankedSamples(self._samples)

    @cached_property
    def _ranked_units(self) -> Units:
        return self._units(self._ranked.cell, len(self._ranked.confidence))

    def _ece(self, estimate: float, level: float) -> Interval:
        return self.binned.interval(level, estimate)

    def _ada_ece(self, estimate: float, level: float) -> Interval:
        bins = Bins.of_mass(self.ranking.mass, self.ranking.cuts)
        return AbsoluteGaps(self._ranked_units, bins, self._seed).interval(level, estimate)

    def _debiased_ece(self, estimate: float, level: float) -> Interval:
        bins = Bins(self.ranking.bin_of_whole_cells(), self._bins)
        return SquaredGaps(self._ranked_units, bins, self._seed).interval(level, estimate)

    def _ks_error(self, estimate: float, level: float) -> Interval:
        return partial_sum_interval(self._ranked_units, level)

    def _smooth_ece(self, estimate: float, level: float) -> Interval:
        return smooth_interval(self._ranked_units, self._ranked.confidence, estimate, level, self._seed)

    def _mce(self, estimate: float, level: float) -> Interval:
        samples = self._samples
        if self._clusters is not None:
            return math.nan, math.nan
        index = bin_index(samples.confidence, self._bins)
        mass = samples.mass
        terms = (mass, mass * samples.confidence, mass * samples.correct, mass.square())
        count, sure, right, squares = (sum_by_index(index, self._bins, term).numpy() for term in terms)
        effective = np.divide(count**2, squares, out=np.zeros_like(count), where=squares > 0)
        return largest_gap_interval(count, sure, right, effective, level)


class CalibrationErrors:
    """All calibration errors of predictions, each with its interval at any level.

    Args:
        preds: Predictions with labels.
        bins: Number of bins of the binned metrics.
        clusters: (N,) int64 numbers from 0 on of the clusters that samples belong to; None where they are independent.
        seed: Seed for the draws of what a perfectly calibrated model would show.

    Attributes:
        estimates: The errors by the metric's name.
    """

    def __init__(self, preds: Predictions, bins: int = 15, clusters: Tensor | None = None, seed: int = 0) -> None:
        preds = measured(preds)
        samples = confidence_samples(preds)
        sums = FoldedClassSums(preds.num_classes, bins, preds.weights is not None)
        for block, probs in block_probabilities(preds):
            sums.add(probs, block.hard_labels, block.weights)
        self._of_confidence = HonestIntervals(samples, bins, clusters, seed)
        self._classwise = ClasswiseInterval(preds, sums, clusters, seed)
        ranked = Sums(ranking=self._of_confidence.ranking)
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
    return {name: errors.interval(name, level) for name in errors.estimates}
