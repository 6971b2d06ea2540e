"""What AdaECE and smooth ECE need to know of the samples: all of it while they are few, a fine histogram after that."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from focalcal.metrics.binning import equal_mass_bounds, equal_mass_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.confidence_cells import CELLS
from focalcal.metrics.confidence_histogram import ConfidenceHistogram
from focalcal.metrics.debiased import debiased_ece_from_statistics
from focalcal.metrics.equal_mass_range import Pieces, ada_ece_of_pieces
from focalcal.metrics.kept_samples import KeptSamples
from focalcal.metrics.ordered_cells import OrderedCells
from focalcal.metrics.smooth import CELLS as SMOOTH_CELLS
from focalcal.metrics.smooth import BoundedValue, residual_grid, smooth_ece_of_grid
from focalcal.metrics.statistics import ConfidenceSamples

# Samples kept one by one (16 bytes each) before they are counted in a histogram.
KEPT_SAMPLES = 2**17
# A run of samples in the log of arrivals has at most twice this share of all, divided by the number of bins. Each cut
# between bins can be off by half a run, and moves two gaps: together that is less than 1e-4.
_RUN_SHARE_OF_A_BIN = 4e-5


class ConfidenceSketch:
    """Confidence and correctness of all samples, in memory that does not grow with their number.

    Args:
        bins: the number of bins of AdaECE.

    Attributes:
        kept: the samples themselves, up to `KEPT_SAMPLES`, or the latest that are not yet in the histogram.
        histogram: the samples beyond that, or None while there were none.
        cells: more of the order of the samples in the histogram; None once parts have been merged, which have no order.
        ordered: whether the order of arrival is known.
    """

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.kept = KeptSamples()
        self.histogram: ConfidenceHistogram | None = None
        self.cells: OrderedCells | None = None
        self.ordered = True
        # Residuals on the grid of smooth ECE, and last the sum of their sizes.
        self.residuals = torch.zeros(SMOOTH_CELLS + 2, dtype=torch.float64)
        self.samples = 0

    def add(self, samples: ConfidenceSamples) -> None:
        """Add samples in order of arrival."""
        for start in range(0, len(samples), KEPT_SAMPLES):
            part = slice(start, start + KEPT_SAMPLES)
            weight = None if samples.weight is None else samples.weight[part]
            before = len(self.kept)
            self.kept.add(ConfidenceSamples(samples.confidence[part], samples.correct[part], weight))
            self.samples += len(self.kept) - before
            if len(self.kept) > KEPT_SAMPLES:
                self.fold()

    def fold(self) -> None:
        """Count the samples that are kept in the histogram."""
        samples = self.kept.samples()
        if self.histogram is None:
            self.histogram = ConfidenceHistogram()
            if self.ordered:
                self.cells = OrderedCells.around(samples.confidence, _RUN_SHARE_OF_A_BIN / self.bins)
        self.histogram.add(samples)
        if self.cells is not None:
            self.cells.add(samples)
        self.residuals += _residuals(samples)
        self.kept = KeptSamples()

    def settle(self) -> None:
        """Bring into the form that depends on the samples alone: all are kept, or all are in the histogram."""
        if len(self.kept) and (self.samples > KEPT_SAMPLES or self.histogram is not None):
            self.fold()
        elif not self.ordered:
            self.kept = self.kept.in_any_order(KeptSamples())

    def merge(self, other: "ConfidenceSketch") -> None:
        """Add the samples of another sketch; which of the two came first is forgotten."""
        if other.samples == 0:
            return
        if self.samples == 0:
            self.__dict__.update(copy.deepcopy(other).__dict__)
            return
        self.ordered, self.cells = False, None
        self.samples += other.samples
        self.kept = self.kept.in_any_order(other.kept)
        if other.histogram is not None:
            self.histogram = self.histogram or ConfidenceHistogram()
            self.histogram.counts += other.histogram.counts
            self.histogram.sums += other.histogram.sums
            self.residuals += other.residuals
        self.settle()

    def ada_ece(self) -> BoundedValue:
        """AdaECE, with a bound on its distance from that of the samples in order of arrival (if known; or in any)."""
        self.settle()
        if self.cells is not None:
            cuts = self._cuts(self.cells.mass)
            return ada_ece_of_pieces(self.cells.pieces(cuts), cuts)
        if self.histogram is not None:
            pieces = self.histogram.pieces()
        else:
            samples = self.kept.samples()
            if self.ordered:
                sums = equal_mass_sums(samples.confidence, samples.correct, self.bins, samples.weight)
                return BoundedValue(mean_gap(sums), 0.0)
            pieces = _ties(samples)
        return ada_ece_of_pieces(pieces, self._cuts(pieces.mass.sum()))

    def _cuts(self, mass: Tensor) -> Tensor:
        return equal_mass_bounds(self.samples, self.bins) * (mass / self.samples)

    def smooth_ece(self) -> BoundedValue:
        """Smooth ECE, with a bound on its error."""
        samples = self.kept.samples()
        residuals = self.residuals + _residuals(samples)
        mass = float(len(samples) if samples.weight is None else samples.weight.sum())
        if self.histogram is not None:
            mass += float(self.histogram.mass.sum())
        return smooth_ece_of_grid(residuals[:-1], mass, float(residuals[-1]))

    def debiased_ece(self) -> float | None:
        """Debiased ECE while all samples are kept, None after that: its bins cannot be cut in a histogram."""
        return None if self.histogram is not None else debiased_ece_from_statistics(self.kept.samples(), self.bins)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as tensors."""
        self.settle()
        codes, weights = self.kept.joined()
        state = {"codes": codes.clone(), "weights": weights.clone(), "ordered": torch.tensor(self.ordered)}
        if self.histogram is not None:
            state["residuals"] = self.residuals.clone()
            state |= {"cell_counts": self.histogram.counts.clone(), "cell_sums": self.histogram.sums.clone()}
        if self.cells is not None:
            state |= {f"cells.{name}": part for name, part in self.cells.state_dict().items()}
        return state

    @classmethod
    def from_state_dict(cls, bins: int, samples: int, state: Mapping[str, Tensor]) -> "ConfidenceSketch":
        """The sketch of so many samples that `state_dict` described."""
        sketch = cls(bins)
        sketch.samples, sketch.ordered = samples, bool(state["ordered"])
        sketch.kept = KeptSamples(state["codes"].clone(), state["weights"].clone())
        if "cell_counts" in state:
            sketch._take_histogram(state["cell_counts"].clone(), state["cell_sums"].clone(), state["residuals"].clone())
        if "cells.runs" in state:
            cells = {name.removeprefix("cells."): part for name, part in state.items() if name.startswith("cells.")}
            sketch.cells = OrderedCells.from_state_dict(_RUN_SHARE_OF_A_BIN / bins, cells)
        return sketch

    def to_flat(self, rank: int, processes: int) -> tuple[Tensor, Tensor]:
        """Counts (int64) and sums (float64) that add up over processes, each process has its own places."""
        places = KEPT_SAMPLES // processes
        sketch = self
        if len(self.kept) > places:
            sketch = copy.deepcopy(self)
            sketch.fold()
        histogram = sketch.histogram or ConfidenceHistogram()
        codes, weights = torch.zeros(KEPT_SAMPLES, dtype=torch.int64), torch.zeros(KEPT_SAMPLES, dtype=torch.float64)
        own = slice(rank * places, rank * places + len(sketch.kept))
        codes[own], weights[own] = sketch.kept.joined()
        counts = torch.cat([codes, histogram.counts.flatten()])
        return counts, torch.cat([weights, histogram.sums.flatten(), sketch.residuals])

    @classmethod
    def from_flat(cls, bins: int, samples: int, counts: Tensor, sums: Tensor) -> "ConfidenceSketch":
        """The sketch of so many samples in all, from the added up numbers of `to_flat`."""
        sketch = cls(bins)
        sketch.samples, sketch.ordered = samples, False
        used = counts[:KEPT_SAMPLES] > 0
        sketch.kept = KeptSamples(counts[:KEPT_SAMPLES][used], sums[:KEPT_SAMPLES][used])
        cells, residuals = counts[KEPT_SAMPLES:], sums[-len(sketch.residuals) :]
        if bool(cells.any()) or int(used.sum()) < samples:
            sketch._take_histogram(
                cells.view(2, CELLS), sums[KEPT_SAMPLES : -len(residuals)].reshape(3, CELLS), residuals.clone()
            )
        sketch.settle()
        return sketch

    def _take_histogram(self, counts: Tensor, sums: Tensor, residuals: Tensor) -> None:
        self.histogram = ConfidenceHistogram()
        self.histogram.counts, self.histogram.sums, self.residuals = counts, sums, residuals


def _residuals(samples: ConfidenceSamples) -> Tensor:
    size = (samples.correct.double() - samples.confidence).abs()
    total = size.sum() if samples.weight is None else size @ samples.weight
    return torch.cat([residual_grid(samples.confidence, samples.correct, samples.weight), total[None]])


def _ties(samples: ConfidenceSamples) -> Pieces:
    """The samples grouped by confidence."""
    value, group = torch.unique(samples.confidence, return_inverse=True)
    weight = torch.ones_like(samples.confidence) if samples.weight is None else samples.weight
    mass, correct = torch.zeros(2, len(value), dtype=torch.float64).index_add_(
        1, group, torch.stack([weight, weight * samples.correct])
    )
    return Pieces(mass, correct, mass * value, value, value)
