"""ROC curves of out-of-distribution detection by a model's uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from focalcal.metrics.ood import RocCurve, Score
from focalcal.plots.axes import axis_or_new
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Roc:
    """A ROC curve, in at most the number of points that was asked for.

    Attributes:
        false_rates: Share of in-distribution samples that a threshold flags, ascending from 0 to 1.
        true_rates: Share of out-of-distribution samples that it flags.
        auroc: The area under the whole curve, before points were left out.
        fpr_at_95: The share of false alarms at which 95% of the others are found.
    """

    false_rates: Array
    true_rates: Array
    auroc: float
    fpr_at_95: float


def roc(
    in_distribution: Predictions, out_of_distribution: Predictions, *, score: Score = "entropy", points: int = 200
) -> Roc:
    """Compute the curve of two sets of predictions of one model; out-of-distribution samples are the positives.

    Args:
        in_distribution: Predictions on data like the training data.
        out_of_distribution: Predictions of the same model on other data, with any labels.
        score: "entropy" or "confidence".
        points: Number of points of the curve, at most.

    Examples:
        >>> inside = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], [0, 0])
        >>> outside = Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]], [0, 0])
        >>> curve = roc(inside, outside)
        >>> curve.auroc, curve.fpr_at_95, curve.true_rates.tolist()
        (0.875, 0.5, [0.0, 0.5, 1.0, 1.0])
    """
    curve = RocCurve.of(in_distribution, out_of_distribution, score)
    kept = _spread_out(curve.false_rates + curve.true_rates, points)
    return Roc(curve.false_rates[kept], curve.true_rates[kept], curve.area(), curve.false_rate_at(0.95))


def _spread_out(position: Array, points: int) -> npt.NDArray[np.int64]:
    """Choose at most ``points`` of ascending positions, about evenly spaced, with the first and the last."""
    if len(position) <= points:
        return np.arange(len(position))
    wanted = np.linspace(position[0], position[-1], points)
    return np.unique(np.searchsorted(position, wanted).clip(max=len(position) - 1))


def draw_roc(curve: Roc, ax: Axes | None = None, *, label: str = "") -> Axes:
    """Draw the curve and the diagonal of chance; return the axis."""
    ax = axis_or_new(ax)
    ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle="--")
    ax.plot(curve.false_rates, curve.true_rates, label=f"{label} AUROC {curve.auroc:.3f}".strip())
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="in-distribution samples flagged", ylabel="out-of-distribution samples flagged")
    ax.legend(loc="lower right")
    return ax
