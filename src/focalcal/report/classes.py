"""Classes of a model, in two views: by the class that is predicted, and by the label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, sum_by_index
from focalcal.metrics.classwise import ClassSums, ClassTable
from focalcal.metrics.predicted_classes import PredictedClasses, PredictedClassSums
from focalcal.metrics.samples import SampleStatistics


@dataclass(frozen=True)
class Classes:
    """One row per class; (K,) float64 each, NaN for a class without samples.

    Attributes:
        predicted: Confidence and accuracy of the samples that are predicted to be of the class.
        count: Samples with this label, or their weight.
        accuracy: Share of those whose prediction is right.
        confidence: Mean confidence of their predictions.
        classwise_ece: Σ_m |Σ p − Σ label| / N of the class's own probability; the mean over classes is classwise-ECE.
        table: Sums by class and bin of the class's own probability.
    """

    predicted: PredictedClasses
    count: Tensor
    accuracy: Tensor
    confidence: Tensor
    classwise_ece: Tensor
    table: ClassTable

    def bins(self, label: int) -> BinSums:
        """Return how often the class is the label, by the probability that it is given."""
        return BinSums(self.table.count[label], self.table.confidence[label], self.table.label[label])

    def largest_errors(self, limit: int) -> list[int]:
        """Find at most ``limit`` classes of the largest classwise calibration error, in the order of classes."""
        order = self.classwise_ece.argsort(descending=True, stable=True)[:limit]
        return sorted(order.tolist())


class ClassesSoFar:
    """Adds up blocks of samples.

    Args:
        num_classes: K.
        bins: Number of bins of each class's probability.
        weighted: True if the samples have weights.
    """

    def __init__(self, num_classes: int, bins: int, weighted: bool) -> None:
        self._by_bin = ClassSums.zeros(num_classes, bins, weighted)
        self._by_label = torch.zeros(3, num_classes, dtype=torch.float64)
        self._by_prediction = PredictedClassSums(num_classes)

    def add(self, stats: SampleStatistics, probs: Tensor, clusters: Tensor | None = None) -> None:
        """Add samples with their (N, K) probabilities, and the number of each one's cluster."""
        self._by_bin.add(probs, stats.label, stats.weight)
        self._by_prediction.add(stats, probs, clusters)
        weight = stats.mass
        for row, term in zip(self._by_label, (weight, weight * stats.correct, weight * stats.confidence), strict=True):
            row += sum_by_index(stats.label, len(row), term)

    def classes(self, level: float = 0.90) -> Classes:
        """Return the table of classes, with intervals and p-values."""
        count, right, confidence = self._by_label
        held = count.where(count > 0, torch.nan)
        table = self._by_bin.table()
        error = (table.confidence - table.label).abs().sum(1) / count.sum()
        predicted = self._by_prediction.classes(level)
        return Classes(predicted, count, right / held, confidence / held, error, table)


def distinct_names(names: Sequence[str]) -> list[str]:
    """Name classes for people: an empty one is called by its number, equal ones have theirs added.

    Examples:
        >>> distinct_names(["ant", "", "bee", "bee"])
        ['ant', '(class 1)', 'bee (2)', 'bee (3)']
    """
    often = Counter(names)
    return [
        f"(class {i})" if not name.strip() else f"{name} ({i})" if often[name] > 1 else name
        for i, name in enumerate(names)
    ]
