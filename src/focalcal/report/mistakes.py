"""Wrong predictions that the model was most sure of, and which classes it takes for which."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from focalcal.metrics.samples import SampleStatistics


@dataclass(frozen=True, order=True)
class Mistake:
    """One wrong prediction; the more confident is the larger, the earlier on ties."""

    confidence: float
    order: int
    id: str
    label: int
    prediction: int


@dataclass(frozen=True)
class Confusion:
    """All wrong predictions of one class for another: how many (or their weight), and their mean confidence."""

    label: int
    prediction: int
    count: float
    confidence: float


class MistakesSoFar:
    """Keeps the most confident mistakes of samples that come in blocks, and sums by pair of classes.

    Args:
        num_classes: K.
        most: Number of single mistakes to keep.
    """

    def __init__(self, num_classes: int, most: int = 24) -> None:
        self._num_classes, self._most = num_classes, most
        self._worst: list[Mistake] = []
        self._pairs = torch.zeros(0, dtype=torch.int64)
        self._sums = torch.zeros(2, 0, dtype=torch.float64)
        self._samples = 0

    def add(self, stats: SampleStatistics, ids: Sequence[str] | None) -> None:
        """Add samples; without ids they are called by their number."""
        weight = torch.ones_like(stats.confidence) if stats.weight is None else stats.weight
        wrong = (~stats.right & (weight > 0)).nonzero()[:, 0]
        for i in wrong[stats.confidence[wrong].argsort(descending=True, stable=True)[: self._most]].tolist():
            number = self._samples + i
            name = f"#{number}" if ids is None else ids[i]
            self._keep(
                Mistake(float(stats.confidence[i]), -number, name, int(stats.label[i]), int(stats.prediction[i]))
            )
        pairs = stats.label[wrong] * self._num_classes + stats.prediction[wrong]
        self._add_pairs(pairs, torch.stack([weight[wrong], weight[wrong] * stats.confidence[wrong]]))
        self._samples += len(stats)

    def _keep(self, mistake: Mistake) -> None:
        if len(self._worst) < self._most:
            heapq.heappush(self._worst, mistake)
        else:
            heapq.heappushpop(self._worst, mistake)

    def _add_pairs(self, pairs: torch.Tensor, terms: torch.Tensor) -> None:
        pairs, place = torch.unique(torch.cat([self._pairs, pairs]), return_inverse=True)
        together = torch.cat([self._sums, terms], dim=1)
        self._sums = torch.zeros(2, len(pairs), dtype=torch.float64).index_add_(1, place, together)
        self._pairs = pairs

    def worst(self) -> list[Mistake]:
        """Return the most confident mistakes, the worst first."""
        return sorted(self._worst, reverse=True)

    def confusions(self, most: int = 12) -> list[Confusion]:
        """Find the pairs of classes with the most confidence in wrong predictions, summed, the worst first."""
        order = self._sums[1].argsort(descending=True, stable=True)[:most]
        found = []
        for pair, count, confidence in zip(self._pairs[order].tolist(), *self._sums[:, order].tolist(), strict=True):
            label, prediction = divmod(pair, self._num_classes)
            found.append(Confusion(label, prediction, count, confidence / count))
        return found
