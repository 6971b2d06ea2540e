"""Sums whose size does not grow with the data, and every metric that follows from them.

Counts of unweighted samples are int64 and stay exact; weights, and everything else that is summed, are float64. Both
live in one flat tensor each, so that two parts of the data are joined by two additions.
"""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, bin_index
from focalcal.metrics.class_table import ClassSums
from focalcal.metrics.floor import ece_floor_of_sums, floor_sums
from focalcal.metrics.resampling.scalars import COLUMNS, CONFIDENT, TOP_K, metrics_of_sums
from focalcal.metrics.statistics import SampleStatistics

Shapes = Mapping[str, tuple[int, ...]]

_COUNTED = ("right", "wrong", "confident_right", "confident_wrong", "top_k", "infinite_nll")
_SUMMED = ("confidence_right", "confidence_wrong", "entropy_right", "entropy_wrong", "nll", "brier")


class RunningSums:
    """What is known of the samples so far, but for the order of their confidences.

    Args:
        num_classes: K.
        bins: the number of bins M, of equal width.

    Attributes:
        counts: flat int64; the number of samples (of positive weight) and everything counted over unweighted samples.
        sums: flat float64; the same counted in weight over weighted samples, and everything that is a sum.
    """

    def __init__(self, num_classes: int, bins: int) -> None:
        self.num_classes, self.bins = num_classes, bins
        counted, summed = _count_shapes(num_classes, bins), _sum_shapes(num_classes, bins)
        size = _size(counted)
        self.counts = torch.zeros(1 + size, dtype=torch.int64)
        self.sums = torch.zeros(size + _size(summed), dtype=torch.float64)
        self._counts = _named_views(self.counts[1:], counted)
        self._weights = _named_views(self.sums[:size], counted)
        self._sums = _named_views(self.sums[size:], summed)
        self._spare: Tensor | None = None

    @property
    def samples(self) -> int:
        """How many samples of positive weight were added."""
        return int(self.counts[0])

    def add(self, stats: SampleStatistics) -> None:
        """Add samples; their probabilities have to be added by `add_classes`."""
        weight = stats.weight
        counts = self._counts if weight is None else self._weights
        self.counts[0] += len(stats) if weight is None else int((weight > 0).sum())
        self._add_scalars(stats, counts)
        index = bin_index(stats.confidence, self.bins)
        each = torch.ones_like(index) if weight is None else weight
        counts["bin_count"].index_add_(0, index, each)
        counts["bin_correct"].index_add_(0, index[stats.correct], each[stats.correct])
        self._sums["bin_confidence"].index_add_(0, index, stats.confidence * each)
        self._sums["floor"].add_(floor_sums(stats.confidence, self.bins, weight))

    def add_classes(self, stats: SampleStatistics, probs: Tensor) -> None:
        """Add the (N, K) probabilities of samples."""
        counts = self._counts if stats.weight is None else self._weights
        if self._spare is None or len(self._spare) < len(probs):
            self._spare = torch.empty(probs.shape, dtype=torch.float64)
        self._class_sums(counts).add(probs, stats.label, stats.weight, self._spare)

    def _add_scalars(self, stats: SampleStatistics, counts: dict[str, Tensor]) -> None:
        right, confident = stats.correct, stats.confidence >= CONFIDENT
        infinite = stats.nll.isinf()
        flags = (right, ~right, right & confident, ~right & confident, stats.rank < TOP_K, infinite)
        for name, flag in zip(_COUNTED, flags, strict=True):
            counts[name].add_(flag.sum() if stats.weight is None else stats.weight[flag].sum())
        # An infinite loss is counted and not added: of weight 0 it must not show.
        terms = [stats.confidence * right, stats.confidence * ~right, stats.entropy * right, stats.entropy * ~right]
        terms += [stats.nll.masked_fill(infinite, 0), stats.brier]
        for name, term in zip(_SUMMED, terms, strict=True):
            self._sums[name].add_(term.sum() if stats.weight is None else term @ stats.weight)

    def values(self) -> dict[str, float]:
        """Metrics by name; NaN where there is nothing to take a mean of."""
        counts = {name: self._counts[name] + self._weights[name] for name in self._counts}
        numbers = counts | self._sums
        binned = [numbers[name] for name in ("bin_count", "bin_confidence", "bin_correct")]
        row = torch.cat([torch.stack([numbers[name] for name in COLUMNS]), *binned])
        values = {name: float(value[0]) for name, value in metrics_of_sums(row[None], self.bins).items()}
        if self.num_classes <= TOP_K:
            del values["top_5_accuracy"]
        values["classwise_ece"] = self._class_sums(counts).table().classwise_ece
        values["ece_floor"] = float(ece_floor_of_sums(self._sums["floor"]))
        return values

    def bin_sums(self) -> BinSums:
        """Counts, confidence and correctness of each bin; float64 where anything was weighted."""
        weighted = bool(self._weights["bin_count"].any())
        count, correct = (
            self._counts[name] + self._weights[name] if weighted else self._counts[name].clone()
            for name in ("bin_count", "bin_correct")
        )
        return BinSums(count, self._sums["bin_confidence"].clone(), correct)

    def _class_sums(self, counts: dict[str, Tensor]) -> ClassSums:
        return ClassSums(
            counts["class_count"], counts["class_label"], self._sums["class_confidence"], self._sums["class_totals"]
        )


def _count_shapes(num_classes: int, bins: int) -> Shapes:
    by_class = (bins, num_classes)
    binned: Shapes = {"bin_count": (bins,), "bin_correct": (bins,), "class_count": by_class, "class_label": by_class}
    return dict.fromkeys(_COUNTED, ()) | dict(binned)


def _sum_shapes(num_classes: int, bins: int) -> Shapes:
    binned: Shapes = {"bin_confidence": (bins,), "floor": (5, bins)}
    by_class: Shapes = {"class_confidence": (bins, num_classes), "class_totals": (num_classes,)}
    return dict.fromkeys(_SUMMED, ()) | dict(binned) | dict(by_class)


def _size(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _named_views(flat: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """Cut a flat tensor into named pieces of the given shapes, which share its memory."""
    sizes = [prod(shape) for shape in shapes.values()]
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), torch.split(flat, sizes), strict=True)
    }
