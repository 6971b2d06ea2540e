"""Histograms of confidence, of right and of wrong predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from focalcal.base.measures import MEASURES, Of
from focalcal.metrics.binning import edges, equal_width_sums
from focalcal.metrics.samples import sample_statistics
from focalcal.plots.axes import axis_or_new
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ConfidenceHistogram:
    """Samples, or their weight, by confidence.

    Attributes:
        edges: (M + 1,) of the bins.
        right: (M,) samples whose prediction is right; of a score, samples of class 1.
        wrong: (M,) the others.
        of: What calibration is measured of, as in ``Predictions``.
    """

    edges: Array
    right: Array
    wrong: Array
    of: Of = "top"


def confidence_histogram(preds: Predictions, *, bins: int = 25) -> ConfidenceHistogram:
    """Count right and wrong predictions in bins of equal width of the confidence.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.

    Examples:
        >>> histogram = confidence_histogram(Predictions.from_probs([[0.75, 0.25], [0.875, 0.125]], [0, 1]), bins=4)
        >>> histogram.right.tolist(), histogram.wrong.tolist()
        ([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    """
    stats = sample_statistics(preds)
    sums = equal_width_sums(stats.confidence, stats.correct, bins, stats.weight)
    count, right = sums.count.double().numpy(), sums.correct.double().numpy()
    return ConfidenceHistogram(edges(bins).numpy(), right, count - right, preds.of)


def draw_confidence_histogram(histogram: ConfidenceHistogram, ax: Axes | None = None) -> Axes:
    """Draw right predictions upwards and wrong ones downwards, in percent of all; return the axis."""
    from matplotlib.ticker import FuncFormatter

    ax = axis_or_new(ax)
    total = (histogram.right.sum() + histogram.wrong.sum()) / 100
    low, width = histogram.edges[:-1], np.diff(histogram.edges)
    above, below = ("class 1", "class 0") if histogram.of == "score" else ("right", "wrong")
    ax.bar(low, histogram.right / total, width, align="edge", color="C0", label=above, edgecolor="white")
    ax.bar(low, -histogram.wrong / total, width, align="edge", color="C1", label=below, edgecolor="white")
    ax.axhline(0, color="0.3", linewidth=0.8)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
    ax.set(xlim=(0, 1), xlabel=MEASURES[histogram.of].confidence, ylabel="share of all samples (%)")
    ax.legend(loc="upper left")
    return ax
