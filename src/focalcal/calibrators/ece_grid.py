"""The temperature of a grid with the least ECE, exactly, without trying most of the grid.

The ECE is at least |mean confidence − accuracy| (the bins' gaps are summed without their signs), and each sample's
confidence falls as T grows. So from the T at which the mean confidence meets the accuracy one goes outwards, and once
that lower bound is above the best ECE so far, nothing farther out can be better.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.temperature_search import logits_of, softmax_totals
from focalcal.predictions import Predictions

# Rows for the first guess at where the mean confidence meets the accuracy.
_SAMPLE_ROWS = 1024
# Far above what float64 sums lose, far below any difference of ECE that matters.
_SLACK = 1e-9


def fit_temperature_on_grid(preds: Predictions, grid: Sequence[float], bins: int) -> float:
    """The T of ``grid`` at which softmax(z / T) has the least ECE, the first in the grid's order on ties.

    Args:
        preds: N predictions; soft labels count as their most probable class, weights count.
        grid: positive temperatures in any order.
        bins: the number of bins.

    Example:
        >>> preds = Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])  # right 3 times of 4: T = 3.64 is best
        >>> fit_temperature_on_grid(preds, [1.0, 3.0, 3.7, 5.0], bins=15)
        3.7
    """
    scaled, ascending = _Scaled.of(preds, bins), sorted(set(grid))
    sample = scaled.every(max(1, len(scaled.correct) // _SAMPLE_ROWS))
    start = bisect_left(ascending, True, key=lambda temperature: sample.at(temperature)[0] <= 0)
    errors: dict[float, float] = {}
    _walk(scaled, ascending[start:], errors, outwards=-1)
    _walk(scaled, reversed(ascending[:start]), errors, outwards=1)
    # In the order of the user's grid, so that the first minimum is theirs.
    return float(min((temperature for temperature in grid if temperature in errors), key=errors.__getitem__))


def _walk(scaled: "_Scaled", temperatures: Iterable[float], errors: dict[float, float], outwards: int) -> None:
    """Fill in ``errors`` until the signed gap, growing in direction ``outwards``, rules out everything that follows."""
    for temperature in temperatures:
        gap, errors[temperature] = scaled.at(temperature)
        if outwards * gap > min(errors.values()) + _SLACK:
            return


@dataclass(frozen=True)
class _Scaled:
    """Mean confidence and ECE of some predictions at any temperature."""

    logits: Tensor  # (N, K)
    maxima: Tensor  # (N, 1)
    correct: Tensor  # (N,) bool
    weight: Tensor | None  # (N,) float64, positive
    bins: int

    @classmethod
    def of(cls, preds: Predictions, bins: int) -> "_Scaled":
        if preds.weights is not None and bool((preds.weights == 0).any()):
            preds = preds.select(preds.weights > 0)
        logits = logits_of(preds)
        correct = preds.values.argmax(1) == preds.hard_labels
        return cls(logits, logits.amax(1, keepdim=True), correct, preds.weights, bins)

    def every(self, stride: int) -> "_Scaled":
        weight = None if self.weight is None else self.weight[::stride]
        return _Scaled(self.logits[::stride], self.maxima[::stride], self.correct[::stride], weight, self.bins)

    def at(self, temperature: float) -> tuple[float, float]:
        """Mean confidence − accuracy, and ECE, in float64: a rounded confidence could fall into another bin."""
        confidence = 1.0 / softmax_totals(self.logits, self.maxima, 1.0 / temperature, torch.float64)
        gaps = confidence - self.correct.double()
        mean = gaps.sum() / len(gaps) if self.weight is None else gaps @ self.weight / self.weight.sum()
        return float(mean), mean_gap(equal_width_sums(confidence, self.correct, self.bins, self.weight))
