"""Reliability curves without bins: accuracy near each confidence, weighted by a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from focalcal.metrics.binning import BinSums, equal_width_sums
from focalcal.metrics.samples import sample_statistics
from focalcal.metrics.smooth import Residuals
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

# Fine enough for the narrowest Gaussian: four cells to its width.
_CELLS = 200
_NARROWEST, _WIDEST = 0.02, 0.05
# The curve ends with the samples, and is left open where fewer than this, weighted by the Gaussian, speak for it.
_FEWEST = 5.0


@dataclass(frozen=True)
class SmoothReliability:
    """The curve: (P,) float64 each; accuracy is NaN where there are hardly any samples."""

    confidence: Array
    accuracy: Array
    width: float


def smooth_reliability(preds: Predictions, *, width: float | None = None, points: int = 101) -> SmoothReliability:
    """Compute accuracy by confidence, smoothed by a Gaussian that is reflected at 0 and 1.

    accuracy(t) = Σ_i w_i correct_i G(t, c_i) / Σ_i w_i G(t, c_i), where G(t, c) adds up a Gaussian around t
    at c, −c and 2 − c.

    Args:
        preds: N predictions of K classes.
        width: The Gaussian's σ; None for the smooth calibration error, kept between 0.02 and 0.05 (or at
            0.4 / N^¼, where that is more: few samples need a wider one).
        points: Number of confidences from 0 to 1 that the curve has.

    Examples:
        >>> import torch
        >>> preds = Predictions.from_probs(torch.tensor([[0.8, 0.2]]).expand(10, 2), [0] * 6 + [1] * 4)
        >>> float(smooth_reliability(preds, points=6).accuracy[4].round(6))
        0.6
    """
    stats = sample_statistics(preds)
    samples = len(stats) if stats.weight is None else int((stats.weight > 0).sum())
    if width is None:
        width = usual_width(float(Residuals.of_samples(stats).solution[0]), samples)
    cells = equal_width_sums(stats.confidence, stats.correct, _CELLS, stats.weight)
    return smooth_of_sums(cells, samples, width, points)


def usual_width(smooth_ece: float, samples: int) -> float:
    """Choose σ for a model with this smooth calibration error on this number of samples.

    Examples:
        >>> usual_width(0.03, samples=100_000), usual_width(0.03, samples=256)
        (0.03, 0.1)
    """
    low = max(_NARROWEST, 0.4 * samples**-0.25)
    return float(np.clip(smooth_ece, low, max(_WIDEST, low)))


def smooth_of_sums(cells: BinSums, samples: int, width: float, points: int = 101) -> SmoothReliability:
    """Make the curve from narrow bins of equal width, which count at their mean confidence."""
    held = cells.count > 0
    mass, confidence, correct = (p[held].double().numpy() for p in (cells.count, cells.confidence, cells.correct))
    t = np.linspace(0.0, 1.0, points)
    at, half_step = confidence / mass, 0.5 / max(points - 1, 1)
    kernel = sum(np.exp(-0.5 * ((t[:, None] - image) / width) ** 2) for image in (at, -at, 2 - at))
    total = kernel @ mass
    enough = total * (samples / mass.sum()) >= min(_FEWEST, samples / 10)
    enough &= (t >= at[0] - half_step) & (t <= at[-1] + half_step)
    accuracy = np.where(enough, (kernel @ correct) / np.where(enough, total, 1), np.nan)
    return SmoothReliability(t, accuracy, width)
