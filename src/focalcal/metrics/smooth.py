"""The smooth calibration error (smECE, Błasiok & Nakkiran 2024), from a fine histogram and with a bound on its error.

Let r be the measure that puts each sample's residual, correct − confidence, at its confidence, with total weight 1, and
R_σ its convolution with a Gaussian of width σ that is reflected at 0 and 1. Then smECE_σ = ∫₀¹ |R_σ(t)| dt, and the
smooth calibration error is the σ with smECE_σ = σ: there is no bin and no width to choose.

The reflected Gaussian is diagonal in cosines, R_σ(t) = Σ_k c_k exp(−(πkσ)²/2) cos(πkt), so that one cosine transform of
the residuals on a grid serves every σ. Two errors come in, and both are bounded (by norms of a Gaussian's derivatives):

- gridding: a residual goes to the four nodes around it with the weights of cubic interpolation, which changes smECE_σ
  by at most 0.066 (h/σ)⁴ E|residual| for a step h of the grid;
- integration: |R_σ| is integrated as if R_σ were linear between points h apart, which is off by at most
  0.121 (h/σ)² smECE_0 and, because smoothing by σ is smoothing by σ/√2 twice, by at most 0.242 (h/σ)² smECE_{σ/√2}.

smECE_σ falls as σ grows. A pointwise error ε at the solution σ therefore moves the solution by at most ε.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.fft
import torch
from torch import Tensor

from focalcal.metrics.arguments import takes_predictions
from focalcal.metrics.binning import as_number
from focalcal.metrics.samples import ConfidenceSamples, confidence_samples
from focalcal.metrics.sums import Measurable, Sums, get_sums

Array = npt.NDArray[np.float64]

# With this many cells the bound is below 1e-4 whatever the data: no σ below (0.066 h⁴)^(1/5) = 8.2e-5 is ever tried.
CELLS = 2**16
# Σ over the four nodes of |product of distances| / 4! is at most 9/16/24; 2.80 = ∫|φ⁗| for the normal density φ.
_GRIDDING = 9 / 16 / 24 * 2.801
# A line through two points h apart is off by at most h²/8 |R″|; 0.968 = ∫|φ″|.
_INTEGRATION = 0.968 / 8
# Cubic Lagrange weights of the nodes −1, 0, 1, 2 (rows) as polynomials 1, u, u², u³ (columns) of the place u in [0, 1].
CUBIC_WEIGHTS = ((0, -1 / 3, 1 / 2, -1 / 6), (1, -1 / 2, -1, 1 / 2), (0, 1, 1 / 2, -1 / 2), (0, -1 / 6, 0, 1 / 6))
_POINTS_PER_WIDTH, _FEWEST_POINTS = 64, 2048
_TOLERANCE = 1e-10
_MOST_STEPS = 60
# What adding up and transforming in float64 can lose; 1e-13 has been seen.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Residuals:
    """Residuals on a grid, which smooth ECE is a function of; those of parts of the data add up to the whole's.

    Attributes:
        grid: (cells + 1,) float64 from `residual_grid`, or (B, cells + 1) for B resamples; at least 64 cells.
        total: The number of samples, or their weight: (), or (B,).
        absolute: Σ weight · |correct − confidence|.
    """

    grid: Tensor
    total: Tensor
    absolute: Tensor

    @classmethod
    def of_samples(cls, samples: ConfidenceSamples, cells: int = CELLS) -> "Residuals":
        """Put the residuals of samples on a grid."""
        size = (samples.correct.double() - samples.confidence).abs() * samples.mass
        grid = residual_grid(samples.confidence, samples.correct, samples.weight, cells)
        return cls(grid, samples.mass.sum(), size.sum())

    @cached_property
    def solution(self) -> tuple[Tensor, Tensor]:
        """The smooth ECE, and a bound on its distance from the exact one."""
        grids = self.grid.reshape(-1, self.grid.shape[-1])
        found = smooth_ece_of_grids(grids, self.total.reshape(-1), self.absolute.reshape(-1))
        return found[0].reshape(self.total.shape), found[1].reshape(self.total.shape)


@takes_predictions
def smooth_ece(preds: Measurable) -> float:
    """Compute the smooth calibration error of the top-label confidence (see the module's first lines for the formula).

    Args:
        preds: Predictions; per-sample weights count as usual.

    Returns:
        A number between 0 and 1, within 1e-4 of the exact one in the worst case and usually within 2e-6
        (`Residuals.solution` gives the bound); NaN without samples.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> probs = torch.tensor([[0.8, 0.2]]).expand(10, 2)
        >>> labels = torch.tensor([0] * 6 + [1] * 4)  # says 0.8, is right in 0.6
        >>> round(smooth_ece(Predictions.from_probs(probs, labels)), 6)
        0.2
    """
    return as_number(residuals(preds).solution[0])


def residuals(preds: Measurable) -> Residuals:
    """Put the residuals of predictions on the grid; sums have them."""
    if isinstance(preds, Sums):
        return cast(Residuals, get_sums(preds, "residuals"))
    return Residuals.of_samples(confidence_samples(preds))


def residual_grid(
    confidence: Tensor, correct: Tensor, weight: Tensor | None = None, cells: int = CELLS, rows: int = 2**17
) -> Tensor:
    """Put residuals correct − confidence on the nodes 0, 1/cells, …, 1; grids of parts of the data add up.

    Args:
        confidence: (N,) in [0, 1].
        correct: (N,) bool.
        weight: (N,) non-negative, or None.
        cells: Number of steps of the grid.
        rows: Number of samples that are worked on at a time.

    Returns:
        (cells + 1,) float64. Its sum is that of the residuals.

    Examples:
        >>> grid = residual_grid(torch.tensor([0.5, 0.9]), torch.tensor([True, False]), cells=10)
        >>> [round(x, 6) + 0.0 for x in grid.tolist()]
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, -0.9, 0.0]
    """
    moments = torch.zeros(4, cells, dtype=torch.float64)
    for start in range(0, len(confidence), rows):
        part = slice(start, start + rows)
        _add_moments(moments, confidence[part].double(), correct[part], None if weight is None else weight[part])
    spread = torch.tensor(CUBIC_WEIGHTS, dtype=torch.float64) @ moments
    padded = torch.zeros(cells + 3, dtype=torch.float64)  # nodes −1 … cells + 1
    for offset in range(4):
        padded[offset : offset + cells] += spread[offset]
    grid = padded[1:-1].clone()
    # Nodes outside are mirror images: the kernel is even about 0 and about 1.
    grid[1] += padded[0]
    grid[-2] += padded[-1]
    return grid


def _add_moments(moments: Tensor, confidence: Tensor, correct: Tensor, weight: Tensor | None) -> None:
    """Add Σ residual·u^j, j = 0 … 3, of each cell, where u in [0, 1] is the place within the cell."""
    cells = moments.shape[1]
    place = confidence * cells
    index = place.long().clamp_(max=cells - 1)
    place -= index
    term = correct.double() - confidence
    if weight is not None:
        term *= weight
    for row in moments:
        row.index_add_(0, index, term)
        term *= place


def smooth_ece_of_grids(grids: Tensor, total: Tensor, absolute: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the smooth ECE of many grids at once, as a bootstrap needs.

    Args:
        grids: (B, cells + 1) float64.
        total: (B,) total weights.
        absolute: (B,) Σ weight · |residual|.

    Returns:
        Values and bounds, (B,) float64 each.
    """
    weight = np.asarray(total, dtype=np.float64)
    defined = weight > 0
    scale = np.where(defined, weight, 1.0)
    spectrum = _Spectrum.of(np.asarray(grids, dtype=np.float64) / scale[:, None], np.asarray(absolute) / scale)
    sigma, value = _solve(spectrum)
    value, bound = _bound(spectrum, sigma, value)
    return tuple(torch.from_numpy(np.where(defined, x, np.nan)) for x in (value, bound))  # type: ignore[return-value]


class _Spectrum(NamedTuple):
    """Cosine coefficients of B residual measures, and three norms of each."""

    coefficients: Array  # (B, cells + 1)
    lowest: Array  # (B,) |Σ residual|, which smECE_σ never falls below
    highest: Array  # (B,) Σ |residual|, which it never exceeds
    on_grid: Array  # (B,) Σ |node|

    @classmethod
    def of(cls, grids: Array, absolute: Array) -> "_Spectrum":
        halved = grids / 2
        halved[:, [0, -1]] = grids[:, [0, -1]]
        coefficients = _cosine_transform(halved, grids.shape[1] - 1)
        lowest = np.minimum(np.abs(coefficients[:, 0]), 1.0)
        return cls(coefficients, lowest, np.maximum(np.minimum(absolute, 1.0), lowest), np.abs(grids).sum(1))

    @property
    def cells(self) -> int:
        return int(self.coefficients.shape[1]) - 1

    def floor(self) -> Array:
        """Return the least σ worth trying: below it the gridding error exceeds σ, or there are too few frequencies."""
        h = 1 / self.cells
        return np.maximum((_GRIDDING * h**4 * self.highest) ** 0.2, 8 * h / math.pi)

    def points(self, sigma: Array) -> int:
        """Count the cells of the grid for integration: a power of 2, many to each σ, never more than there are."""
        wanted = _POINTS_PER_WIDTH / float(sigma.min(initial=1.0))
        return int(min(self.cells, max(_FEWEST_POINTS, 2 ** math.ceil(math.log2(wanted)))))

    def smooth_ece(self, sigma: Array) -> Array:
        """∫ |R_σ|, for one σ a row."""
        points = self.points(sigma)
        # exp(−13²/2) is 2e-37: what is beyond does not count.
        modes = min(points, math.ceil(13 / (math.pi * float(sigma.min(initial=1.0))))) + 1
        decay = np.exp(-0.5 * (math.pi * sigma[:, None] * np.arange(modes)) ** 2)
        return _absolute_integral(_cosine_transform(self.coefficients[:, :modes] * decay, points))


def _cosine_transform(values: Array, cells: int) -> Array:
    transformed: Any = scipy.fft.dct(values, type=1, n=cells + 1, axis=1)
    return np.asarray(transformed, dtype=np.float64)


def _absolute_integral(values: Array) -> Array:
    """∫₀¹ |f| row by row, for f linear between its values at 0, 1/Q, …, 1; exact where it crosses 0."""
    size = np.abs(values)
    trapezoids = size.sum(1) - 0.5 * (size[:, 0] + size[:, -1])
    row, left = np.nonzero(values[:, :-1] * values[:, 1:] < 0)
    a, b = size[row, left], size[row, left + 1]
    crossings = np.bincount(row, a * b / (a + b), minlength=len(values))
    return np.asarray((trapezoids - crossings) / (values.shape[1] - 1))


def _solve(spectrum: _Spectrum) -> tuple[Array, Array]:
    """Return σ and smECE_σ where they are equal, one per row, by the secant method inside a bracket.

    smECE_σ falls as σ grows, so that the solution lies between σ and smECE_σ, whichever σ is tried. Where it lies below
    the smallest σ worth trying, that σ is returned, with its smECE_σ, which is then the smaller of the two.
    """
    floor = spectrum.floor()
    low, high = np.maximum(spectrum.lowest, floor), np.maximum(spectrum.highest, floor)
    sigma = high.copy()
    value = spectrum.smooth_ece(sigma)
    slope = np.full_like(sigma, -1.0)
    for _ in range(_MOST_STEPS):
        excess = value - sigma
        low = np.maximum(low, np.minimum(sigma, value))
        high = np.minimum(high, np.maximum(sigma, value))
        done = (np.abs(excess) < _TOLERANCE) | (high - low < _TOLERANCE) | ((sigma == floor) & (excess < 0))
        if done.all():
            break
        guess = np.clip(sigma - excess / slope, low, high)
        trial = np.where(done, sigma, np.where(guess == sigma, 0.5 * (low + high), guess))
        trial_value = np.where(done, value, spectrum.smooth_ece(trial))
        change = np.where(done | (trial == sigma), np.nan, trial - sigma)
        # smECE_σ does not rise, so the slope of smECE_σ − σ is −1 at most.
        slope = np.minimum(np.nan_to_num((trial_value - trial - excess) / change, nan=-1.0), -1.0)
        sigma, value = trial, trial_value
    return sigma, value


def _bound(spectrum: _Spectrum, sigma: Array, value: Array) -> tuple[Array, Array]:
    """Return the value, and how far the exact solution can be from it, given smECE_σ at σ up to the two errors."""
    step = 1 / spectrum.points(sigma)
    integration = 2 * _INTEGRATION * (step / sigma) ** 2
    narrower = spectrum.smooth_ece(sigma / math.sqrt(2)) + integration * spectrum.on_grid
    error = _GRIDDING / (spectrum.cells * sigma) ** 4 * spectrum.highest
    error = error + integration * np.minimum(narrower, spectrum.on_grid)
    low = np.maximum(np.minimum(sigma, value - error), spectrum.lowest)
    high = np.minimum(np.maximum(sigma, value + error), spectrum.highest)
    value = np.clip(value, spectrum.lowest, spectrum.highest)
    return value, np.maximum(np.maximum(high - value, value - low), 0) + _ROUNDING
