"""The temperature slider: everything about confidence at each of its stops, from one pass over the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.calibrators.ece_grid import ScaledScores
from focalcal.metrics.binning import BinSums, equal_width_sums
from focalcal.metrics.floor import ece_floor_of_sums, floor_sums
from focalcal.metrics.samples import ConfidenceSamples, SampleStatistics
from focalcal.metrics.streaming.sketch import KEPT_SAMPLES
from focalcal.plots.ranked_confidence import ConfidenceCells, RankedConfidence
from focalcal.predictions import Predictions

# Dense where models usually are, and 1, at which nothing is changed.
STOPS = (
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    *(1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.45, 1.5, 1.6, 1.7, 1.8, 1.9),
    *(2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0),
)
# Every number of bins on offer divides this one, so that bins are sums of these cells.
WIDTH_CELLS = 150
BIN_COUNTS = (5, 10, 15, 25, 50)


def stops_with(temperature: float | None) -> tuple[float, ...]:
    """Return the slider's stops, and the fitted temperature among them.

    Examples:
        >>> 1.234 in stops_with(1.234), len(stops_with(1.0)) == len(STOPS)
        (True, True)
    """
    return tuple(sorted({*STOPS, *(() if temperature is None else (temperature,))}))


@dataclass(frozen=True)
class Stop:
    """Sums at one temperature.

    Attributes:
        temperature: T.
        nll: Mean negative log-likelihood, in nats.
        cells: Sums over 150 bins of equal width.
        floor: (5, 150) sums for the floor of ECE.
        ranked: Confidences in order, of samples or of fine cells.
    """

    temperature: float
    nll: float
    cells: BinSums
    floor: Tensor
    ranked: RankedConfidence

    def equal_width(self, bins: int) -> BinSums:
        """Return sums over this number of bins of equal width: exactly those that ECE is made of."""
        return BinSums(
            *(_coarser(part, bins) for part in (self.cells.count, self.cells.confidence, self.cells.correct))
        )

    def ece_floor(self, bins: int) -> float:
        """Compute the ECE of a perfectly calibrated model with these confidences."""
        return float(ece_floor_of_sums(_coarser(self.floor, bins)))


def _coarser(cells: Tensor, bins: int) -> Tensor:
    return cells.reshape(*cells.shape[:-1], bins, WIDTH_CELLS // bins).sum(-1)


class Slider:
    """Adds up blocks of predictions at all stops.

    Args:
        temperatures: Those of the stops.
        num_samples: Largest number of samples to expect: up to 131,072 are kept one by one, more are counted in cells.
    """

    def __init__(self, temperatures: Sequence[float], num_samples: int) -> None:
        self._stops = [_StopSums(t, num_samples <= KEPT_SAMPLES) for t in temperatures]

    def add(self, block: Predictions, statistics: SampleStatistics) -> None:
        """Add samples, with their uncalibrated statistics."""
        scores = ScaledScores.of(block)
        for stop in self._stops:
            if stop.temperature == 1:
                # As given: probabilities need not sum to exactly 1, which the softmax of their logarithms does.
                confidence, nll = statistics.confidence, statistics.nll
            else:
                confidence, nll = scores.confidence_and_nll(block.labels, stop.temperature)
            stop.add(ConfidenceSamples(confidence.clamp(max=1.0), statistics.correct, block.weights), nll)

    def stops(self) -> list[Stop]:
        """Return one stop per temperature."""
        return [stop.stop() for stop in self._stops]


class _StopSums:
    """One stop, while blocks are added."""

    def __init__(self, temperature: float, keep: bool) -> None:
        self.temperature = temperature
        self._kept: list[ConfidenceSamples] | None = [] if keep else None
        self._fine = None if keep else ConfidenceCells()
        self._cells = [torch.zeros(WIDTH_CELLS, dtype=torch.float64) for _ in range(3)]
        self._floor = torch.zeros(5, WIDTH_CELLS, dtype=torch.float64)
        self._nll = 0.0

    def add(self, samples: ConfidenceSamples, nll: Tensor) -> None:
        sums = equal_width_sums(samples.confidence, samples.correct, WIDTH_CELLS, samples.weight)
        for total, part in zip(self._cells, (sums.count, sums.confidence, sums.correct), strict=True):
            total += part
        self._floor += floor_sums(samples.confidence, WIDTH_CELLS, samples.weight)
        # 0 · inf is NaN: what weighs nothing must not count.
        self._nll += float(nll.sum() if samples.weight is None else (nll * samples.weight)[samples.weight > 0].sum())
        if self._kept is not None:
            self._kept.append(samples)
        elif self._fine is not None:
            self._fine.add(samples)

    def stop(self) -> Stop:
        cells = BinSums(*self._cells)
        nll = self._nll / float(cells.count.sum())
        return Stop(self.temperature, nll, cells, self._floor, self._rank())

    def _rank(self) -> RankedConfidence:
        if self._fine is not None:
            return self._fine.rank()
        kept = self._kept or []
        weights = [part.weight for part in kept if part.weight is not None]
        joined = ConfidenceSamples(
            torch.cat([part.confidence for part in kept]),
            torch.cat([part.correct for part in kept]),
            torch.cat(weights) if weights else None,
        )
        return RankedConfidence.of_samples(joined)
