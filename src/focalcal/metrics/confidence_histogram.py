"""Confidence counted in the cells of a fixed fine grid, when there are too many samples to keep."""

import torch
from torch import Tensor

from focalcal.metrics.confidence_cells import CELLS, cell_index, cell_limits
from focalcal.metrics.equal_mass_range import Pieces
from focalcal.metrics.statistics import ConfidenceSamples


class ConfidenceHistogram:
    """Counts and sums of each cell; those of two parts of the data add up.

    Attributes:
        counts: (2, CELLS) int64, samples of weight 1 and the right ones among them.
        sums: (3, CELLS) float64, the weight of other samples, of the right ones among them, and the weighted confidence
            of all.
    """

    def __init__(self) -> None:
        self.counts = torch.zeros(2, CELLS, dtype=torch.int64)
        self.sums = torch.zeros(3, CELLS, dtype=torch.float64)

    def add(self, samples: ConfidenceSamples) -> None:
        """Count samples."""
        cell = cell_index(samples.confidence)
        weight = torch.ones_like(samples.confidence) if samples.weight is None else samples.weight
        whole = weight == 1
        for row, chosen in enumerate((whole, whole & samples.correct)):
            self.counts[row].index_add_(0, cell[chosen], torch.ones_like(cell[chosen]))
        for row, chosen in enumerate((~whole, ~whole & samples.correct)):
            self.sums[row].index_add_(0, cell[chosen], weight[chosen])
        self.sums[2].index_add_(0, cell, weight * samples.confidence)

    @property
    def mass(self) -> Tensor:
        """(CELLS,) float64, the number of samples or their weight."""
        return self.counts[0] + self.sums[0]

    @property
    def correct(self) -> Tensor:
        """(CELLS,) float64, how much of the mass is right."""
        return self.counts[1] + self.sums[1]

    def pieces(self) -> Pieces:
        """The cells that hold samples."""
        mass, (low, high) = self.mass, cell_limits()
        held = mass > 0
        return Pieces(*(part[held] for part in (mass, self.correct, self.sums[2], low, high)))
