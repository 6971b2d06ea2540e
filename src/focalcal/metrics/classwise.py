"""Classwise calibration: sums by class and bin, which classwise-ECE and reliability diagrams of single classes are of.

With many classes almost every probability lies in the first bin, (0, 1/M]. Only the others are looked up one by one;
what the first bin holds is the total of the class less what the others took.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions, takes_predictions
from focalcal.metrics.binning import as_number, bin_index, check_bins, edges
from focalcal.metrics.samples import block_probabilities
from focalcal.metrics.sums import Measurable, Sums, get_sums
from focalcal.predictions import Predictions

# To count fewer numbers than one for this many bins, one by one, is faster than to make a table of all bins.
_COUNTED_ALONE = 4


@dataclass(frozen=True)
class ClassGaps:
    """Sums over classes and bins: () float64 each, or (B,) for B resamples.

    Attributes:
        absolute: Σ_k Σ_m |Σ p − Σ label|.
        mass: The number of samples, or their weight.
        num_classes: K.
    """

    absolute: Tensor
    mass: Tensor
    num_classes: int


@dataclass(frozen=True)
class ClassTable:
    """Sums of each bin of each class's probability; shape (K, bins) each, int64 where nothing was weighted.

    Attributes:
        count: The number, or total weight, of samples whose probability of the class lies in the bin.
        confidence: The sum of those probabilities, float64.
        label: The number, or total weight, of those samples that have the class as their label.
    """

    count: Tensor
    confidence: Tensor
    label: Tensor

    @property
    def gaps(self) -> ClassGaps:
        """The gaps of all bins and classes, added up."""
        absolute = (self.confidence - self.label).abs().sum()
        return ClassGaps(absolute, self.label.sum().double(), len(self.label))


@dataclass(frozen=True)
class ClassSums:
    """Sums that a `ClassTable` is made of, added up block by block in the tensors given; by bin first, (bins, K).

    Attributes:
        count: As in the table, except for the first bin, which is left at 0 and worked out at the end.
        label: As in the table.
        confidence: As in the table, except for the first bin.
        totals: (K,) float64, the sum of each class's probability over all bins.

    Examples:
        >>> sums = ClassSums.zeros(num_classes=2, bins=2)
        >>> sums.add(torch.tensor([[0.25, 0.75], [0.5, 0.5]]).double(), torch.tensor([1, 0]))
        >>> sums.table().count.tolist(), sums.table().label.tolist()
        ([[2, 0], [1, 1]], [[1, 0], [0, 1]])
    """

    count: Tensor
    label: Tensor
    confidence: Tensor
    totals: Tensor

    @classmethod
    def zeros(cls, num_classes: int, bins: int, weighted: bool = False) -> "ClassSums":
        """Begin with nothing; counts are float64 where samples come with weights."""
        check_bins(bins)
        counts = torch.zeros(2, bins, num_classes, dtype=torch.float64 if weighted else torch.int64)
        confidence = torch.zeros(bins, num_classes, dtype=torch.float64)
        return cls(counts[0], counts[1], confidence, torch.zeros(num_classes, dtype=torch.float64))

    def add(self, probs: Tensor, label: Tensor, weight: Tensor | None = None, fold: Tensor | None = None) -> None:
        """Add samples.

        Args:
            probs: (N, K) float64.
            label: (N,) int64.
            weight: (N,) float64 where the sums are weighted; None means 1 each.
            fold: (N,) int64, the part of the samples that each belongs to, where the tensors have one more dimension
                in front, for the parts.
        """
        bins, num_classes = self.count.shape[-2:]
        row, column, p = beyond_first_bin(probs, bins)
        place = bin_index(p, bins)
        of_label = bin_index(probs.gather(1, label[:, None])[:, 0], bins)
        if fold is not None:
            place += (fold * bins)[row]
            of_label += fold * bins
        place.mul_(num_classes).add_(column)
        of_label.mul_(num_classes).add_(label)
        for into, where in ((self.count, place), (self.label, of_label)):
            if weight is not None:
                into.view(-1).index_add_(0, where, weight[row] if where is place else weight)
            elif _COUNTED_ALONE * len(where) < into.numel():
                into.view(-1).index_add_(0, where, torch.ones_like(where))
            else:
                into.view(-1).add_(torch.bincount(where, minlength=into.numel()))
        self.confidence.view(-1).index_add_(0, place, p if weight is None else p * weight[row])
        each = torch.ones(len(probs), dtype=torch.float64) if weight is None else weight.double()
        if fold is not None:
            each = torch.zeros(len(self.totals), len(probs), dtype=torch.float64).scatter_(0, fold[None], each[None])
        self.totals.add_(each @ probs)

    def table(self) -> ClassTable:
        """Return the table of everything added so far."""
        count, confidence = self.count.clone(), self.confidence.clone()
        count[0] = self.label.sum() - count[1:].sum(dim=0)
        # Less than rounding may be left of a total; a sum of probabilities is not negative.
        confidence[0] = (self.totals - confidence[1:].sum(dim=0)).clamp_(min=0)
        return ClassTable(count.T, confidence.T, self.label.T.clone())


def beyond_first_bin(probs: Tensor, bins: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of those of the (N, K) float64 probabilities that lie above 1/M."""
    turned = probs.stride(0) == 1  # as `block_statistics` gives those of few classes
    values = np.ascontiguousarray(probs.numpy().T if turned else probs.numpy())
    places = np.flatnonzero(values > float(edges(bins)[1]))
    major = places // values.shape[1]
    minor = places - major * values.shape[1]  # in two steps: numpy's divmod takes five times as long
    row, column = (minor, major) if turned else (major, minor)
    return torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(values.ravel()[places])


@takes_predictions
def class_table(preds: Predictions, *, bins: int = 15) -> ClassTable:
    """Compute counts, confidence and labels by class and bin, (K, bins) each: the reliability diagrams of all classes.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins, of equal width.

    Examples:
        >>> class_table(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]), bins=2).label.tolist()
        [[0, 1], [1, 0]]
    """
    preds = prepare_predictions(preds)
    sums = ClassSums.zeros(preds.num_classes, bins, weighted=preds.weights is not None)
    for block, probs in block_probabilities(preds):
        sums.add(probs, block.hard_labels, block.weights)
    return sums.table()


@takes_predictions
def classwise_ece(preds: Measurable, *, bins: int = 15) -> float:
    """Classwise ECE: (1/K) Σ_k Σ_m (n_km / n) |frequency_km − confidence_km|, over M bins of equal width of each p_k.

    K is the number of outputs: a class that no label names counts like any other.

    Args:
        preds: N predictions of K classes.
        bins: The number of bins M.

    Examples:
        >>> classwise_ece(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]), bins=2)
        0.25
    """
    sums = (
        cast(ClassGaps, get_sums(preds, "classes")) if isinstance(preds, Sums) else class_table(preds, bins=bins).gaps
    )
    return as_number(sums.absolute / (sums.mass * sums.num_classes))
