"""Binned calibration errors: how far confidence is from accuracy, in bins of equal width or equal mass, or by class."""

import torch

from focalcal.metrics.binning import BinSums, equal_mass_sums
from focalcal.metrics.class_table import ClassSums, ClassTable
from focalcal.metrics.conventions import Convention, bins_by_convention
from focalcal.metrics.statistics import block_statistics, measured, sample_statistics
from focalcal.predictions import Predictions


def ece(preds: Predictions, bins: int = 15, convention: Convention = "focalcal") -> float:
    """Expected calibration error, Σ_m (n_m / n) |accuracy_m − confidence_m|, over M bins of equal width.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins M.
        convention: which bin a value on an edge belongs to; ``"torchmetrics"`` and ``"netcal"`` give those libraries'
            values.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.875, 0.125], [0.625, 0.375], [0.25, 0.75]], [0, 0, 1, 1])
        >>> ece(preds, bins=2), ece(preds, bins=4)
        (0.0, 0.0625)
    """
    return mean_gap(bins_by_convention(preds, bins, convention))


def mce(preds: Predictions, bins: int = 15, convention: Convention = "focalcal") -> float:
    """Maximum calibration error, max_m |accuracy_m − confidence_m|, over the bins that hold samples.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins M, of equal width.
        convention: as for `ece`.

    Examples:
        >>> mce(Predictions.from_probs([[0.75, 0.25], [0.625, 0.375], [1.0, 0.0]], [0, 1, 0]), bins=4)
        0.1875
    """
    return largest_gap(bins_by_convention(preds, bins, convention))


def ada_ece(preds: Predictions, bins: int = 15) -> float:
    """Adaptive ECE: Σ_m (n_m / n) |accuracy_m − confidence_m| over M bins of equal mass.

    The samples are sorted by confidence, stably, and cut as ``numpy.array_split`` cuts: sizes differ by at most one,
    ties go by position. Fewer samples than bins leave bins empty. With weights the cuts lie at the same fractions of
    the total weight, and a sample on a cut is shared by both bins in proportion.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins M.

    Examples:
        >>> ada_ece(Predictions.from_probs([[0.75, 0.25], [0.625, 0.375], [1.0, 0.0]], [0, 1, 0]), bins=2)
        0.125
    """
    stats = sample_statistics(preds)
    return mean_gap(equal_mass_sums(stats.confidence, stats.correct, bins, stats.weight))


def classwise_ece(preds: Predictions, bins: int = 15) -> float:
    """Classwise ECE: (1/K) Σ_k Σ_m (n_km / n) |frequency_km − confidence_km|, over M bins of equal width of each p_k.

    K is the number of outputs: a class that no label names counts like any other.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins M.

    Examples:
        >>> classwise_ece(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]), bins=2)
        0.25
    """
    return class_table(preds, bins).classwise_ece


def class_table(preds: Predictions, bins: int = 15) -> ClassTable:
    """Counts, confidence and labels by class and bin, (K, bins) each: the reliability diagrams of all classes.

    Args:
        preds: N predictions of K classes.
        bins: the number of bins, of equal width.

    Examples:
        >>> class_table(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]), bins=2).label.tolist()
        [[0, 1], [1, 0]]
    """
    preds = measured(preds)
    sums = ClassSums.zeros(preds.num_classes, bins, weighted=preds.weights is not None)
    spare = None
    for stats, probs in block_statistics(preds):
        spare = torch.empty(probs.shape, dtype=torch.float64) if spare is None else spare
        sums.add(probs, stats.label, stats.weight, spare)
    return sums.table()


def mean_gap(sums: BinSums) -> float:
    """Σ_m |confidence − correct| / Σ count: ECE of equal-width bins, AdaECE of equal-mass bins."""
    return float(sums.gap.abs().sum() / sums.count.sum())


def largest_gap(sums: BinSums) -> float:
    """max_m |confidence − correct| / count over the bins that are not empty; NaN if all are."""
    filled = sums.count > 0
    gaps = sums.gap[filled].abs() / sums.count[filled]
    return float(gaps.max()) if len(gaps) else float("nan")
