"""Running sums, whose size does not grow with the data.

Counts of unweighted samples are int64 and stay exact; weights, and everything else that is summed, are float64. Both
live in one flat tensor each, so that two parts of the data are joined by two additions. Weights are divided by a power
of two as large as the largest of them; when a larger one comes, the sums so far are divided again, which is exact.
"""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, equal_width_sums
from focalcal.metrics.classwise import ClassSums
from focalcal.metrics.floor import floor_sums
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means, RowsOfSums, Sums, mean_terms

Shapes = Mapping[str, tuple[int, ...]]

_COUNTED = ("right", "wrong", "confident_right", "confident_wrong", "top_k", "infinite_nll")
_SUMMED = tuple(name for name in RowsOfSums.columns if name not in _COUNTED)


class RunningSums:
    """Everything known of the samples so far, but for the order of their confidences.

    Args:
        num_classes: K.
        bins: The number of bins M, of equal width.

    Attributes:
        counts: Flat int64; the number of samples (of positive weight) and everything counted over unweighted samples.
        sums: Flat float64; the same counted in weight over weighted samples, and everything that is a sum.
        exponent: Of the power of two that weights are divided by; unweighted samples weigh 1.
    """

    def __init__(self, num_classes: int, bins: int) -> None:
        self.num_classes, self.bins = num_classes, bins
        counted, summed = _count_shapes(num_classes, bins), _sum_shapes(num_classes, bins)
        size = _size(counted)
        self.exponent: int | None = None
        self.counts = torch.zeros(1 + size, dtype=torch.int64)
        self.sums = torch.zeros(size + _size(summed), dtype=torch.float64)
        self._counts = _named_views(self.counts[1:], counted)
        self._weights = _named_views(self.sums[:size], counted)
        self._sums = _named_views(self.sums[size:], summed)

    @property
    def samples(self) -> int:
        """The number of samples of positive weight that were added."""
        return int(self.counts[0])

    def rescale(self, exponent: int) -> None:
        """Divide what is there by a larger power of two."""
        if self.exponent is not None:
            factor = 2.0 ** (self.exponent - exponent)
            self.sums.mul_(factor)
            self._sums["floor"][2:].mul_(factor)  # of squared weights
        self.exponent = exponent

    def add(self, stats: SampleStatistics) -> None:
        """Add samples; their probabilities have to be added by `add_classes`."""
        weight = stats.weight
        counts = self._counts if weight is None else self._weights
        self.counts[0] += len(stats) if weight is None else int((weight > 0).sum())
        for name, term in mean_terms(stats).items():
            total = term.sum()
            into = self._sums[name] if name in _SUMMED else counts[name]
            into.add_(total.to(into.dtype))
        binned = equal_width_sums(stats.confidence, stats.correct, self.bins, weight)
        counts["bin_count"].add_(binned.count)
        counts["bin_correct"].add_(binned.correct)
        self._sums["bin_confidence"].add_(binned.confidence)
        self._sums["floor"].add_(floor_sums(stats.confidence, self.bins, weight))

    def add_classes(self, stats: SampleStatistics, probs: Tensor) -> None:
        """Add the (N, K) probabilities of samples."""
        counts = self._counts if stats.weight is None else self._weights
        self._class_sums(counts).add(probs, stats.label, stats.weight)

    def known(self, *, with_classes: bool = True) -> Sums:
        """Return the sums that metrics are functions of."""
        # With unweighted samples among them the exponent is not negative.
        factor = 2.0 ** -max(self.exponent or 0, 0)
        counts = {name: self._counts[name] * factor + self._weights[name] for name in self._counts}
        numbers = counts | self._sums
        return Sums(
            means=Means(**{name: numbers[name].double() for name in RowsOfSums.columns}),
            bins=BinSums(numbers["bin_count"], numbers["bin_confidence"], numbers["bin_correct"]),
            chance=self._sums["floor"],
            classes=self._class_sums(counts).table().gaps if with_classes else None,
        )

    def _class_sums(self, counts: dict[str, Tensor]) -> ClassSums:
        return ClassSums(
            counts["class_count"], counts["class_label"], self._sums["class_confidence"], self._sums["class_totals"]
        )


def check_num_classes(num_classes: int) -> None:
    """Raise unless there are at least two classes."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 2:
        raise ValueError(f"num_classes is {num_classes!r}; it must be an integer of at least 2.")


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
