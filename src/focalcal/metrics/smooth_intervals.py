"""The honest interval of the smooth calibration error.

At a fixed width σ, smECE_σ = ∫ |R_σ(t)| dt is a norm of a linear function of the gaps: the maximum over |s(t)| ≤ 1 of
∫ s R_σ, which gives every sample of confidence c the factor v(c) = ∫ s(t) k_σ(t, c) dt. So what `gap_intervals` says
holds for it.

The smooth calibration error is the σ with smECE_σ = σ. As smECE_σ falls where σ grows, an interval of smECE_σ at the
estimated σ that holds this σ also covers the true solution: were that larger than σ, then it is at most smECE_σ of the
population, and so below the upper end; were it smaller, then it is at least that, and so above the lower end.
"""

import math

import numpy as np
import numpy.typing as npt
import scipy.fft

from focalcal.metrics.gap_intervals import Interval, allowance, cross_fitted, signs
from focalcal.metrics.independent_units import Bins, Units, other_folds, sum_at

Array = npt.NDArray[np.float64]

_POINTS_PER_WIDTH, _FEWEST_NODES, _MOST_NODES = 16, 512, 2**15
_DRAWS, _NOISE_NODES = 1000, 512


def smooth_interval(units: Units, confidence: Array, estimate: float, level: float, seed: int = 0) -> Interval:
    """Return the interval of smooth ECE.

    Args:
        units: Samples or clusters in cells.
        confidence: (P,) of the cells.
        estimate: The smooth ECE, which is also the width σ.
        level: Of the interval.
        seed: Seed for the draws.
    """
    total = float(units.mass.sum())
    wanted = 2 ** math.ceil(math.log2(_POINTS_PER_WIDTH / max(estimate, 1e-9)))
    kernel = ReflectedGaussian(max(estimate, 1 / _MOST_NODES), min(max(wanted, _FEWEST_NODES), _MOST_NODES))
    by_fold = np.stack([kernel.density(confidence, fold) for fold in units.gap])
    smoothed = kernel.smooth(by_fold.sum(0))
    direction = kernel.at(confidence, kernel.smooth(signs(smoothed / total)))
    high = max(estimate + allowance(units, direction, estimate, level), estimate)
    if kernel.integral(np.abs(smoothed)) / total <= np.quantile(
        _null(units, confidence, kernel, seed), (1 + level) / 2
    ):
        return 0.0, high
    noise = np.sqrt(np.maximum(kernel.squared(kernel.density(confidence, units.cell_squares())), 0))
    directions = []
    for others in kernel.smooth(other_folds(by_fold)):
        trusted = np.clip(np.divide(others, noise, out=np.zeros_like(others), where=noise > 0), -1, 1)
        directions.append(kernel.at(confidence, kernel.smooth(trusted)))
    return min(cross_fitted(units, np.stack(directions), level), estimate), high


def _null(units: Units, confidence: Array, kernel: "ReflectedGaussian", seed: int) -> Array:
    """Draw smECE_σ of a perfectly calibrated model."""
    coarse = ReflectedGaussian(kernel.sigma, _NOISE_NODES)
    place = np.rint(confidence * _NOISE_NODES).astype(np.int64)
    drawn = units.noise(Bins(place, _NOISE_NODES + 1), _DRAWS, seed)
    smoothed = coarse.smooth(drawn.T / coarse.widths)
    return coarse.integral(np.abs(smoothed)) / float(units.mass.sum())


class ReflectedGaussian:
    """A Gaussian that is reflected at 0 and 1, on the nodes 0, 1/Q, …, 1: diagonal in cosines.

    Args:
        sigma: Its width.
        cells: Q.
    """

    def __init__(self, sigma: float, cells: int) -> None:
        self.sigma, self.cells = sigma, cells
        self.widths = np.full(cells + 1, 1 / cells)
        self.widths[[0, -1]] /= 2

    def density(self, place: Array, mass: Array) -> Array:
        """Put masses at places in [0, 1] on the nodes around them, as a density."""
        left = np.minimum((place * self.cells).astype(np.int64), self.cells - 1)
        right_share = place * self.cells - left
        found = sum_at(left, mass * (1 - right_share), self.cells + 1)
        return np.asarray((found + sum_at(left + 1, mass * right_share, self.cells + 1)) / self.widths)

    def smooth(self, values: Array, sigma: float | None = None) -> Array:
        """Smooth functions (…, Q + 1) given on the nodes."""
        waves = math.pi * (self.sigma if sigma is None else sigma) * np.arange(self.cells + 1)
        return np.asarray(scipy.fft.idct(scipy.fft.dct(values, type=1) * np.exp(-0.5 * waves**2), type=1))

    def squared(self, density: Array) -> Array:
        """Integrate the square of the kernel: a narrower Gaussian, k_σ² = k_{σ/√2} / (2 √π σ)."""
        return self.smooth(density, self.sigma / math.sqrt(2)) / (2 * math.sqrt(math.pi) * self.sigma)

    def at(self, place: Array, values: Array) -> Array:
        """Interpolate a function given on the nodes."""
        return np.interp(place, np.linspace(0, 1, self.cells + 1), values)

    def integral(self, values: Array) -> Array:
        """Integrate functions (…, Q + 1) given on the nodes."""
        return np.asarray(values @ self.widths)
