"""Sums that metrics are functions of, and the one place that turns them into values.

Samples become sums, and sums become values. Whatever has the sums (the data themselves, a thousand resamples at once,
an accumulator that has forgotten its samples) gets every metric by the same functions: those of `focalcal.metrics`,
which take predictions or `Sums`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, bin_index, sum_by_index
from focalcal.metrics.catalogue import CONFIDENT, METRICS, TOP_K, Source
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from focalcal.metrics.classwise import ClassGaps
    from focalcal.metrics.ranking import Ranking
    from focalcal.metrics.refinement import LossParts
    from focalcal.metrics.smooth import Residuals

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Means:
    """Sums over all samples, each times its weight; () float64 each, or (B,) for B resamples.

    Kept apart for right and wrong samples, so that a sum over none is exactly 0 also where weights are added up.

    Attributes:
        hits: How many predicted classes are the label.
        misses: How many are not.
        right: How many are right: `ConfidenceSamples.correct`, which of scores is not the same as a hit.
        wrong: How many are wrong.
        confidence_right: Their confidence.
        confidence_wrong: Their confidence.
        entropy_right: Their entropy.
        entropy_wrong: Their entropy.
        confident_right: How many of the right are confident.
        confident_wrong: How many of the wrong are confident.
        top_k: How many labels are among the k largest outputs.
        nll: Negative log-likelihoods, without infinite ones.
        infinite_nll: How many of those are infinite.
        brier: Brier scores.
    """

    hits: Tensor
    misses: Tensor
    right: Tensor
    wrong: Tensor
    confidence_right: Tensor
    confidence_wrong: Tensor
    entropy_right: Tensor
    entropy_wrong: Tensor
    confident_right: Tensor
    confident_wrong: Tensor
    top_k: Tensor
    nll: Tensor
    infinite_nll: Tensor
    brier: Tensor

    @property
    def total(self) -> Tensor:
        """The number of samples, or their weight."""
        return self.right + self.wrong

    @property
    def confidence(self) -> Tensor:
        """The sum of confidence."""
        return self.confidence_right + self.confidence_wrong

    @property
    def absolute_gap(self) -> Tensor:
        """Σ |confidence − correct|."""
        return self.right - self.confidence_right + self.confidence_wrong


@dataclass(frozen=True)
class Sums:
    """Everything that metrics can be computed from, of the data or of B resamples; the fields are `Source` names.

    A metric function takes this instead of predictions, and then gives an array of B values where there are resamples.
    What is None is not known, and neither are the metrics that need it.
    """

    means: Means | None = None
    bins: BinSums | None = None
    chance: Tensor | None = None
    ranking: Ranking | None = None
    classes: ClassGaps | None = None
    residuals: Residuals | None = None
    outputs: LossParts | None = None


# What metric functions take; they are given sums only by `values`.
Measurable = Predictions | Sums


def values(sums: Sums, names: Iterable[str]) -> dict[str, Array]:
    """Compute metrics by name: a number each, or an array (B,) for sums of B resamples; NaN where one is undefined."""
    package = importlib.import_module("focalcal.metrics")
    return {name: cast(Array, getattr(package, name)(sums)) for name in names}


def names_from(names: Iterable[str], sources: Iterable[Source]) -> list[str]:
    """Return those of the names that are computed from one of the sources.

    Examples:
        >>> names_from(["ece", "nll", "ada_ece"], ["bins", "ranking"])
        ['ece', 'ada_ece']
    """
    return [name for name in names if METRICS[name].source in sources]


def get_sums(sums: Sums, source: Source) -> Any:
    """Return the sums of one source; raises where they are not known."""
    found = getattr(sums, source)
    if found is None:
        raise ValueError(f"There are no sums of {source} to compute this metric from.")
    return found


def means(preds: Measurable, *, k: int = TOP_K, threshold: float = CONFIDENT) -> Means:
    """Sum over all samples.

    Args:
        preds: Predictions or sums.
        k: How many of the largest outputs count for ``top_k``.
        threshold: The least confidence that counts as confident.
    """
    if isinstance(preds, Sums):
        return cast(Means, get_sums(preds, "means"))
    return means_of_samples(sample_statistics(preds), k, threshold)


def means_of_samples(stats: SampleStatistics, k: int = TOP_K, threshold: float = CONFIDENT) -> Means:
    """Sum what `mean_terms` gives."""
    return Means(**{name: term.sum() for name, term in mean_terms(stats, k, threshold).items()})


def mean_terms(s: SampleStatistics, k: int = TOP_K, threshold: float = CONFIDENT) -> Mapping[str, Tensor]:
    """Return what each sample adds to `Means`, times its weight, (N,) float64 each."""
    mass = s.mass
    right, wrong = mass * s.correct, mass * ~s.correct
    confident = s.confidence >= threshold
    # An infinite loss is counted and not added: of weight 0, or counted 0 times, it must not show.
    infinite = s.nll.isinf()
    hit = s.right
    lost = s.nll.masked_fill(infinite, 0) if bool(infinite.any()) else s.nll
    return {
        "hits": mass * hit,
        "misses": mass * ~hit,
        "right": right,
        "wrong": wrong,
        "confidence_right": right * s.confidence,
        "confidence_wrong": wrong * s.confidence,
        "entropy_right": right * s.entropy,
        "entropy_wrong": wrong * s.entropy,
        "confident_right": right * confident,
        "confident_wrong": wrong * confident,
        "top_k": mass * (s.rank < k),
        "nll": mass * lost,
        "infinite_nll": mass * infinite,
        "brier": mass * s.brier,
    }


class RowsOfSums:
    """Rows of numbers, one per sample, whose sums over any samples are `Means` and `BinSums`.

    Args:
        bins: Number of bins of equal width.
    """

    columns = tuple(Means.__dataclass_fields__)

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.width = len(self.columns) + 3 * bins

    def of_samples(self, stats: SampleStatistics) -> Tensor:
        """Return (N, width) float64."""
        rows = torch.zeros(len(stats), self.width, dtype=torch.float64)
        torch.stack(list(mean_terms(stats).values()), dim=1, out=rows[:, : len(self.columns)])
        place = bin_index(stats.confidence, self.bins)[:, None] + len(self.columns)
        for number, term in enumerate(_bin_terms(stats)):
            rows.scatter_(1, place + number * self.bins, term[:, None])
        return rows

    def add_to_groups(self, total: Tensor, stats: SampleStatistics, group: Tensor) -> None:
        """Add rows to (G, width) sums of the groups (N,) of samples, without writing the rows out."""
        scalars = len(self.columns)
        for column, term in enumerate(mean_terms(stats).values()):
            total[:, column] += sum_by_index(group, len(total), term)
        place = group * self.bins + bin_index(stats.confidence, self.bins)
        binned = torch.stack([sum_by_index(place, len(total) * self.bins, term) for term in _bin_terms(stats)])
        total[:, scalars:] += binned.view(3, len(total), self.bins).transpose(0, 1).reshape(len(total), -1)

    def sums(self, rows: Tensor) -> Sums:
        """Read sums of rows, (B, width) or (width,)."""
        means, binned = rows[..., : len(self.columns)], rows[..., len(self.columns) :]
        return Sums(means=Means(*means.unbind(-1)), bins=BinSums(*torch.split(binned, self.bins, dim=-1)))


def _bin_terms(s: SampleStatistics) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the contribution of each sample to the `BinSums` of its bin."""
    return s.mass, s.mass * s.confidence, s.mass * s.correct
