"""Selective prediction: risk–coverage curves, accuracy among the answers that a model is most confident of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from focalcal.metrics.samples import confidence_samples, of_answers, sample_statistics
from focalcal.plots.axes import axis_or_new
from focalcal.plots.ranked_confidence import RankedConfidence
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RiskCoverage:
    """The curve: (P,) float64 each, coverage ascending from 1/P to 1.

    Attributes:
        coverage: The share of samples that is answered, the most confident ones first.
        accuracy: The share of these that is right.
        threshold: The lowest confidence among them.
        area: Mean error over all coverages (AURC); lower is better.
    """

    coverage: Array
    accuracy: Array
    threshold: Array
    area: float


def risk_coverage(preds: Predictions, *, points: int = 100) -> RiskCoverage:
    """Compute the accuracy of the most confident share of the samples, for every share.

    Args:
        preds: N predictions of K classes; of a score, the answer is the more probable class. A share that ends among
            samples that tie gets their mean accuracy.
        points: Number of shares: 1/points, 2/points, ... 1.

    Examples:
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], [0, 0, 1, 0])
        >>> curve = risk_coverage(preds, points=4)
        >>> curve.accuracy.round(3).tolist(), curve.threshold.tolist()
        ([1.0, 1.0, 0.667, 0.75], [0.9, 0.8, 0.7, 0.6])
    """
    samples = of_answers(sample_statistics(preds)) if preds.of == "score" else confidence_samples(preds)
    return risk_coverage_of_ranked(RankedConfidence.of_samples(samples), points)


def risk_coverage_of_ranked(ranked: RankedConfidence, points: int = 100) -> RiskCoverage:
    """Make the curve from ordered confidences."""
    confidence, mass, correct = (part.flip(0).numpy() for part in (ranked.confidence, ranked.mass, ranked.correct))
    answered, right = mass.cumsum(), correct.cumsum()
    coverage = np.arange(1, points + 1) / points
    wanted = coverage * answered[-1]
    reached = np.interp(wanted, np.append(0.0, answered), np.append(0.0, right))
    place = np.minimum(np.searchsorted(answered, wanted - 1e-9 * answered[-1]), len(answered) - 1)
    area = float((mass * (1 - right / answered)).sum() / answered[-1])
    return RiskCoverage(coverage, reached / wanted, confidence[place], area)


def draw_risk_coverage(curve: RiskCoverage, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Draw accuracy by coverage, both in percent; return the axis."""
    ax = axis_or_new(ax)
    ax.plot(100 * curve.coverage, 100 * curve.accuracy, label=label)
    ax.set(xlim=(0, 100), xlabel="answered, most confident first (%)", ylabel="accuracy of the answers (%)")
    if label is not None:
        ax.legend(loc="lower left")
    return ax
