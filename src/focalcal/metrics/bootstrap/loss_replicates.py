"""The calibration and refinement parts of NLL and Brier score of every replicate, without a temperature fit to each.

Near its minimum a mean loss is a parabola in u = log(1/T). Each sample's loss at the best temperature of the data, with
its two derivatives, gives, summed with counts, the parabola of a resample: its lowest point is the resample's
refinement, up to terms of third order in how far the resample's best temperature is from the data's, of order 1/√n.
"""

import math
from collections.abc import Iterator
from copy import copy
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.bootstrap.counts import Counts, counted_sums, rows_in_chunk
from focalcal.metrics.catalogue import Source
from focalcal.metrics.refinement import LossParts, LossSplit, LossSplits, loss_splits, losses_around
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Sums
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

# The distance, in log T, of the three points that stand for a parabola.
_STEP = 0.05
# A resample whose parabola has its lowest point farther off, in log T, is taken at this distance.
_FARTHEST = 0.5


class LossReplicates:
    """Parts of the losses from counts.

    Args:
        preds: N predictions.
        statistics: Their statistics.
        splits: The parts of their losses, if they are at hand, to save passes.
    """

    sources: tuple[Source, ...] = ("outputs",)

    def __init__(self, preds: Predictions, statistics: SampleStatistics, splits: LossSplits | None = None) -> None:
        splits = loss_splits(preds, statistics=statistics) if splits is None else splits
        weight = torch.ones_like(statistics.confidence) if statistics.weight is None else statistics.weight
        losses = [
            torch.stack([statistics.nll, *_around(preds, "nll", splits.nll)], dim=1),
            torch.stack([statistics.brier, *_around(preds, "brier", splits.brier)], dim=1),
        ]
        # A sample without weight may have an infinite loss.
        rows = torch.cat([torch.ones(len(weight), 1).double(), *losses], dim=1)
        self._rows = (rows * weight[:, None]).masked_fill_(weight[:, None] == 0, 0)

    def by_group(self, group: Tensor, groups: int) -> "LossReplicates":
        """Take counts of groups instead of samples."""
        grouped = copy(self)
        empty = torch.zeros(groups, self._rows.shape[1], dtype=torch.float64)
        grouped._rows = empty.index_add_(0, group, self._rows)
        return grouped

    def sums(self, counts: Counts) -> Iterator[Sums]:
        """Yield the losses and their refinement of all replicates at once; NaN where a loss is infinite."""
        sums = counted_sums(counts, torch.split(self._rows, rows_in_chunk(counts.shape[1]))).numpy()
        parts: list[Tensor] = []
        with np.errstate(invalid="ignore"):
            means = sums[:, 1:] / sums[:, :1]
            for total, *three in np.split(means.T, 2):
                parts += [torch.from_numpy(total), torch.from_numpy(np.minimum(lowest(*three), total))]
        yield Sums(outputs=LossParts(*parts))


def _around(preds: Predictions, loss: Literal["nll", "brier"], split: LossSplit) -> list[Tensor]:
    """Compute each sample's loss a step below, at and a step above the best T, on its parabola in log T; (N,) each."""
    if math.isnan(split.temperature):
        return [torch.full((len(preds),), math.nan, dtype=torch.float64)] * 3
    known = losses_around(preds, loss, split.temperature) if split.around is None else split.around
    value, slope, curvature = known
    return [value + step * slope + step**2 / 2 * curvature for step in (-_STEP, 0.0, _STEP)]


def lowest(below: Array, middle: Array, above: Array) -> Array:
    """Find the lowest value of parabolas through values at −1, 0 and 1 steps, no farther than they can be trusted.

    Examples:
        >>> lowest(np.array([4.0]), np.array([1.0]), np.array([0.0])).tolist()  # (x − 1)²
        [0.0]
    """
    slope, curvature = (above - below) / 2, above - 2 * middle + below
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.clip(np.where(curvature > 0, -slope / curvature, 0.0), -_FARTHEST / _STEP, _FARTHEST / _STEP)
    return np.asarray(middle + slope * step + curvature * step**2 / 2)
