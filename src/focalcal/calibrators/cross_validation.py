"""Cross-validation of calibrators by log-loss on the samples that each fit has not seen."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from focalcal.calibrators.base import Calibrator, NoOptimumWarning
from focalcal.metrics.clusters import cluster_numbers
from focalcal.predictions import Predictions

Build = Callable[[], Calibrator]


def without_weight_zero(preds: Predictions) -> Predictions:
    """Leave out samples that do not count: a fold should not consist of them."""
    return preds if preds.weights is None else preds.select(preds.weights > 0)


def draw_folds(preds: Predictions, folds: int, seed: int) -> Tensor:
    """Return (N,) int64: a fold for each sample, with about the same number of each class in every fold.

    Samples of one cluster depend on each other: they stay in one fold, unless all are of one cluster.

    Args:
        preds: Validation predictions.
        folds: Number of folds; at most as many as there are samples.
        seed: Seed for the order in which the samples of a class, or clusters, are dealt out.
    """
    generator = torch.Generator().manual_seed(seed)
    clusters = cluster_numbers(preds)
    if clusters is not None and (number := int(clusters.max()) + 1) > 1:
        return (torch.randperm(number, generator=generator) % min(folds, number))[clusters]
    order = torch.randperm(len(preds), generator=generator)
    dealt = order[torch.argsort(preds.hard_labels[order], stable=True)]
    numbers = torch.empty(len(preds), dtype=torch.int64)
    numbers[dealt] = torch.arange(len(preds)) % min(folds, len(preds))
    return numbers


class HeldOut(NamedTuple):
    """Log-probabilities (N, K) of samples that the calibrator was not fitted on.

    Attributes:
        log_probs: Each sample's from a fit on the other folds, float64.
        bounded: False where a fit had no finite optimum.
    """

    log_probs: Tensor
    bounded: bool


def predict_held_out(build: Build, preds: Predictions, folds: Tensor) -> HeldOut:
    """Calibrate each fold by a fit on the others.

    Warnings of the fits are not shown: the fit on all samples gives those that matter.

    Args:
        build: Makes an unfitted calibrator.
        preds: Validation predictions.
        folds: The fold of each sample, (N,).
    """
    found, bounded = torch.empty(preds.values.shape, dtype=torch.float64), True
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            calibrator = build()
            calibrator._learn(preds.select(~held_out))
        bounded &= not any(issubclass(warning.category, NoOptimumWarning) for warning in caught)
        found[held_out] = float64_log_probs(calibrator._apply(preds.select(held_out)))
    return HeldOut(found, bounded)


def float64_log_probs(preds: Predictions) -> Tensor:
    """Return (N, K) float64; −inf where a probability is 0."""
    values = preds.values.double()
    return values.log_softmax(1) if preds.kind == "logits" else values.log()


def log_losses(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return (N,) the negative log-likelihood of each label, averaged over classes where labels are soft."""
    if labels.ndim == 1:
        return -log_probs.gather(1, labels[:, None])[:, 0]
    return -(labels * log_probs.masked_fill(labels == 0, 0.0)).sum(1)


def mean_and_error(values: Tensor, weights: Tensor | None, clusters: Tensor | None = None) -> tuple[float, float]:
    """Compute the weighted mean of (N,) values and its standard error, from sums of clusters (N,) where there are any.

    Examples:
        >>> mean_and_error(torch.tensor([1.0, 3.0], dtype=torch.float64), None)
        (2.0, 1.0)
        >>> mean_and_error(torch.tensor([1.0, 1.0, 3.0, 3.0], dtype=torch.float64), None, torch.tensor([0, 0, 1, 1]))
        (2.0, 1.0)
    """
    shares = torch.ones_like(values) if weights is None else weights.double() / weights.max()
    shares = shares / shares.sum()
    counted = shares > 0
    values, shares = values[counted], shares[counted]
    mean = float(shares @ values)
    parts = shares * (values - mean)
    if clusters is not None:
        unit = torch.unique(clusters[counted], return_inverse=True)[1]
        parts, shares = (torch.bincount(unit, part) for part in (parts, shares))
    spread = float(parts.square().sum())
    # Bessel's correction, for samples that do not all count the same.
    return mean, (spread / max(1.0 - float(shares.square().sum()), 1e-12)) ** 0.5
