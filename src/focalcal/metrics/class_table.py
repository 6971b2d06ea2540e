"""Sums by class and bin: what the classwise calibration error and reliability diagrams of single classes are made of.

With many classes almost every probability lies in the first bin, (0, 1/M]. Only the others are looked up one by one;
what the first bin holds is the total of the class less what the others took.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.binning import bin_index, check_bins, edges


@dataclass(frozen=True)
class ClassTable:
    """What fell into each bin of each class's probability; shape (K, bins) each, int64 where nothing was weighted.

    Attributes:
        count: the number, or total weight, of samples whose probability of the class lies in the bin.
        confidence: the sum of those probabilities, float64.
        label: the number, or total weight, of those samples that have the class as their label.
    """

    count: Tensor
    confidence: Tensor
    label: Tensor

    @property
    def classwise_ece(self) -> float:
        """(1/K) Σ_k Σ_m |Σ p − Σ label| / N; a class that no sample has counts like any other."""
        gaps = (self.confidence - self.label).abs().sum()
        return float(gaps / self.label.sum()) / len(self.label)


@dataclass(frozen=True)
class ClassSums:
    """What a `ClassTable` is made of, added up block by block in the tensors given; by bin first, (bins, K).

    Attributes:
        count: as in the table, except for the first bin, which is left at 0 and worked out at the end.
        label: as in the table.
        confidence: as in the table, except for the first bin.
        totals: (K,) float64, the sum of each class's probability over all bins.

    Examples:
        >>> sums = ClassSums.zeros(num_classes=2, bins=2)
        >>> sums.add(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 0]))
        >>> sums.table().count.tolist(), sums.table().label.tolist()
        ([[2, 0], [1, 1]], [[1, 0], [0, 1]])
    """

    count: Tensor
    label: Tensor
    confidence: Tensor
    totals: Tensor

    @classmethod
    def zeros(cls, num_classes: int, bins: int, weighted: bool = False) -> "ClassSums":
        """Nothing yet; counts are float64 where samples come with weights."""
        check_bins(bins)
        counts = torch.zeros(2, bins, num_classes, dtype=torch.float64 if weighted else torch.int64)
        confidence = torch.zeros(bins, num_classes, dtype=torch.float64)
        return cls(counts[0], counts[1], confidence, torch.zeros(num_classes, dtype=torch.float64))

    def add(self, probs: Tensor, label: Tensor, weight: Tensor | None = None, spare: Tensor | None = None) -> None:
        """Add samples.

        Args:
            probs: (N, K) float32 or float64.
            label: (N,) int64.
            weight: (N,) float64 where the sums are weighted; None means 1 each.
            spare: (N or more, K) float64, memory to write in: new pages for every block would cost more than the sums.
        """
        bins, num_classes = self.count.shape
        each = torch.ones(len(probs), dtype=self.count.dtype) if weight is None else weight
        row, column, p = beyond_first_bin(probs, bins)
        place = bin_index(p, bins).mul_(num_classes).add_(column)
        of_label = bin_index(probs.gather(1, label[:, None])[:, 0], bins).mul_(num_classes).add_(label)
        self.count.view(-1).index_add_(0, place, each[row])
        self.label.view(-1).index_add_(0, of_label, each)
        self.confidence.view(-1).index_add_(0, place, p if weight is None else p * weight[row])
        doubles = probs.double() if spare is None else spare[: len(probs)].copy_(probs)
        self.totals.add_(each.double() @ doubles)

    def table(self) -> ClassTable:
        """The table of everything added so far."""
        count, confidence = self.count.clone(), self.confidence.clone()
        count[0] = self.label.sum() - count[1:].sum(dim=0)
        # Less than rounding may be left of a total; a sum of probabilities is not negative.
        confidence[0] = (self.totals - confidence[1:].sum(dim=0)).clamp_(min=0)
        return ClassTable(count.T, confidence.T, self.label.T.clone())


def beyond_first_bin(probs: Tensor, bins: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and float64 values of those of the (N, K) probabilities that lie above 1/M."""
    values = probs.numpy()
    places = np.flatnonzero(values > _largest_in_first_bin(values.dtype, bins))
    row, column = np.divmod(places, values.shape[1])
    return torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(values.ravel()[places]).double()


@cache
def _largest_in_first_bin(dtype: np.dtype[Any], bins: int) -> np.floating[Any]:
    """The largest number of a float type that does not exceed the double 1/M: comparing with it needs no doubles."""
    edge = float(edges(bins)[1])
    rounded: np.floating[Any] = dtype.type(edge)
    return rounded if float(rounded) <= edge else np.nextafter(rounded, dtype.type(0))
