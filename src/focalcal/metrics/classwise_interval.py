"""The honest interval of classwise-ECE.

As for ECE (see `focalcal.metrics.gap_intervals`), with the K · M bins of all classes' probabilities. A sample lies in K
of them at once, so that its share in a linear function is Σ_k v_kb (p_k − [label = k]) / K. Where the data is at hand,
a second pass adds that up for every sample, or for every s-th of more than 32,768 independent ones, to know its spread:
with many classes almost all probabilities lie in the first bin, whose part is one matrix product. Of a stream, the size
of a share is bounded: Σ_k |p_k − [label = k]| = 2 (1 − p_label).

What a perfectly calibrated model would show is drawn with the covariances of classes where the data is at hand and
there are at most 600 bins in all (of at most 4,096 rows, spread over the data). Otherwise its quantile is that of a
normal distribution, with a bound on its variance: in a calibrated model the gaps of two bins have a covariance of at
most 0, and over all other bins these add up to minus the variance of a bin. The correlation of the sizes of two normal
numbers is at most the size of their own, so that the sizes of all gaps have in sum at most twice the variance that they
would have if they were independent.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import bin_index
from focalcal.metrics.bootstrap.interval_methods import UNKNOWN
from focalcal.metrics.classwise import ClassSums, ClassTable, beyond_first_bin
from focalcal.metrics.gap_intervals import Interval, signs, z_score
from focalcal.metrics.independent_units import FOLDS, other_folds, sum_at
from focalcal.metrics.samples import block_probabilities
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

_MOST_COVARIANCES, _ROWS_OF_COVARIANCE, _DRAWS = 600, 4096, 1000
# The spread of this many independent samples is known to about 1%.
_ROWS_OF_VARIANCE = 2**14


class FoldedClassSums:
    """Sums by class and bin, one per fold of the rows.

    Args:
        num_classes: K.
        bins: M.
        weighted: Whether samples come with weights.
        clusters: (N,) number of the cluster of every row that will come, by which folds go instead of by row; or None.
    """

    def __init__(self, num_classes: int, bins: int, weighted: bool, clusters: Tensor | None = None) -> None:
        shape = FOLDS, bins, num_classes
        counts = torch.zeros(2, *shape, dtype=torch.float64 if weighted else torch.int64)
        confidence, totals = torch.zeros(shape, dtype=torch.float64), torch.zeros(FOLDS, num_classes).double()
        self._sums = ClassSums(counts[0], counts[1], confidence, totals)
        self._rows, self._clusters = 0, clusters

    @property
    def folds(self) -> list[ClassSums]:
        """The sums of each fold."""
        sums = self._sums
        parts = zip(sums.count, sums.label, sums.confidence, sums.totals, strict=True)
        return [ClassSums(*each) for each in parts]

    def add(self, probs: Tensor, label: Tensor, weight: Tensor | None) -> None:
        """Add the next rows of the data."""
        end = self._rows + len(probs)
        unit = torch.arange(self._rows, end) if self._clusters is None else self._clusters[self._rows : end]
        self._sums.add(probs, label, weight, unit % FOLDS)
        self._rows = end

    def total(self) -> ClassSums:
        """Return the sums over all folds."""
        return join_class_sums(self.folds)

    def gaps(self) -> "ClassGapFolds":
        """Return what an interval is made of."""
        return ClassGapFolds.of([fold.table() for fold in self.folds])


def join_class_sums(parts: list[ClassSums]) -> ClassSums:
    """Add up the sums of parts of the data."""
    names = ("count", "label", "confidence", "totals")
    return ClassSums(*(torch.stack([getattr(part, name) for part in parts]).sum(0) for name in names))


class ClassGapFolds(NamedTuple):
    """Sums per fold, bin and class, (F, M, K) each.

    Attributes:
        gap: Σ w (p − label).
        noise: About the variance of that sum in a calibrated model, where weights are 1.
        mass: The whole mass.
    """

    gap: Array
    noise: Array
    mass: float

    @classmethod
    def of(cls, tables: list[ClassTable]) -> "ClassGapFolds":
        """Take the sums of folds."""
        gap, noise = [], []
        for table in tables:
            count, sure = table.count.double().T.numpy(), table.confidence.T.numpy()
            gap.append(sure - table.label.double().T.numpy())
            noise.append(sure * (1 - np.divide(sure, count, out=np.zeros_like(sure), where=count > 0)))
        return cls(np.stack(gap), np.stack(noise), float(sum(table.label.sum() for table in tables)))

    @property
    def estimate(self) -> float:
        """The classwise-ECE."""
        return float(np.abs(self.gap.sum(0)).sum() / self.mass / self.gap.shape[-1])

    def upper_direction(self) -> Array:
        """Return the signs of the gaps: (1, M, K)."""
        return signs(self.gap.sum(0, keepdims=True) / self.mass)

    def lower_directions(self) -> Array:
        """Choose a direction for each fold from the other ones: (F, M, K)."""
        others, spread = other_folds(self.gap), np.sqrt(np.maximum(other_folds(self.noise), 0))
        return np.clip(np.divide(others, spread, out=np.zeros_like(others), where=spread > 0), -1, 1)

    def chance_quantile(self, probability: float, heavier: float) -> float:
        """Bound the quantile of the classwise-ECE of a perfectly calibrated model, as said at the top of this module.

        Args:
            probability: Probability of the quantile.
            heavier: Σw² / Σw.
        """
        sizes = np.sqrt(np.maximum(self.noise.sum(0), 0) * heavier) / self.mass / self.gap.shape[-1]
        deviation = math.sqrt(2 * float((sizes**2).sum()) * (1 - 2 / math.pi))
        return float(sizes.sum() * math.sqrt(2 / math.pi) + z_score(2 * probability - 1) * deviation)


def streamed_classwise_interval(sums: ClassGapFolds, doubt: float, squares: float, level: float) -> Interval:
    """Return the interval of classwise-ECE of a stream: as below, with a bound on the standard errors.

    Args:
        sums: Per fold.
        doubt: Σ w² (1 − p_label)².
        squares: Σ w².
        level: Level of the interval.
    """
    classes, total = sums.gap.shape[-1], sums.mass
    if total**2 <= squares * (1 + 1e-9):
        return UNKNOWN
    z, estimate = z_score(level), sums.estimate
    allowance = 2 / classes * (z * math.sqrt(doubt) / total + z**2 * squares / total**2)
    if estimate <= sums.chance_quantile((1 + level) / 2, squares / total):
        return 0.0, min(estimate + allowance, 1.0)
    mean = float((sums.lower_directions() * sums.gap).sum()) / total / classes
    return min(max(mean - allowance, 0.0), estimate), min(estimate + allowance, 1.0)


class ClasswiseInterval:
    """The interval of classwise-ECE, at any level from the same two passes.

    Args:
        preds: The predictions that the sums were made of, without masked classes, weights scaled.
        sums: Sums of the first pass.
        lump: The size in which errors come, see `focalcal.metrics.independent_units.Units`.
        clusters: (N,) number of the cluster of each sample; None where samples are independent.
        seed: Seed for the draws.
    """

    def __init__(
        self, preds: Predictions, sums: ClassGapFolds, lump: float, clusters: Tensor | None = None, seed: int = 0
    ) -> None:
        self._preds, self._sums, self._lump, self._clusters, self._seed = preds, sums, lump, clusters, seed
        self._weight = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        self._unit = np.arange(len(preds)) if clusters is None else clusters.numpy()
        self._mass = sum_at(self._unit, self._weight.numpy(), int(self._unit.max()) + 1)
        self.estimate = sums.estimate

    def at(self, level: float) -> Interval:
        """Return the ends at a level; NaN where one unit is all there is."""
        # Rounding may put the effective number of one weighted sample a hair above 1.
        if self._sums.mass**2 <= float((self._mass**2).sum()) * (1 + 1e-9):
            return UNKNOWN
        high = min(self.estimate + self._allowance(self._shares[1], level), 1.0)
        # How samples of a cluster depend on each other, by chance too, is not known.
        if self._clusters is None and self.estimate <= self._chance_quantile((1 + level) / 2):
            return 0.0, high
        allowance = self._allowance(self._shares[0], level)
        mean = float((self._directions[:-1] * self._sums.gap).sum()) / self._sums.mass / self._preds.num_classes
        return min(max(mean - allowance, 0.0), self.estimate), high

    @cached_property
    def _rows(self) -> slice:
        """The rows that standard errors are known from: all, or evenly spread ones of very many independent ones."""
        if self._clusters is not None or self._preds.weights is not None:
            return slice(None)
        stride = max(len(self._preds) // _ROWS_OF_VARIANCE, 1)
        # Of every fold as many.
        return slice(None, None, stride + (stride % FOLDS == 0))

    @cached_property
    def _directions(self) -> Array:
        """The direction that the other folds choose, for each fold, and that of the estimate: (F + 1, M, K)."""
        return np.concatenate([self._sums.lower_directions(), self._sums.upper_direction()])

    @cached_property
    def _shares(self) -> Array:
        """Sums of each sample, (2, N): in the direction that the other folds choose, and in that of the estimate."""
        preds, rows = self._preds, self._rows
        chosen = preds if rows.step in (None, 1) else preds.select(torch.arange(len(preds))[rows])
        return sample_shares(chosen, self._directions, self._unit[rows] % FOLDS) / preds.num_classes

    def _allowance(self, share: Array, level: float) -> float:
        """Return what is to be allowed for the error of the mean of shares."""
        total = self._sums.mass
        z = z_score(level, math.inf if self._clusters is None else float((self._mass > 0).sum() - 1))
        rows, size = self._rows, len(self._mass)
        parts = sum_at(self._unit[rows], self._weight.numpy()[rows] * share, size)
        mass = sum_at(self._unit[rows], self._weight.numpy()[rows], size)
        mean = float(parts.sum() / mass.sum())
        # Where only some rows are looked at, they know the spread of all.
        error = math.sqrt(float(((parts - mean * mass) ** 2).sum()) / (mass.sum() * total))
        # What one sample adds is at most 2/K here, where it is at most 1 for ECE.
        return z * error + z**2 * 2 / self._preds.num_classes * self._lump

    def _chance_quantile(self, probability: float) -> float:
        """Return a quantile of the classwise-ECE that a perfectly calibrated model would show."""
        if self._sums.gap[0].size <= _MOST_COVARIANCES:
            return float(np.quantile(self._chance, probability))
        return self._sums.chance_quantile(probability, float(self._weight.square().sum()) / self._sums.mass)

    @cached_property
    def _chance(self) -> Array:
        """Draws of the classwise-ECE that a perfectly calibrated model would show."""
        drawn = _draw_noise(self._preds, self._weight, self._sums.gap.shape[1], self._seed)
        return np.asarray(np.abs(drawn / self._sums.mass / self._preds.num_classes).sum(0))


def sample_shares(preds: Predictions, directions: Array, fold: npt.NDArray[np.int64]) -> Array:
    """Return Σ_k v_kb (p_k − [label = k]) of every sample: (2, N), for the direction of its fold and for the last one.

    Args:
        preds: N predictions of K classes.
        directions: (F + 1, M, K).
        fold: (N,) the fold of each sample.
    """
    bins = directions.shape[1]
    v = torch.from_numpy(directions)
    found, start = torch.empty(2, len(preds), dtype=torch.float64), 0
    for block, probs in block_probabilities(preds):
        part = slice(start, start + len(block))
        row, column, p = beyond_first_bin(probs, bins)
        place = bin_index(p, bins)
        label = block.hard_labels
        place_of_label = bin_index(probs.gather(1, label[:, None])[:, 0], bins)
        first = v[:, 0] @ probs.T
        rows, own = torch.arange(len(block)), torch.from_numpy(fold[part])
        for which, chosen in enumerate((own, torch.full_like(own, FOLDS))):
            share = first[chosen, rows] - v[chosen, place_of_label, label]
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
        some = probs[rows].contiguous()
        p, heavy = some.numpy(), weight[start : start + len(block)][rows].numpy() ** 2
        place = bin_index(some, bins).numpy() * preds.num_classes + np.arange(preds.num_classes)
        spread = np.zeros((len(p), len(covariance)))
        np.put_along_axis(spread, place, p, axis=1)
        covariance -= (spread * heavy[:, None]).T @ spread
        covariance[np.diag_indices_from(covariance)] += heavy @ spread
        start += len(block)
    scale = float(weight.square().sum()) / max(float(weight[::step].square().sum()), 1e-300)
    size, axes = np.linalg.eigh(covariance * scale)
    draws = np.random.default_rng(seed).standard_normal((len(size), _DRAWS))
    return np.asarray((axes * np.sqrt(np.maximum(size, 0))) @ draws)
