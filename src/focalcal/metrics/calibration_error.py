"""ECE and MCE: how far confidence is from accuracy in bins of equal width; and how other libraries draw the bins.

- ``"focalcal"``: bins (lower, upper] with the doubles i/M as edges; 0 in the first, 1 in the last.
- ``"torchmetrics"`` (its multiclass metric): confidence rounded to float32 and bins [lower, upper) with float32 edges;
  1.0 stands in a bin of its own, the (M + 1)th. Its float32 counters are not reproduced: where they stop counting, the
  values differ.
- ``"netcal"``, given float64: bins [lower, upper), the last one closed, with the edges of ``numpy.linspace``. With two
  classes it bins the probability of class 1, and the frequency of class 1 takes the place of accuracy. (Given float32,
  netcal counts with float64 edges and averages with float32 edges; that is not reproduced.)
"""

from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions, takes_predictions
from focalcal.metrics.binning import BinSums, bin_sums, check_bins, equal_width_sums, largest_gap, mean_gap
from focalcal.metrics.samples import ConfidenceSamples, block_probabilities, confidence_samples
from focalcal.metrics.sums import Measurable, Sums, get_sums
from focalcal.predictions import Predictions

Convention = Literal["focalcal", "torchmetrics", "netcal"]


@takes_predictions
def ece(preds: Measurable, *, bins: int = 15, convention: Convention = "focalcal") -> float:
    """Expected calibration error, Σ_m (n_m / n) |accuracy_m − confidence_m|, over M bins of equal width.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.
        convention: Which bin a value on an edge belongs to; ``"torchmetrics"`` and ``"netcal"`` give those libraries'
            values.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.875, 0.125], [0.625, 0.375], [0.25, 0.75]], [0, 0, 1, 1])
        >>> ece(preds, bins=2), ece(preds, bins=4)
        (0.0, 0.0625)
    """
    return mean_gap(bins_by_convention(preds, bins=bins, convention=convention))


@takes_predictions
def mce(preds: Measurable, *, bins: int = 15, convention: Convention = "focalcal") -> float:
    """Maximum calibration error, max_m |accuracy_m − confidence_m|, over the bins that hold samples.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M, of equal width.
        convention: As for `ece`.

    Examples:
        >>> mce(Predictions.from_probs([[0.75, 0.25], [0.625, 0.375], [1.0, 0.0]], [0, 1, 0]), bins=4)
        0.1875
    """
    return largest_gap(bins_by_convention(preds, bins=bins, convention=convention))


def bins_by_convention(preds: Measurable, *, bins: int = 15, convention: Convention = "focalcal") -> BinSums:
    """Sum over bins of equal width of confidence, as ``convention`` draws them.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.
        convention: ``"focalcal"``, ``"torchmetrics"`` or ``"netcal"``.

    Returns:
        Sums of shape (M,), or (M + 1,) for torchmetrics.

    Examples:
        >>> preds = Predictions.from_probs([[0.5, 0.5], [1.0, 0.0]], [0, 0])
        >>> bins_by_convention(preds, bins=2).count.tolist()
        [1, 1]
        >>> bins_by_convention(preds, bins=2, convention="torchmetrics").count.tolist()
        [0, 1, 1]
    """
    if isinstance(preds, Sums):
        return cast(BinSums, get_sums(preds, "bins"))
    check_bins(bins)
    if convention not in get_args(Convention):
        raise ValueError(f"convention is {convention!r}; it must be 'focalcal', 'torchmetrics' or 'netcal'.")
    if convention == "netcal":
        return _as_netcal(prepare_predictions(preds), bins)
    samples = confidence_samples(preds)
    if convention == "torchmetrics":
        return _as_torchmetrics(samples, bins)
    return equal_width_sums(samples.confidence, samples.correct, bins, samples.weight)


def _as_torchmetrics(samples: ConfidenceSamples, bins: int) -> BinSums:
    rounded = samples.confidence.float().double()
    lower_edges = torch.linspace(0, 1, bins + 1, dtype=torch.float32).double()
    return _closed_below(ConfidenceSamples(rounded, samples.correct, samples.weight), lower_edges)


def _as_netcal(preds: Predictions, bins: int) -> BinSums:
    if preds.num_classes == 2:
        confidence = torch.cat([probs[:, 1].clone() for _, probs in block_probabilities(preds)])
        correct = preds.hard_labels == 1
    else:
        samples = confidence_samples(preds)
        confidence, correct = samples.confidence, samples.correct
    # It moves 0 and 1 inwards by the epsilon of the type.
    epsilon = torch.finfo(torch.float64).eps
    moved = ConfidenceSamples(confidence.clamp(epsilon, 1 - epsilon), correct, preds.weights)
    return _closed_below(moved, torch.from_numpy(np.linspace(0, 1, bins + 1)[:-1]))


def _closed_below(samples: ConfidenceSamples, lower_edges: Tensor) -> BinSums:
    index = torch.bucketize(samples.confidence, lower_edges, right=True) - 1
    return bin_sums(index, len(lower_edges), samples.confidence, samples.correct, samples.weight)
