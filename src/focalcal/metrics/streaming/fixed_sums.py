"""All metrics from sums whose size is fixed, at most 1 MB: parts of the data join by adding their tensors.

What frameworks can hold as a state and add over processes. Where `Accumulator` keeps samples to be exact, here the
order of confidences is known from cells up to 2^-12 wide, and smooth ECE comes from a coarser grid.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from focalcal.metrics.binning import check_bins, sum_by_index
from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.confidence_cells import CELLS, cell_index, cell_limits
from focalcal.metrics.ranking import Column, Ranking
from focalcal.metrics.samples import SampleStatistics, block_statistics
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.metrics.streaming.ada_ece_bound import Pieces, ada_ece_range
from focalcal.metrics.streaming.running_sums import RunningSums
from focalcal.metrics.streaming.temperature_grid import TemperatureGrid
from focalcal.metrics.sums import Sums, values
from focalcal.predictions import Predictions

# NLL after temperature scaling, and that temperature, beside the catalogue's metrics.
SCALED = ("scaled_nll", "temperature")
# Sums per class and bin take 608 bytes a class: up to so many classes everything together stays below 1 MB.
MOST_CLASSES = 1000
# Neighbouring cells of the accumulator's grid that are one cell here, as a power of two.
_JOINED_BITS = 5
_CELLS = (CELLS >> _JOINED_BITS) + 1
_SMOOTH_CELLS = 2**14


def default_metrics(num_classes: int) -> tuple[str, ...]:
    """List the metrics that fixed sums give for this number of classes: classwise-ECE only up to 1,000.

    Examples:
        >>> "classwise_ece" in default_metrics(1000), "classwise_ece" in default_metrics(1001)
        (True, False)
    """
    return tuple(
        name for name in available_metrics(num_classes) if name != "classwise_ece" or num_classes <= MOST_CLASSES
    )


def available_metrics(num_classes: int) -> tuple[str, ...]:
    """List the metrics that can be computed from fixed sums: all but those that need samples or outputs."""
    known = (
        name
        for name, metric in METRICS.items()
        if metric.source != "outputs"
        and (metric.source != "ranking" or metric.partial_sums)
        and metric.fewest_classes <= num_classes
    )
    return (*known, *SCALED)


class FixedSums:
    """Sums over samples, of fixed size, that metrics are computed from.

    Args:
        num_classes: K, at least 2.
        bins: Number of bins of binned metrics.
        classwise: Whether there are sums per class and bin.

    Examples:
        >>> whole, part = FixedSums(2), FixedSums(2)
        >>> whole.add(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]))
        >>> part.add(Predictions.from_probs([[0.125, 0.875]], [1]))
        >>> for name, tensor in whole.tensors().items():
        ...     _ = tensor.add_(part.tensors()[name])
        >>> whole.compute(["error", "brier"])
        {'error': 0.3333333333333333, 'brier': 0.21875}
    """

    def __init__(self, num_classes: int, bins: int = 15, *, classwise: bool = True) -> None:
        check_bins(bins)
        if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 2:
            raise ValueError(f"num_classes is {num_classes!r}; it must be an integer of at least 2.")
        self.num_classes, self.bins, self.classwise = num_classes, bins, classwise
        self._running = RunningSums(num_classes if classwise else 0, bins)
        self._running.exponent = 0  # weights are added up as they are
        self._cells = torch.zeros(3, _CELLS, dtype=torch.float64)  # mass, correct mass, confidence
        self._residuals = torch.zeros(_SMOOTH_CELLS + 2, dtype=torch.float64)  # the last: the sum of their sizes
        self._temperatures = TemperatureGrid()

    def tensors(self) -> dict[str, Tensor]:
        """Return the sums themselves, int64 and float64 tensors by name; what is added to them counts."""
        return {
            "counts": self._running.counts,
            "sums": self._running.sums,
            "cells": self._cells,
            "residuals": self._residuals,
            "temperatures": self._temperatures.sums,
        }

    def load(self, tensors: Mapping[str, Tensor]) -> "FixedSums":
        """Take the sums of others, of the same shapes; returns itself."""
        for name, own in self.tensors().items():
            own.copy_(tensors[name])
        return self

    @property
    def samples(self) -> int:
        """The number of samples of positive weight."""
        return self._running.samples

    def add(self, preds: Predictions) -> None:
        """Add predictions."""
        if preds.num_classes != self.num_classes:
            raise ValueError(f"The outputs have {preds.num_classes} classes, and num_classes is {self.num_classes}.")
        if len(preds) == 0:
            return
        for stats, probs in block_statistics(preds):
            self._running.add(stats)
            if self.classwise:
                self._running.add_classes(stats, probs)
            self._add_confidence(stats)
        self._temperatures.add(preds.logits(), preds.labels, preds.weights)

    def _add_confidence(self, stats: SampleStatistics) -> None:
        cell = cell_index(stats.confidence) >> _JOINED_BITS
        for row, term in zip(self._cells, (1.0, stats.correct, stats.confidence), strict=True):
            row += sum_by_index(cell, _CELLS, stats.mass * term)
        size = (stats.correct.double() - stats.confidence).abs() * stats.mass
        self._residuals[:-1] += residual_grid(stats.confidence, stats.correct, stats.weight, cells=_SMOOTH_CELLS)
        self._residuals[-1] += size.sum()

    def compute(self, names: Iterable[str]) -> dict[str, float]:
        """Compute metrics by name; NaN where one is undefined, as all are without samples."""
        names = list(names)
        if self.samples == 0:
            return dict.fromkeys(names, math.nan)
        sums = self._known()
        found = {name: float(value) for name, value in values(sums, [n for n in names if n not in SCALED]).items()}
        if set(names) & set(SCALED):
            least, temperature = self._temperatures.minimum()
            found |= {"scaled_nll": least / float(self._cells[0].sum()), "temperature": temperature}
        return {name: found[name] for name in names}

    def bounds(self) -> dict[str, float]:
        """Bound how far AdaECE, the KS error and smooth ECE may be from those of the samples themselves."""
        sums, pieces = self._known(), self._pieces()
        assert sums.ranking is not None
        assert sums.residuals is not None
        found = self.compute(["ada_ece", "ks_error"])
        low, high = ada_ece_range(pieces, torch.from_numpy(sums.ranking.cuts))
        return {
            "ada_ece": max(high - found["ada_ece"], found["ada_ece"] - low),
            "ks_error": float(pieces.mass.max() / pieces.mass.sum()),
            "smooth_ece": float(sums.residuals.solution[1]),
        }

    def _known(self) -> Sums:
        pieces, mass = self._pieces(), self._cells[0].sum()
        columns: dict[Column, Tensor] = {
            "mass": pieces.mass,
            "gap": pieces.confidence - pieces.correct,
            "correct": pieces.correct,
        }
        return replace(
            self._running.known(with_classes=self.classwise),
            ranking=Ranking(self.samples, lambda column: columns[column].numpy(), self.bins),
            residuals=Residuals(self._residuals[:-1], mass, self._residuals[-1]),
        )

    def _pieces(self) -> Pieces:
        held = self._cells[0] > 0
        mass, correct, confidence = self._cells[:, held]
        low, high = (_joined(limits, last) for limits, last in zip(cell_limits(), (False, True), strict=True))
        return Pieces(mass, correct, confidence, low[held], high[held])


def _joined(limits: Tensor, last: bool) -> Tensor:
    """Return the limits of joined cells: the first of each group, or the last."""
    size = 1 << _JOINED_BITS
    padded = torch.cat([limits, limits[-1:].expand(_CELLS * size - len(limits))])
    return padded.view(_CELLS, size)[:, -1 if last else 0]
