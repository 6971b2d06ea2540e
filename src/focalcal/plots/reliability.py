"""Reliability diagrams: accuracy by confidence, in bins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from focalcal.base.measures import Of, measure, name_event
from focalcal.metrics.binning import BinSums, equal_width_sums, mean_gap
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.samples import ConfidenceSamples, confidence_samples
from focalcal.plots.axes import axis_or_new
from focalcal.plots.smooth_diagram import SmoothReliability
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]
Binning = Literal["equal-width", "equal-mass"]


@dataclass(frozen=True)
class ReliabilityDiagram:
    """One point per bin; (M,) float64 each, NaN in a bin without samples.

    Attributes:
        count: Samples in the bin, or their weight.
        confidence: Their mean confidence.
        accuracy: The share that is right.
        low: Lower end of the accuracy's confidence interval.
        high: Upper end.
        ece: Σ count · |accuracy − confidence| / Σ count: ECE, or AdaECE for bins of equal mass.
        level: Level of the confidence intervals.
        of: What calibration is measured of, as in ``Predictions``: the names of the axes.
        event: What class 1 is called, where predictions are its score and it has a name.
    """

    count: Array
    confidence: Array
    accuracy: Array
    low: Array
    high: Array
    ece: float
    level: float
    of: Of = "top"
    event: str | None = None


def reliability_diagram(
    preds: Predictions, *, bins: int = 15, binning: Binning = "equal-width", level: float = 0.90
) -> ReliabilityDiagram:
    """Compute confidence and accuracy of each bin, with Wilson intervals of the accuracy.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.
        binning: Bins of "equal-width", as for ECE, or of "equal-mass", as for AdaECE.
        level: Level of the confidence intervals.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.875, 0.125], [0.625, 0.375], [0.25, 0.75]], [0, 0, 1, 1])
        >>> diagram = reliability_diagram(preds, bins=2)
        >>> diagram.count.tolist(), diagram.accuracy.tolist(), diagram.ece
        ([0.0, 4.0], [nan, 0.75], 0.0)
    """
    event = name_event(preds.of, preds.class_names)
    return replace(_diagram_of_samples(confidence_samples(preds), bins, binning, level), of=preds.of, event=event)


def class_reliability_diagram(
    preds: Predictions, number: int, *, bins: int = 15, binning: Binning = "equal-width", level: float = 0.90
) -> ReliabilityDiagram:
    """Compute the mean probability of one class and how often it is the label, in bins of that probability.

    Args:
        preds: N predictions of K classes, whose labels are classes.
        number: The class.
        bins: The number of bins M.
        binning: Bins of "equal-width", or of "equal-mass".
        level: Level of the confidence intervals.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1])
        >>> class_reliability_diagram(preds, 1, bins=2).accuracy.tolist()
        [0.5, 1.0]
    """
    if preds.has_soft_labels:
        raise ValueError("The labels are soft, so that no sample is of one class; take their most probable class.")
    if not 0 <= number < preds.num_classes:
        raise ValueError(f"There is no class {number}; there are {preds.num_classes}, from 0.")
    probability = preds.probs()[:, number].double().contiguous()
    samples = ConfidenceSamples(probability, preds.labels == number, preds.weights)
    return _diagram_of_samples(samples, bins, binning, level)


def _diagram_of_samples(samples: ConfidenceSamples, bins: int, binning: Binning, level: float) -> ReliabilityDiagram:
    if binning not in get_args(Binning):
        raise ValueError(f"binning must be 'equal-width' or 'equal-mass', not {binning!r}.")
    if binning == "equal-width":
        sums = equal_width_sums(samples.confidence, samples.correct, bins, samples.weight)
    else:
        sums = RankedSamples(samples).ranking(bins).equal_mass_bins()
    return diagram_of_sums(sums, int((samples.mass > 0).sum()), level)


def diagram_of_sums(sums: BinSums, samples: int, level: float = 0.90) -> ReliabilityDiagram:
    """Make the diagram of bins that have been added up, of this number of samples in all."""
    count, confidence, correct = (part.double().numpy() for part in (sums.count, sums.confidence, sums.correct))
    # A mean of nothing is NaN; weights count as if the same number of samples had weight 1 on average.
    filled = np.where(count > 0, count, np.nan)
    accuracy = np.clip(correct / filled, 0, 1)
    low, high = wilson_interval(accuracy, filled * (samples / count.sum()), level)
    return ReliabilityDiagram(count, confidence / filled, accuracy, low, high, mean_gap(sums), level)


def wilson_interval(share: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Compute Wilson's interval of a share p of n samples: (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Examples:
        >>> low, high = wilson_interval(np.array([0.5, 1.0]), np.array([100.0, 10.0]), level=0.9)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.419, 0.787], [0.581, 1.0])
    """
    z = float(ndtri(0.5 + level / 2))
    centre, spread = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return np.clip((centre - spread) / scale, 0, 1), np.clip((centre + spread) / scale, 0, 1)


def draw_reliability_diagram(
    diagram: ReliabilityDiagram, ax: Axes | None = None, *, smooth: SmoothReliability | None = None, label: str = ""
) -> Axes:
    """Draw the bins with their intervals, the diagonal of perfect calibration and the smooth curve; return the axis.

    The area of a point grows with the number of samples in its bin.
    """
    ax = axis_or_new(ax)
    ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle="--", label="perfect calibration")
    area = 12 + 150 * diagram.count / max(diagram.count.max(), 1)
    drawn = ax.scatter(diagram.confidence, diagram.accuracy, s=area, zorder=3, label=label or f"ECE {diagram.ece:.2%}")
    colour = drawn.get_facecolor()[0]
    ax.vlines(diagram.confidence, diagram.low, diagram.high, color=colour, alpha=0.6, linewidth=1.5)
    if smooth is not None:
        ax.plot(smooth.confidence, smooth.accuracy, color=colour, alpha=0.7, label="smooth curve")
    axes = measure(diagram.of, diagram.event)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=axes.confidence, ylabel=axes.outcome, aspect="equal")
    ax.legend(loc="upper left")
    return ax
