"""Running sums, whose size does not grow with the data.

Counts of unweighted samples are int64 and stay exact; weights, and everything else that is summed, are float64. Both
live in one flat tensor each, so that two parts of the data are joined by two additions. Weights are divided by a power
of two as large as the largest of them; when a larger one comes, the sums so far are divided again, which is exact.
"""

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, bin_index, bin_sums
from focalcal.metrics.classwise import ClassSums
from focalcal.metrics.classwise_interval import ClassGapFolds, join_class_sums, streamed_classwise_interval
from focalcal.metrics.floor import floor_sums
from focalcal.metrics.gap_intervals import Interval
from focalcal.metrics.honest_intervals import samples_in_cells
from focalcal.metrics.independent_units import COLUMNS, FIRST_SQUARE, FOLDS, SampleUnits
from focalcal.metrics.mean_intervals import COLUMNS as COLUMNS_OF_MEANS
from focalcal.metrics.mean_intervals import products_of_terms
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means, RowsOfSums, Sums, mean_terms

Shapes = Mapping[str, tuple[int, ...]]

_COUNTED = ("hits", "misses", "right", "wrong", "confident_right", "confident_wrong", "top_k", "infinite_nll")
# Sums per class and bin are kept for each fold while there are no more of them than this.
_MOST_FOLDED = 2**16
_SUMMED = tuple(name for name in RowsOfSums.columns if name not in _COUNTED)


class RunningSums:
    """Everything known of the samples so far, but for the order of their confidences.

    Args:
        num_classes: K.
        bins: The number of bins M, of equal width.
        in_folds: Whether intervals are wanted: sums per class for every fold, and products of the terms of means.

    Attributes:
        counts: Flat int64; the number of samples (of positive weight) and everything counted over unweighted samples.
        sums: Flat float64; the same counted in weight over weighted samples, and everything that is a sum.
        class_folds: Number of parts of the samples that have their own sums per class.
        exponent: Exponent of the power of two that weights are divided by; unweighted samples weigh 1.
    """

    def __init__(self, num_classes: int, bins: int, in_folds: bool = True) -> None:
        self.num_classes, self.bins, self._in_folds = num_classes, bins, in_folds
        # Sums of every fold would take much memory where classes are many.
        self.class_folds = FOLDS if in_folds and num_classes * bins <= _MOST_FOLDED else 1
        by_class = (self.class_folds, bins, num_classes)
        counted, summed = _count_shapes(by_class), _sum_shapes(by_class, len(COLUMNS_OF_MEANS) if in_folds else 0)
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
        if self.exponent not in (None, exponent):
            factor = 2.0 ** ((self.exponent or 0) - exponent)
            self.sums.mul_(factor)
            # Of squared weights.
            squares = (self._sums["floor"][2:], self._sums["units"][FIRST_SQUARE:], self._sums["doubt"])
            for part in (*squares, self._sums["products"]):
                part.mul_(factor)
        self.exponent = exponent

    def add(self, stats: SampleStatistics, fold: Tensor) -> None:
        """Add samples of the folds (N,); their probabilities have to be added by `add_classes`."""
        weight = stats.weight
        counts = self._counts if weight is None else self._weights
        self.counts[0] += len(stats) if weight is None else int((weight > 0).sum())
        terms = mean_terms(stats)
        for name, term in terms.items():
            total = term.sum()
            into = self._sums[name] if name in _SUMMED else counts[name]
            into.add_(total.to(into.dtype))
        index = bin_index(stats.confidence, self.bins)
        binned = bin_sums(index, self.bins, stats.confidence, stats.correct, weight)
        counts["bin_count"].add_(binned.count)
        counts["bin_correct"].add_(binned.correct)
        self._sums["bin_confidence"].add_(binned.confidence)
        self._sums["floor"].add_(floor_sums(stats.confidence, self.bins, weight, index))
        if self._in_folds:
            self._sums["products"].add_(torch.from_numpy(products_of_terms(terms)))
        in_bins = samples_in_cells(stats, index.numpy(), fold, self.bins)
        self._sums["units"].add_(torch.from_numpy(SampleUnits.of(in_bins).to_table()))

    def add_classes(self, stats: SampleStatistics, probs: Tensor, fold: Tensor) -> None:
        """Add the (N, K) probabilities of samples."""
        counts = self._counts if stats.weight is None else self._weights
        doubt = stats.mass * (1 - probs.gather(1, stats.label[:, None])[:, 0])
        self._sums["doubt"].add_(doubt.square().sum())
        parts = (counts["class_count"], counts["class_label"], self._sums["class_confidence"])
        folded = ClassSums(*parts, self._sums["class_totals"])
        folded.add(probs, stats.label, stats.weight, fold if self.class_folds > 1 else torch.zeros_like(fold))

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
            classes=join_class_sums(self._class_sums(counts)).table().gaps if with_classes else None,
        )

    def binned_units(self) -> SampleUnits:
        """Return what intervals need to know of bins of equal width."""
        return SampleUnits(*self._sums["units"].numpy())

    @property
    def products(self) -> npt.NDArray[np.float64]:
        """Sums of products of the terms of means, (C, C)."""
        return self._sums["products"].numpy()

    def classwise_interval(self, level: float) -> Interval | None:
        """Return the interval of classwise-ECE; None where classes are too many for sums of every fold."""
        if self.class_folds == 1:
            return None
        factor = 2.0 ** -max(self.exponent or 0, 0)
        counts = {name: self._counts[name] * factor + self._weights[name] for name in ("class_count", "class_label")}
        folds = ClassGapFolds.of([sums.table() for sums in self._class_sums(counts)])
        squares = float(self.binned_units().weight_squares.sum())
        return streamed_classwise_interval(folds, float(self._sums["doubt"]), squares, level)

    def _class_sums(self, counts: dict[str, Tensor]) -> list[ClassSums]:
        parts = (counts["class_count"], counts["class_label"], self._sums["class_confidence"])
        return [ClassSums(*each) for each in zip(*parts, self._sums["class_totals"], strict=True)]


def check_num_classes(num_classes: int) -> None:
    """Raise unless there are at least two classes."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 2:
        raise ValueError(f"num_classes is {num_classes!r}; it must be an integer of at least 2.")


def _count_shapes(by_class: tuple[int, int, int]) -> Shapes:
    bins = by_class[1]
    binned: Shapes = {"bin_count": (bins,), "bin_correct": (bins,), "class_count": by_class, "class_label": by_class}
    return dict.fromkeys(_COUNTED, ()) | dict(binned)


def _sum_shapes(by_class: tuple[int, int, int], terms: int) -> Shapes:
    folds, bins, num_classes = by_class
    binned: Shapes = {
        "bin_confidence": (bins,),
        "floor": (5, bins),
        "units": (COLUMNS, FOLDS, bins),
        "doubt": (),
        "products": (terms, terms),
        "class_confidence": by_class,
        "class_totals": (folds, num_classes),
    }
    return dict.fromkeys(_SUMMED, ()) | dict(binned)


def _size(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _named_views(flat: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """Cut a flat tensor into named pieces of the given shapes, which share its memory."""
    sizes = [prod(shape) for shape in shapes.values()]
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), torch.split(flat, sizes), strict=True)
    }
