"""How each class fares: how many samples it has, how often they are right, how sure the model is of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, sum_by_index
from focalcal.metrics.class_table import ClassSums, ClassTable
from focalcal.metrics.statistics import SampleStatistics


@dataclass(frozen=True)
class Classes:
    """A row a class; (K,) float64 each, NaN for a class without samples.

    Attributes:
        count: samples with this label, or their weight.
        accuracy: how often their prediction is right.
        confidence: mean confidence of their predictions.
        classwise_ece: Σ_m |Σ p − Σ label| / N of the class's own probability; the mean over classes is classwise-ECE.
        table: sums by class and bin of the class's own probability.
    """

    count: Tensor
    accuracy: Tensor
    confidence: Tensor
    classwise_ece: Tensor
    table: ClassTable

    @property
    def gap(self) -> Tensor:
        """Confidence − accuracy."""
        return self.confidence - self.accuracy

    def bins(self, label: int) -> BinSums:
        """How often the class is the label, by the probability that it is given."""
        return BinSums(self.table.count[label], self.table.confidence[label], self.table.label[label])

    def largest_errors(self, limit: int) -> list[int]:
        """The classes of the largest classwise calibration error, at most so many, in the order of classes."""
        order = self.classwise_ece.argsort(descending=True, stable=True)[:limit]
        return sorted(order.tolist())


class ClassesSoFar:
    """Adds up blocks of samples.

    Args:
        num_classes: K.
        bins: of each class's probability.
        weighted: whether samples come with weights.
    """

    def __init__(self, num_classes: int, bins: int, weighted: bool) -> None:
        self._by_bin = ClassSums.zeros(num_classes, bins, weighted)
        self._by_label = torch.zeros(3, num_classes, dtype=torch.float64)
        self._spare: Tensor | None = None

    def add(self, stats: SampleStatistics, probs: Tensor) -> None:
        """Add samples with their (N, K) probabilities."""
        if self._spare is None or len(self._spare) < len(probs):
            self._spare = torch.empty(probs.shape, dtype=torch.float64)
        self._by_bin.add(probs, stats.label, stats.weight, self._spare)
        weight = torch.ones_like(stats.confidence) if stats.weight is None else stats.weight
        for row, term in zip(self._by_label, (weight, weight * stats.correct, weight * stats.confidence), strict=True):
            row += sum_by_index(stats.label, len(row), term)

    def classes(self) -> Classes:
        """What was found."""
        count, right, confidence = self._by_label
        held = count.where(count > 0, torch.nan)
        table = self._by_bin.table()
        error = (table.confidence - table.label).abs().sum(1) / count.sum()
        return Classes(count, right / held, confidence / held, error, table)


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names of classes for people: an empty one is called by its number, equal ones have theirs added.

    Examples:
        >>> distinct_names(["ant", "", "bee", "bee"])
        ['ant', '(class 1)', 'bee (2)', 'bee (3)']
    """
    often = Counter(names)
    return [
        f"(class {i})" if not name.strip() else f"{name} ({i})" if often[name] > 1 else name
        for i, name in enumerate(names)
    ]
