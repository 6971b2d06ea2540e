"""Confidences in ascending order with the mass at each: of single samples, or of cells if there are many samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, sum_by_index
from focalcal.metrics.ranking import Column, RankedSamples, Ranking
from focalcal.metrics.samples import ConfidenceSamples


@dataclass(frozen=True)
class RankedConfidence:
    """Confidences in order, which curves are made of; (P,) float64 each, ascending by confidence.

    Attributes:
        confidence: The confidence of samples that tie, or the mean of a cell.
        mass: The number of samples there, or their weight; positive.
        correct: The mass of right predictions.
        samples: Number of samples in all.
    """

    confidence: Tensor
    mass: Tensor
    correct: Tensor
    samples: int

    @classmethod
    def of_samples(cls, samples: ConfidenceSamples) -> RankedConfidence:
        """Make one entry per confidence: samples that tie have no order. Those of weight 0 are left out."""
        ranked = RankedSamples(samples)
        ranking = ranked.ranking()
        columns = torch.from_numpy(np.stack([ranked.confidence, ranking.mass, ranking.correct]))
        confidence, mass, correct = columns[:, columns[1] > 0]
        return cls(confidence, mass, correct, int(ranking.samples))

    def equal_mass(self, bins: int) -> BinSums:
        """Compute sums over M bins of equal mass; where a cut falls within an entry, both sides get their share of it.

        For samples, not cells, these are the bins of AdaECE.

        Examples:
            >>> samples = ConfidenceSamples(torch.tensor([0.9, 0.6, 0.8]), torch.tensor([True, False, True]), None)
            >>> sums = RankedConfidence.of_samples(samples).equal_mass(2)
            >>> sums.count.tolist(), sums.correct.tolist()
            ([2.0, 1.0], [1.0, 1.0])
        """
        columns: dict[Column, Tensor] = {
            "mass": self.mass,
            "gap": self.mass * self.confidence - self.correct,
            "correct": self.correct,
        }
        return Ranking(self.samples, lambda column: columns[column].numpy(), bins).equal_mass_bins()


class ConfidenceCells:
    """Counts confidences in fixed cells, as they come, in memory that does not grow with their number.

    The cells end at i/150, so that sums over 5, 10, 15, 25, 30, 50, 75 or 150 bins of equal width are exact, are at
    most 1/4800 wide, and become finer towards 1, where confidences crowd.
    """

    def __init__(self) -> None:
        self._sums = torch.zeros(3, len(CELL_EDGES) + 1, dtype=torch.float64)
        self._samples = 0

    def add(self, samples: ConfidenceSamples) -> None:
        """Add samples."""
        cell = torch.bucketize(samples.confidence.double(), CELL_EDGES)
        weight = torch.ones_like(samples.confidence, dtype=torch.float64) if samples.weight is None else samples.weight
        self._samples += int((weight > 0).sum())
        for row, values in zip(
            self._sums, (weight, weight * samples.correct, weight * samples.confidence), strict=True
        ):
            row += sum_by_index(cell, len(row), values)

    def rank(self) -> RankedConfidence:
        """Return the cells that hold something."""
        mass, correct, confidence = self._sums[:, self._sums[0] > 0]
        return RankedConfidence(confidence / mass, mass, correct, self._samples)


def _cell_edges() -> Tensor:
    """Return the upper ends of all cells but the last."""
    even = np.arange(1, 4800) / 4800
    # 40 cells to each factor of ten, from 1/1000 to 1e-12 below 1.
    near_one = 1 - np.logspace(-3, -12, 361)
    return torch.from_numpy(np.unique(np.concatenate([even, near_one])))


CELL_EDGES = _cell_edges()
