"""One object that evaluates any of the resampled metrics on any resample."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from focalcal.metrics.resampling.classwise import ClasswiseReplicates
from focalcal.metrics.resampling.counts import Counts
from focalcal.metrics.resampling.equal_mass import EQUAL_MASS_METRICS, EqualMassReplicates
from focalcal.metrics.resampling.loss_parts import LOSS_PARTS, LossPartReplicates
from focalcal.metrics.resampling.scalars import SCALAR_METRICS, ScalarReplicates
from focalcal.metrics.resampling.smooth import SmoothReplicates
from focalcal.metrics.statistics import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

# What can be compared between models, too; the parts of losses can be resampled, but not swapped.
RESAMPLED_METRICS = (*SCALAR_METRICS, *EQUAL_MASS_METRICS, "classwise_ece", "smooth_ece")


class Part(Protocol):
    """What knows some metrics of resamples."""

    def values(self, counts: Counts) -> dict[str, Array]:
        """Metrics by name, (B,) each, for counts (rows, B)."""


class PartsResampler:
    """Evaluates metrics on any resample, given as counts, by parts each of which knows some metrics.

    Args:
        metrics: names, each of which some part knows.
        parts: objects with a method ``values``.
    """

    def __init__(self, metrics: Sequence[str], parts: Sequence[Part]) -> None:
        self._metrics = tuple(metrics)
        self._parts = tuple(parts)

    def values(self, counts: Counts) -> dict[str, Array]:
        """Metrics by name, (B,) float64 each, for counts (rows, B); NaN where one is undefined."""
        found: dict[str, Array] = {}
        for part in self._parts:
            found |= part.values(counts)
        return {name: found[name] for name in self._metrics}

    def of_blocks(self, blocks: Iterable[Counts]) -> dict[str, Array]:
        """The values of one block of replicates after another, joined."""
        parts = [self.values(counts) for counts in blocks]
        return {name: np.concatenate([part[name] for part in parts]) for name in self._metrics}

    def of_both(self, counts: Counts, others: Counts) -> tuple[dict[str, Array], dict[str, Array]]:
        """`values` of two sets of counts which add up to the same in every replicate: what a swap leaves and takes."""
        first: dict[str, Array] = {}
        second: dict[str, Array] = {}
        for part in self._parts:
            of_first, of_second = _both(part, counts, others)
            first |= of_first
            second |= of_second
        return {name: first[name] for name in self._metrics}, {name: second[name] for name in self._metrics}


class Resampler(PartsResampler):
    """Evaluates metrics on any resample of the same samples, given as counts, without writing the resample out.

    Args:
        sets: one or more predictions of the same N samples (same labels, same weights). With two of them the counts
            have 2N rows, in which the two predictions of a sample stand side by side. None need be given where their
            statistics are and classwise-ECE is not wanted.
        metrics: names out of `RESAMPLED_METRICS`, and of `LOSS_PARTS` for one set.
        bins: how many bins.
        statistics: of each set, if they are at hand.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], [0, 1, 1])
        >>> counts = np.array([[1, 3], [1, 0], [1, 0]], dtype=np.uint8)
        >>> Resampler([preds], ["error", "ece"]).values(counts)["ece"].round(4).tolist()
        [0.2917, 0.25]
    """

    def __init__(
        self,
        sets: Sequence[Predictions],
        metrics: Sequence[str],
        bins: int = 15,
        statistics: Sequence[SampleStatistics] | None = None,
    ) -> None:
        each = [sample_statistics(preds) for preds in sets] if statistics is None else statistics
        joined = each[0] if len(each) == 1 else side_by_side(each)
        makers: dict[tuple[str, ...], Callable[[], Part]] = {
            SCALAR_METRICS: lambda: ScalarReplicates(joined, bins),
            EQUAL_MASS_METRICS: lambda: EqualMassReplicates(joined, bins, tuple(metrics)),
            ("classwise_ece",): lambda: ClasswiseReplicates(sets, bins),
            ("smooth_ece",): lambda: SmoothReplicates(joined),
            LOSS_PARTS: lambda: LossPartReplicates(sets[0], each[0]),
        }
        super().__init__(metrics, [make() for names, make in makers.items() if set(names) & set(metrics)])


def _both(part: Part, counts: Counts, others: Counts) -> tuple[dict[str, Array], dict[str, Array]]:
    # Classwise sums are the dearest, and those of the others are what is left of the sums of all.
    if isinstance(part, ClasswiseReplicates):
        return part.of_complements(counts, others)
    return part.values(counts), part.values(others)


def side_by_side(sets: Sequence[SampleStatistics]) -> SampleStatistics:
    """Statistics in which the several predictions of each sample follow each other."""
    columns = {field.name: [getattr(s, field.name) for s in sets] for field in fields(SampleStatistics)}
    joined: dict[str, Any] = {
        name: None if each[0] is None else torch.stack(each, dim=1).reshape(-1) for name, each in columns.items()
    }
    return SampleStatistics(**joined)
