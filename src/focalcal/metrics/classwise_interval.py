"""The honest interval of classwise-ECE, from two passes over the outputs.

As for ECE (see `focalcal.metrics.gap_intervals`), with the K · M bins of all classes' probabilities. A sample lies in K
of them at once, so that its share in a linear function is Σ_k v_kb (p_k − [label = k]) / K, which a second pass adds up
for every sample: with many classes almost all probabilities lie in the first bin, whose part is one matrix product.

What a perfectly calibrated model would show is drawn with the covariances of classes where there are at most 600 bins
in all (of at most 4,096 rows, spread over the data); beyond that the bins are so many, and a class's share in the noise
of another so small, that a sum of independent terms is as good, and its quantile that of a normal distribution.
"""

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import bin_index
from focalcal.metrics.classwise import ClassSums, beyond_first_bin
from focalcal.metrics.gap_intervals import Interval, signs, z_score
from focalcal.metrics.independent_units import FOLDS, sum_at
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


class ClasswiseInterval:
    """The interval of classwise-ECE, at any level from the same two passes.

    Args:
        preds: What the sums were made of: without masked classes, weights scaled.
        sums: Of the first pass.
        clusters: (N,) number of the cluster of each sample; None where samples are independent.
        seed: Seed for the draws.
    """

    def __init__(
        self, preds: Predictions, sums: FoldedClassSums, clusters: Tensor | None = None, seed: int = 0
    ) -> None:
        self._preds, self._seed = preds, seed
        self._gaps, self._noise = sums.gaps(), sums.noise()
        self._weight = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        self._total = float(self._weight.sum())
        self._unit = np.arange(len(preds)) if clusters is None else clusters.numpy()
        self._mass = sum_at(self._unit, self._weight.numpy(), int(self._unit.max()) + 1)
        self.estimate = float(np.abs(self._gaps.sum(0)).sum()) / self._total / preds.num_classes

    def at(self, level: float) -> Interval:
        """Return the ends at a level."""
        high = self.estimate + self._bound(self._shares[1], level)[1]
        if self.estimate <= self._chance_quantile((1 + level) / 2):
            return 0.0, high
        mean, allowance = self._bound(self._shares[0], level)
        return min(max(mean - allowance, 0.0), self.estimate), high

    @cached_property
    def _shares(self) -> Array:
        """What each sample adds, (2, N): in the direction that the other folds choose, and in that of the estimate."""
        others, spread = self._gaps.sum(0) - self._gaps, self._noise.sum(0) - self._noise
        lower = np.clip(np.divide(others, np.sqrt(spread), out=np.zeros_like(others), where=spread > 0), -1, 1)
        directions = np.concatenate([lower, signs(self._gaps.sum(0, keepdims=True))])
        return sample_shares(self._preds, directions) / self._preds.num_classes

    def _bound(self, share: Array, level: float) -> tuple[float, float]:
        """Return the mean of shares, and what is to be allowed for its error."""
        parts = sum_at(self._unit, self._weight.numpy() * share, len(self._mass))
        mean = float(parts.sum()) / self._total
        error = math.sqrt(float(((parts - mean * self._mass) ** 2).sum())) / self._total
        # What one sample adds is at most 2/K here, where it is at most 1 for ECE.
        margin = 2 / self._preds.num_classes * float((self._mass**2).sum()) / self._total**2
        return mean, z_score(level) * error + z_score(level) ** 2 * margin

    def _chance_quantile(self, probability: float) -> float:
        """Return a quantile of the classwise-ECE that a perfectly calibrated model would show."""
        bins, classes = self._gaps.shape[1:]
        if bins * classes <= _MOST_COVARIANCES:
            return float(np.quantile(self._chance, probability))
        # Sums of squared weights where those are of weights.
        heavier = float(self._weight.square().sum()) / self._total
        sizes = np.sqrt(self._noise.sum(0) * heavier) / self._total / classes
        mean, deviation = sizes.sum() * math.sqrt(2 / math.pi), math.sqrt(float((sizes**2).sum()) * (1 - 2 / math.pi))
        return float(mean + z_score(2 * probability - 1) * deviation)

    @cached_property
    def _chance(self) -> Array:
        """Draws of the classwise-ECE that a perfectly calibrated model would show."""
        drawn = _draw_noise(self._preds, self._weight, self._gaps.shape[1], self._seed)
        return np.asarray(np.abs(drawn / self._total / self._preds.num_classes).sum(0))


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
