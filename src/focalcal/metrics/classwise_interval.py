"""The honest interval of classwise-ECE, from two passes over the outputs.

As for ECE (see `focalcal.metrics.gap_intervals`), with the K · M bins of all classes' probabilities. A sample lies in K
of them at once, so that its share in a linear function is Σ_k v_kb (p_k − [label = k]) / K, which a second pass adds up
for every sample: with many classes almost all probabilities lie in the first bin, whose part is one matrix product.

What a perfectly calibrated model would show is drawn with the covariances of classes where there are at most 600 bins
in all (of at most 4,096 rows, spread over the data); beyond that the bins are so many, and a class's share in the noise
of another so small, that a sum of independent terms is as good, and its quantile that of a normal distribution.
"""

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import bin_index
from focalcal.metrics.classwise import ClassSums, beyond_first_bin
from focalcal.metrics.gap_intervals import Interval, signs, z_score
from focalcal.metrics.independent_units import FOLDS, other_folds, sum_at
from focalcal.metrics.samples import block_probabilities
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

_MOST_COVARIANCES, _ROWS_OF_COVARIANCE, _DRAWS = 600, 4096, 1000


class FoldedClassSums:
    """Sums by class and bin, one per fold of the rows.

    Args:
        num_classes: K.
        bins: M.
        weighted: Whether samples come with weights.
    """

    def __init__(self, num_classes: int, bins: int, weighted: bool) -> None:
        self.folds = [ClassSums.zeros(num_classes, bins, weighted) for _ in range(FOLDS)]
        self._rows = 0

    def add(self, probs: Tensor, label: Tensor, weight: Tensor | None) -> None:
        """Add the next rows of the data."""
        for fold, sums in enumerate(self.folds):
            part = slice((fold - self._rows) % FOLDS, None, FOLDS)
            sums.add(probs[part], label[part], None if weight is None else weight[part])
        self._rows += len(probs)

    def total(self) -> ClassSums:
        """Return the sums over all folds."""
        names = ("count", "label", "confidence", "totals")
        return ClassSums(*(torch.stack([getattr(fold, name) for fold in self.folds]).sum(0) for name in names))

    def gaps(self) -> Array:
        """Return Σ w (p − label) per fold, bin and class: (F, M, K)."""
        tables = [fold.table() for fold in self.folds]
        return np.stack([(table.confidence - table.label.double()).T.numpy() for table in tables])

    def noise(self) -> Array:
        """Return about the variance of the gaps of a calibrated model, per fold, bin and class."""
        found = []
        for fold in self.folds:
            table = fold.table()
            count, sure = table.count.double().T.numpy(), table.confidence.T.numpy()
            found.append(sure * (1 - np.divide(sure, count, out=np.zeros_like(sure), where=count > 0)))
        return np.stack(found)


def classwise_interval(
    preds: Predictions, sums: FoldedClassSums, level: float, clusters: Tensor | None = None, seed: int = 0
) -> Interval:
    """Return the interval of classwise-ECE.

    Args:
        preds: What the sums were made of: without masked classes, weights scaled.
        sums: Of the first pass.
        level: Of the interval.
        clusters: (N,) number of the cluster of each sample; None where samples are independent.
        seed: Seed for the draws.
    """
    gaps, noise = sums.gaps(), sums.noise()
    weight = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
    total, bins, classes = float(weight.sum()), gaps.shape[1], gaps.shape[2]
    estimate = float(np.abs(gaps.sum(0)).sum()) / total / classes
    others, spread = other_folds(gaps), other_folds(noise)
    lower = np.clip(np.divide(others, np.sqrt(spread), out=np.zeros_like(others), where=spread > 0), -1, 1)
    shares = sample_shares(preds, np.concatenate([lower, signs(gaps.sum(0, keepdims=True) / total)])) / classes
    unit = np.arange(len(preds)) if clusters is None else clusters.numpy()
    units = int(unit.max()) + 1
    mass = sum_at(unit, weight.numpy(), units)
    # What one sample adds is at most 2/K here, where it is at most 1 for ECE.
    margin = 2 / classes * z_score(level) ** 2 * float((mass**2).sum()) / total**2

    def bound(share: Array) -> tuple[float, float]:
        parts = sum_at(unit, weight.numpy() * share, units)
        mean = float(parts.sum()) / total
        return mean, z_score(level) * math.sqrt(float(((parts - mean * mass) ** 2).sum())) / total + margin

    high = estimate + bound(shares[1])[1]
    if estimate <= _chance_quantile(preds, weight, noise.sum(0), (1 + level) / 2, bins, seed):
        return 0.0, high
    mean, allowance = bound(shares[0])
    return min(max(mean - allowance, 0.0), estimate), high


def sample_shares(preds: Predictions, directions: Array) -> Array:
    """Return Σ_k v_kb (p_k − [label = k]) of every sample: (2, N), for the direction of its fold and for the last one.

    Args:
        preds: N predictions of K classes.
        directions: (F + 1, M, K).
    """
    bins = directions.shape[1]
    v = torch.from_numpy(directions)
    found, start = torch.empty(2, len(preds), dtype=torch.float64), 0
    for block, probs in block_probabilities(preds):
        part = slice(start, start + len(block))
        fold = torch.arange(part.start, part.stop) % FOLDS
        row, column, p = beyond_first_bin(probs, bins)
        place = bin_index(p, bins)
        label = block.hard_labels
        place_of_label = bin_index(probs.gather(1, label[:, None])[:, 0], bins)
        first = probs @ v[:, 0].T
        rows = torch.arange(len(block))
        for which, chosen in enumerate((fold, torch.full_like(fold, FOLDS))):
            share = first[rows, chosen] - v[chosen, place_of_label, label]
            share.index_add_(0, row, (v[chosen[row], place, column] - v[chosen[row], 0, column]) * p)
            found[which, part] = share
        start = part.stop
    return found.numpy()


def _chance_quantile(
    preds: Predictions, weight: Tensor, noise: Array, probability: float, bins: int, seed: int
) -> float:
    """Return a quantile of the classwise-ECE that a perfectly calibrated model would show."""
    total, classes = float(weight.sum()), preds.num_classes
    # Sums of squared weights where those are of weights.
    heavier = float(weight.square().sum()) / total
    if bins * classes <= _MOST_COVARIANCES:
        drawn = _draw_noise(preds, weight, bins, seed) / total / classes
        return float(np.quantile(np.abs(drawn).sum(0), probability))
    sizes = np.sqrt(noise * heavier) / total / classes
    mean, deviation = sizes.sum() * math.sqrt(2 / math.pi), math.sqrt(float((sizes**2).sum()) * (1 - 2 / math.pi))
    return float(mean + z_score(2 * probability - 1) * deviation)


def _draw_noise(preds: Predictions, weight: Tensor, bins: int, seed: int) -> Array:
    """Draw the gaps of a perfectly calibrated model, (M · K, draws): labels drawn from each row's probabilities."""
    step = max(1, math.ceil(len(preds) / _ROWS_OF_COVARIANCE))
    covariance = np.zeros((bins * preds.num_classes,) * 2)
    start = 0
    for block, probs in block_probabilities(preds):
        rows = slice((-start) % step, None, step)
        p, heavy = probs[rows].numpy(), weight[start : start + len(block)][rows].numpy() ** 2
        place = bin_index(probs[rows], bins).numpy() * preds.num_classes + np.arange(preds.num_classes)
        spread = np.zeros((len(p), len(covariance)))
        np.put_along_axis(spread, place, p, axis=1)
        covariance -= (spread * heavy[:, None]).T @ spread
        covariance[np.diag_indices_from(covariance)] += heavy @ spread
        start += len(block)
    scale = float(weight.square().sum()) / max(float(weight[::step].square().sum()), 1e-300)
    size, axes = np.linalg.eigh(covariance * scale)
    draws = np.random.default_rng(seed).standard_normal((len(size), _DRAWS))
    return np.asarray((axes * np.sqrt(np.maximum(size, 0))) @ draws)
