"""Metrics of every replicate that are functions of sums: means, shares, and errors in bins of equal width.

Each sample gives one row of numbers. The sums of those rows, each row taken as often as its sample is counted, are one
product of matrices, and every metric here is computed from such sums.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, bin_index, sum_by_index
from focalcal.metrics.resampling.counts import Counts, counted_sums, rows_in_chunk
from focalcal.metrics.statistics import SampleStatistics

Array = npt.NDArray[np.float64]

# What |S99| calls confident, and the k of top_5_accuracy.
CONFIDENT = 0.99
TOP_K = 5

SCALAR_METRICS = (
    "error",
    "accuracy",
    "top_5_accuracy",
    "nll",
    "brier",
    "ece",
    "mce",
    "confident_share",
    "confident_accuracy",
    "mean_confidence",
    "mean_confidence_right",
    "mean_confidence_wrong",
    "mean_entropy",
    "mean_entropy_right",
    "mean_entropy_wrong",
    "signed_gap",
)

# Kept apart for right and wrong samples, so that a sum over none is exactly 0 also where weights are added up.
COLUMNS = (
    "right",
    "wrong",
    "confidence_right",
    "confidence_wrong",
    "entropy_right",
    "entropy_wrong",
    "confident_right",
    "confident_wrong",
    "top_k",
    "nll",
    "infinite_nll",
    "brier",
)


def rows_of_sums(statistics: SampleStatistics, bins: int) -> Tensor:
    """(N, C) float64: what each sample adds to the sums, times its weight; `metrics_of_sums` reads them."""
    scalars, binned = terms_of_sums(statistics)
    rows = torch.zeros(len(statistics), rows_of_sums_width(bins), dtype=torch.float64)
    torch.stack(scalars, dim=1, out=rows[:, : len(scalars)])
    place = bin_index(statistics.confidence, bins)[:, None] + len(scalars)
    for number, term in enumerate(binned):
        rows.scatter_(1, place + number * bins, term[:, None])
    return rows


def sums_by_group(statistics: SampleStatistics, bins: int, group: Tensor, groups: int) -> Tensor:
    """(groups, C) float64: the sums of `rows_of_sums` over the samples of each group (N,), without those rows."""
    scalars, binned = terms_of_sums(statistics)
    place = group * bins + bin_index(statistics.confidence, bins)
    columns = [sum_by_index(group, groups, term)[:, None] for term in scalars]
    columns += [sum_by_index(place, groups * bins, term).view(groups, bins) for term in binned]
    return torch.cat(columns, dim=1)


def terms_of_sums(statistics: SampleStatistics) -> tuple[list[Tensor], list[Tensor]]:
    """What each sample adds, times its weight, (N,) float64 each: to the sums over all, and to those of its bin."""
    s = statistics
    weight = torch.ones_like(s.confidence) if s.weight is None else s.weight
    right, wrong = weight * s.correct, weight * ~s.correct
    confident = s.confidence >= CONFIDENT
    # 0 counts of an infinite loss would be NaN: losses that are infinite are counted in a column of their own.
    infinite = s.nll.isinf()
    scalars = [
        right,
        wrong,
        right * s.confidence,
        wrong * s.confidence,
        right * s.entropy,
        wrong * s.entropy,
        right * confident,
        wrong * confident,
        weight * (s.rank < TOP_K),
        weight * s.nll.masked_fill(infinite, 0),
        weight * infinite,
        weight * s.brier,
    ]
    return scalars, [weight, weight * s.confidence, right]


def rows_of_sums_width(bins: int) -> int:
    """How many columns `rows_of_sums` gives."""
    return len(COLUMNS) + 3 * bins


def absolute_gap_of_sums(sums: Tensor) -> Tensor:
    """(B,) Σ |confidence − correctness| of (B, C) sums of `rows_of_sums`."""
    column = {name: sums[:, place] for place, name in enumerate(COLUMNS)}
    return column["right"] - column["confidence_right"] + column["confidence_wrong"]


def metrics_of_sums(sums: Tensor, bins: int) -> dict[str, Array]:
    """Metrics by name, (B,) each, of (B, C) sums of `rows_of_sums`; NaN where nothing is there to take a mean of."""
    column = {name: sums[:, place].numpy() for place, name in enumerate(COLUMNS)}
    binned = BinSums(*torch.split(sums[:, len(COLUMNS) :], bins, dim=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return {**_scalar_metrics(column), **_binned_metrics(binned)}


def _scalar_metrics(column: dict[str, Array]) -> dict[str, Array]:
    right, wrong = column["right"], column["wrong"]
    total = right + wrong
    confidence = (column["confidence_right"] + column["confidence_wrong"]) / total
    confident = column["confident_right"] + column["confident_wrong"]
    return {
        "error": wrong / total,
        "accuracy": right / total,
        "top_5_accuracy": column["top_k"] / total,
        "nll": np.where(column["infinite_nll"] > 0, np.inf, column["nll"] / total),
        "brier": column["brier"] / total,
        "confident_share": confident / total,
        "confident_accuracy": column["confident_right"] / confident,
        "mean_confidence": confidence,
        "mean_confidence_right": column["confidence_right"] / right,
        "mean_confidence_wrong": column["confidence_wrong"] / wrong,
        "mean_entropy": (column["entropy_right"] + column["entropy_wrong"]) / total,
        "mean_entropy_right": column["entropy_right"] / right,
        "mean_entropy_wrong": column["entropy_wrong"] / wrong,
        "signed_gap": confidence - right / total,
    }


def _binned_metrics(sums: BinSums) -> dict[str, Array]:
    gap = sums.gap.abs().numpy()
    count = sums.count.numpy()
    return {
        "ece": gap.sum(axis=1) / count.sum(axis=1),
        "mce": np.where(count > 0, gap / count, 0.0).max(axis=1),
    }


class ScalarReplicates:
    """Metrics that are functions of sums, from counts.

    Args:
        statistics: of N samples.
        bins: how many bins of equal width.
    """

    def __init__(self, statistics: SampleStatistics, bins: int) -> None:
        self._statistics = statistics
        self._bins = bins

    def values(self, counts: Counts) -> dict[str, Array]:
        """Metrics by name, (B,) each, for counts (N, B)."""
        chunks = chunks_of(self._statistics, rows_in_chunk(counts.shape[1]))
        sums = counted_sums(counts, (rows_of_sums(chunk, self._bins) for chunk in chunks))
        return metrics_of_sums(sums, self._bins)


def chunks_of(statistics: SampleStatistics, rows: int) -> Iterator[SampleStatistics]:
    """Consecutive parts of at most ``rows`` samples; nothing is copied."""
    columns: dict[str, Tensor | None] = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    for start in range(0, len(statistics), rows):
        part: dict[str, Any] = {k: None if v is None else v[start : start + rows] for k, v in columns.items()}
        yield SampleStatistics(**part)
