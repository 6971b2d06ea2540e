"""How other libraries bin, so that a number of theirs can be met and the difference seen.

- ``"focalcal"``: bins (lower, upper] with the doubles i/M as edges; 0 in the first, 1 in the last.
- ``"torchmetrics"`` (its multiclass metric): confidence rounded to float32 and bins [lower, upper) with float32 edges;
  1.0 stands in a bin of its own, the (M + 1)th. Its float32 counters are not reproduced: where they stop counting, the
  values differ.
- ``"netcal"``, given float64: bins [lower, upper), the last one closed, with the edges of ``numpy.linspace``. With two
  classes it bins the probability of class 1, and the frequency of class 1 takes the place of accuracy. (Given float32,
  netcal counts with float64 edges and averages with float32 edges; that is not reproduced.)
"""

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, bin_sums, check_bins, equal_width_sums
from focalcal.metrics.statistics import ConfidenceSamples, measured, sample_statistics
from focalcal.predictions import Predictions

Convention = Literal["focalcal", "torchmetrics", "netcal"]


def bins_by_convention(preds: Predictions, bins: int, convention: Convention = "focalcal") -> BinSums:
    """Sums over bins of equal width of confidence, as ``convention`` draws them.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins M.
        convention: ``"focalcal"``, ``"torchmetrics"`` or ``"netcal"``.

    Returns:
        Sums of shape (M,), or (M + 1,) for torchmetrics.

    Examples:
        >>> preds = Predictions.from_probs([[0.5, 0.5], [1.0, 0.0]], [0, 0])
        >>> bins_by_convention(preds, 2).count.tolist(), bins_by_convention(preds, 2, "torchmetrics").count.tolist()
        ([1, 1], [0, 1, 1])
    """
    check_bins(bins)
    if convention not in get_args(Convention):
        raise ValueError(f"convention is {convention!r}; it must be 'focalcal', 'torchmetrics' or 'netcal'.")
    if convention == "torchmetrics":
        return _as_torchmetrics(preds, bins)
    if convention == "netcal":
        return _as_netcal(preds, bins)
    stats = sample_statistics(preds)
    return equal_width_sums(stats.confidence, stats.correct, bins, stats.weight)


def _as_torchmetrics(preds: Predictions, bins: int) -> BinSums:
    stats = sample_statistics(preds)
    rounded = stats.confidence.float().double()
    lower_edges = torch.linspace(0, 1, bins + 1, dtype=torch.float32).double()
    return _closed_below(ConfidenceSamples(rounded, stats.correct, stats.weight), lower_edges)


def _as_netcal(preds: Predictions, bins: int) -> BinSums:
    preds = measured(preds)
    if preds.num_classes == 2:
        confidence, correct = preds.probs()[:, 1].double(), preds.hard_labels == 1
    else:
        stats = sample_statistics(preds)
        confidence, correct = stats.confidence, stats.correct
    # It moves 0 and 1 inwards by the epsilon of the type.
    epsilon = torch.finfo(torch.float64).eps
    samples = ConfidenceSamples(confidence.clamp(epsilon, 1 - epsilon), correct, preds.weights)
    return _closed_below(samples, torch.from_numpy(np.linspace(0, 1, bins + 1)[:-1]))


def _closed_below(samples: ConfidenceSamples, lower_edges: Tensor) -> BinSums:
    index = torch.bucketize(samples.confidence, lower_edges, right=True) - 1
    return bin_sums(index, len(lower_edges), samples.confidence, samples.correct, samples.weight)
