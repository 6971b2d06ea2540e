"""All metrics from sums whose size is fixed, at most 1 MB: parts of the data join by adding their tensors.

What frameworks can hold as a state and add over processes. Where `Accumulator` keeps samples to be exact, here the
order of confidences is known from cells up to 2^-12 wide, and smooth ECE comes from a coarser grid.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from focalcal.base.measures import MEASURES, Of
from focalcal.base.suggestions import did_you_mean
from focalcal.metrics.binning import check_bins, sum_by_index
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.confidence_cells import CELLS, cell_index, cell_limits
from focalcal.metrics.ranking import Column, Ranking
from focalcal.metrics.samples import SampleStatistics, block_statistics
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.metrics.streaming.ada_ece_bound import Pieces, ada_ece_range
from focalcal.metrics.streaming.running_sums import RunningSums, check_num_classes
from focalcal.metrics.streaming.temperature_grid import TemperatureGrid
from focalcal.metrics.sums import Sums, values
from focalcal.predictions import Kind, Predictions
from focalcal.predictions.container import from_rows
from focalcal.predictions.description import Columns, Description
from focalcal.predictions.rows import WORDS, count_columns, prepare_rows
from focalcal.predictions.tensors import cpu_tensor

# NLL after temperature scaling, and that temperature, beside the catalogue's metrics.
SCALED = ("scaled_nll", "temperature")
# Sums per class and bin take 608 bytes per class: up to this many classes everything together stays below 1 MB.
MOST_CLASSES = 1000
# Neighbouring cells of the accumulator's grid that are one cell here, as a power of two.
_JOINED_BITS = 5
_CELLS = (CELLS >> _JOINED_BITS) + 1
_SMOOTH_CELLS = 2**14
# AdaECE and the KS error are not told if they may be off by more.
_LARGEST_BOUND = 0.01
# What adding up in float64 can lose, relative to the total mass.
_ROUNDING = 1e-11


def choose_metrics(names: Sequence[str] | None, num_classes: int, of: Of = "top") -> tuple[str, ...]:
    """Check names of metrics that fixed sums give; None for all, with classwise-ECE only up to 1,000 classes.

    Examples:
        >>> ["classwise_ece" in choose_metrics(None, num_classes) for num_classes in (1000, 1001)]
        [True, False]
        >>> choose_metrics(["ecs"], num_classes=10)
        Traceback (most recent call last):
        ValueError: There is no metric 'ecs'; did you mean 'ece'?
        >>> choose_metrics(["debiased_ece"], num_classes=10)
        Traceback (most recent call last):
        ValueError: debiased_ece needs all samples and cannot be computed batch by batch: use focalcal.evaluate.
    """
    check_num_classes(num_classes)
    known = [name for name in (*METRICS, *SCALED) if _from_sums(name, num_classes, of)]
    if names is None:
        return tuple(name for name in known if name != "classwise_ece" or num_classes <= MOST_CLASSES)
    if isinstance(names, str):
        raise TypeError(f"metrics must be a list of names, got the text {names!r}.")
    for name in names:
        if name not in known:
            raise ValueError(
                _why_not(name, num_classes, of) or f"There is no metric {name!r}{did_you_mean(name, known)}"
            )
    return tuple(names)


def _from_sums(name: str, num_classes: int, of: Of) -> bool:
    return name in SCALED or (not _needs_samples(name) and bool(names_for([name], num_classes, of)))


def _needs_samples(name: str) -> bool:
    metric = METRICS[name]
    return metric.source == "outputs" or (metric.source == "ranking" and not metric.partial_sums)


def _why_not(name: str, num_classes: int, of: Of) -> str | None:
    if name not in METRICS:
        return None
    if _needs_samples(name):
        return f"{name} needs all samples and cannot be computed batch by batch: use focalcal.evaluate."
    if of not in METRICS[name].of:
        return f"{name} cannot be computed for predictions that are measured by {MEASURES[of].title}."
    return f"{name} says nothing with {num_classes} classes: leave it out."


def batch_predictions(
    outputs: Any, labels: Any, *, logits: bool, weights: Any = None, ignore_index: int | None = -100
) -> Predictions:
    """Check the outputs and labels of a batch, which may be empty once the ignored positions are left out.

    One column is the score of class 1, and measured as a score.
    """
    kind: Kind = "logits" if logits else "probs"
    outputs = cpu_tensor(outputs, WORDS[kind])
    of, _ = Columns().measure(count_columns(outputs))
    rows = prepare_rows(kind, outputs, labels, weights=weights, ignore_index=ignore_index)
    return from_rows(rows, kind, Description(of=of))


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
        check_num_classes(num_classes)
        self.num_classes, self.bins, self.classwise = num_classes, bins, classwise
        self._running = RunningSums(num_classes if classwise else 0, bins, in_folds=False)
        self._running.exponent = 0  # weights are added up as they are
        self._cells = torch.zeros(3, _CELLS, dtype=torch.float64)  # mass, correct mass, confidence
        self._residuals = torch.zeros(_SMOOTH_CELLS + 2, dtype=torch.float64)  # the last: the sum of their sizes
        self._temperatures = TemperatureGrid()
        self._scores = torch.zeros(1, dtype=torch.int64)  # samples that are measured as scores

    @classmethod
    def for_metrics(cls, names: Sequence[str], num_classes: int, bins: int = 15) -> "FixedSums":
        """Make sums that give these metrics; up to 1,000 classes they have the same shape whatever the metrics are."""
        return cls(num_classes, bins, classwise="classwise_ece" in names or num_classes <= MOST_CLASSES)

    def tensors(self) -> dict[str, Tensor]:
        """Return the sums themselves, int64 and float64 tensors by name; what is added to them counts."""
        return {
            "counts": self._running.counts,
            "sums": self._running.sums,
            "cells": self._cells,
            "residuals": self._residuals,
            "temperatures": self._temperatures.sums,
            "scores": self._scores,
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

    @property
    def of(self) -> Of:
        """The measure of calibration: the predicted class, or the score of class 1.

        Raises:
            ValueError: If sums of both were joined.
        """
        scores = int(self._scores)
        if scores not in (0, self.samples):
            raise ValueError(_both_kinds())
        return "score" if scores else "top"

    def add(self, preds: Predictions) -> None:
        """Add predictions of classes or of scores, all of them alike."""
        if preds.num_classes != self.num_classes:
            raise ValueError(f"The outputs have {preds.num_classes} classes, and num_classes is {self.num_classes}.")
        if self.samples and preds.of != self.of:
            raise ValueError(_both_kinds())
        if len(preds) == 0:
            return
        before = self.samples
        for stats, probs in block_statistics(preds):
            fold = torch.zeros_like(stats.label)  # there are no intervals
            self._running.add(stats, fold)
            if self.classwise:
                self._running.add_classes(stats, probs, fold)
            self._add_confidence(stats)
        self._temperatures.add(preds.logits(), preds.labels, preds.weights)
        if preds.of == "score":
            self._scores += self.samples - before

    def _add_confidence(self, stats: SampleStatistics) -> None:
        cell = cell_index(stats.confidence) >> _JOINED_BITS
        for row, term in zip(self._cells, (None, stats.correct, stats.confidence), strict=True):
            row += sum_by_index(cell, _CELLS, stats.mass if term is None else stats.mass * term)
        size = (stats.correct.double() - stats.confidence).abs() * stats.mass
        self._residuals[:-1] += residual_grid(stats.confidence, stats.correct, stats.weight, cells=_SMOOTH_CELLS)
        self._residuals[-1] += size.sum()

    def compute(self, names: Iterable[str]) -> dict[str, float]:
        """Compute metrics by name.

        NaN where one is undefined, as all are without samples, and where AdaECE or the KS error may be off by more than
        0.01 because most confidences lie in a few cells.
        """
        names = list(names)
        if self.samples == 0:
            return dict.fromkeys(names, math.nan)
        found = self._values([name for name in names if name not in SCALED])
        if set(names) & {"ada_ece", "ks_error"}:
            found |= {name: math.nan for name, bound in self.bounds().items() if bound > _LARGEST_BOUND}
        if set(names) & set(SCALED):
            least, temperature = self._temperatures.minimum()
            found |= {"scaled_nll": least / float(self._cells[0].sum()), "temperature": temperature}
        return {name: found[name] for name in names}

    def bounds(self) -> dict[str, float]:
        """Bound how far AdaECE, the KS error and smooth ECE may be from those of the samples themselves."""
        sums, pieces = self._known(), self._pieces()
        assert sums.ranking is not None
        assert sums.residuals is not None
        found = self._values(["ada_ece", "ks_error"])
        low, high = ada_ece_range(pieces, torch.from_numpy(sums.ranking.cuts))
        return {
            "ada_ece": max(high - found["ada_ece"], found["ada_ece"] - low),
            "ks_error": _largest_ks_error(pieces) - found["ks_error"],
            "smooth_ece": float(sums.residuals.solution[1]),
        }

    def _values(self, names: Sequence[str]) -> dict[str, float]:
        return {name: float(value) for name, value in values(self._known(), names).items()}

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
        low, high = (_join_limits(limits, last) for limits, last in zip(cell_limits(), (False, True), strict=True))
        return Pieces(mass, correct, confidence, low[held], high[held])


def _both_kinds() -> str:
    kinds = " and some of ".join(MEASURES[of].title for of in ("score", "top"))
    return f"Some predictions are of {kinds}; measure them apart: always pass one column, or always two."


def _largest_ks_error(pieces: Pieces) -> float:
    """Return the largest KS error that samples in such pieces can have: all right ones first, or all wrong ones."""
    gap = pieces.confidence - pieces.correct
    before = gap.cumsum(0) - gap
    highest = before + (pieces.mass - pieces.correct) * pieces.high
    lowest = before - pieces.correct * (1 - pieces.low)
    return float(torch.maximum(highest.abs(), lowest.abs()).max() / pieces.mass.sum()) + _ROUNDING


def _join_limits(limits: Tensor, last: bool) -> Tensor:
    """Return the limits of joined cells: the first of each group, or the last."""
    size = 1 << _JOINED_BITS
    padded = torch.cat([limits, limits[-1:].expand(_CELLS * size - len(limits))])
    return padded.view(_CELLS, size)[:, -1 if last else 0]
