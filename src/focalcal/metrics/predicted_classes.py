"""Calibration by predicted class: how sure the model is where it says "cat", and how often it is one.

Conditioned on the *label* a perfectly calibrated model has gaps: samples of a rare class are mostly taken for others,
with the confidence that those deserve. Conditioned on the predicted class it has none, but for chance. Whether chance
explains a gap is tested class by class, and the p-values are corrected for the number of classes by Holm's method.
Where samples of a cluster depend on each other, a class has as many independent samples as know its accuracy as well.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import betainc
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions
from focalcal.metrics.binning import sum_by_index
from focalcal.metrics.bootstrap.differences import holm
from focalcal.metrics.bootstrap.intervals import check_resampling
from focalcal.metrics.bootstrap.sample_groups import GROUPS
from focalcal.metrics.cluster_units import units_of_sums
from focalcal.metrics.clusters import FEW_CLUSTERS, cluster_numbers
from focalcal.metrics.evaluation import SIGNIFICANT
from focalcal.metrics.gap_intervals import exact_bounds
from focalcal.metrics.samples import ConfidenceSamples, SampleStatistics, block_statistics, confidence_samples
from focalcal.predictions import Predictions
from focalcal.predictions.groups import PREDICTED

Array = npt.NDArray[np.float64]

# The largest table of clusters by classes, in numbers.
_MOST_SUMS = 2**22


@dataclass(frozen=True)
class PredictedClasses:
    """One row per class, of the samples that are predicted to be of it; (K,) float64 each, NaN where there are none.

    Attributes:
        count: Number of samples, or their weight.
        accuracy: Share of them that is right.
        confidence: Their mean confidence.
        low: Lower end of the interval of confidence − accuracy.
        high: Upper end.
        adjusted_p_value: P-value of "calibrated on average in this class", after Holm's correction over all classes.
    """

    count: Array
    accuracy: Array
    confidence: Array
    low: Array
    high: Array
    adjusted_p_value: Array

    @property
    def gap(self) -> Array:
        """Confidence − accuracy."""
        return self.confidence - self.accuracy

    @property
    def significant(self) -> npt.NDArray[np.bool_]:
        """(K,) where chance does not explain the gap."""
        return self.adjusted_p_value <= SIGNIFICANT


class PredictedClassSums:
    """Sums over samples by predicted class; those of parts of the data add up.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        self._sums = torch.zeros(5, num_classes, dtype=torch.float64)
        self._dependent = False
        # Clusters are dealt as wholes into groups by their number; of very many classes into fewer.
        self._groups = max(min(GROUPS, _MOST_SUMS // num_classes), FEW_CLUSTERS)
        self._of_groups: Tensor | None = None

    def add(self, stats: SampleStatistics, probs: Tensor, clusters: Tensor | None = None) -> None:
        """Add samples with their (N, K) probabilities, and the number of each one's cluster."""
        sure = probs.gather(1, stats.prediction[:, None])[:, 0]
        self._add(stats.prediction, sure, stats.right, stats.mass, clusters)

    def add_answers(self, named: Tensor, answers: ConfidenceSamples, clusters: Tensor | None = None) -> None:
        """Add answers, each of which named a class (N,)."""
        self._add(named, answers.confidence, answers.correct, answers.mass, clusters)

    def _add(self, prediction: Tensor, sure: Tensor, right: Tensor, w: Tensor, clusters: Tensor | None) -> None:
        terms = (w, w * sure, w * right, w.square(), w.square() * sure * (1 - sure))
        for row, term in zip(self._sums, terms, strict=True):
            row += sum_by_index(prediction, len(row), term)
        if clusters is None:
            return
        self._dependent |= len(torch.unique(clusters)) < len(clusters)
        size = self._groups * self._sums.shape[1]
        if self._of_groups is None:
            self._of_groups = torch.zeros(3, size, dtype=torch.float64)
        place = clusters % self._groups * self._sums.shape[1] + prediction
        for row, term in zip(self._of_groups, terms, strict=False):
            row += sum_by_index(place, size, term)

    def classes(self, level: float = 0.90) -> PredictedClasses:
        """Return the table."""
        count, sure, right, squares, chance = self._sums.numpy()
        held = count > 0
        safe = np.where(held, count, 1.0)
        confidence, accuracy = (np.where(held, part / safe, np.nan) for part in (sure, right))
        low, high, p_value = (np.full(len(count), np.nan) for _ in range(3))
        effective = self._effective()[held]
        ends = exact_bounds(accuracy[held], effective, (1 - level) / 2)
        low[held], high[held] = confidence[held] - ends[1], confidence[held] - ends[0]
        gap = confidence[held] - accuracy[held]
        p_value[held] = holm(_p_values(gap, confidence[held], chance[held] / squares[held], effective).tolist())
        return PredictedClasses(count.copy(), accuracy, confidence, low, high, p_value)

    def _effective(self) -> Array:
        """Return the number of independent samples of each class, (K,)."""
        count, _, _, squares, _ = self._sums.numpy()
        samples: Array = np.divide(count**2, squares, out=np.zeros_like(count), where=squares > 0)
        if self._of_groups is None or not self._dependent:
            return samples
        mass, sure, right = self._of_groups.numpy().reshape(3, self._groups, -1)
        lumps = units_of_sums(mass, sure / np.where(mass > 0, mass, 1), sure - right).lumps()
        known = np.divide(count, lumps, out=samples.copy(), where=lumps > 0)
        effective: Array = np.minimum(known, samples)
        return effective


def _p_values(gap: Array, confidence: Array, variance: Array, effective: Array) -> Array:
    """Return two-sided p-values of gaps, by a binomial number of the rarer answers that has the right variance."""
    variance = np.clip(variance, 0, 0.25)
    p = 2 * variance / (1 + np.sqrt(1 - 4 * variance))
    # Wrong answers are rarer where confidence is above one half, and more than expected where it is too high.
    rarer = effective * np.clip(p + np.where(confidence >= 0.5, gap, -gap), 0, 1)
    at_least = _tail(rarer - 1e-9, effective, p)
    at_most = 1 - _tail(rarer + 1 + 1e-9, effective, p)
    return np.asarray(np.minimum(2 * np.minimum(at_least, at_most), 1.0))


def _tail(k: Array, n: Array, p: Array) -> Array:
    """Return P(X ≥ k) for X ~ Binomial(n, p), between whole numbers too."""
    inside = (k > 0) & (k <= n)
    found = betainc(np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0), p)
    return np.asarray(np.where(inside, found, np.where(k <= 0, 1.0, 0.0)))


def calibration_by_class(preds: Predictions, *, level: float = 0.90) -> PredictedClasses:
    """Compute confidence and accuracy by predicted class, with intervals and p-values.

    Of pairs of confidence and correct, the classes are those that the answers named, in the order of
    ``preds.groups["predicted"].names``.

    Args:
        preds: Predictions with labels.
        level: Level of the intervals, which are those of single classes.

    Examples:
        >>> probs = torch.tensor([[0.75, 0.25]]).repeat(400, 1)
        >>> found = calibration_by_class(Predictions.from_probs(probs, torch.arange(400) % 2))  # right in half
        >>> found.gap[0].item(), found.significant.tolist()
        (0.25, [True, False])
    """
    check_resampling(1, level)
    preds = prepare_predictions(preds)
    clusters = cluster_numbers(preds)
    if has_named_classes(preds):
        named = preds.groups[PREDICTED]
        answers = PredictedClassSums(len(named.names))
        answers.add_answers(named.codes, confidence_samples(preds), clusters)
        return answers.classes(level)
    sums, start = PredictedClassSums(preds.num_classes), 0
    for stats, probs in block_statistics(preds):
        sums.add(stats, probs, None if clusters is None else clusters[start : start + len(stats)])
        start += len(stats)
    return sums.classes(level)


def has_named_classes(preds: Predictions) -> bool:
    """Return whether these are pairs of confidence and correct of which it is known which class each answer named."""
    return preds.of == "confidence" and PREDICTED in preds.groups
