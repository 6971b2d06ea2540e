"""Confidence intervals of calibration errors that cover the truth, whatever it is, and need no resampling.

A calibration error is a norm of the vector D of signed gaps per bin, and a norm is a maximum of linear functions:
‖D‖₁ = max over |v_b| ≤ 1 of v·D. Noise can only make a norm larger, which is why bootstrap intervals lie above the
truth where that is small. Here each end comes from linear functions, whose means have ordinary standard errors:

- the upper end is estimate + z·s, with s the standard error of v·D̂ for the v of the estimate (‖D̂‖ ≥ v·D̂ for every v,
  that of the true D among them, and there v·D̂ is the true norm but for noise);
- the lower end is cross-fitted: for each of five folds v is chosen from the other four (v_b = S_b/√Q_b, cut to [−1, 1],
  with S and Q the sums of x and x² in bin b, x = confidence − correct), so that v·D̂ of the fold is an unbiased estimate
  of something that is at most the true norm; less z standard errors. It is 0 whenever the estimate is not larger than
  what a perfectly calibrated model would show with probability (1 + level)/2;
- both ends move out by z²/n, for where errors are so rare that the normal approximation fails; of clusters, by z² times
  the share of the whole in which errors come: a cluster's if its samples are right or wrong together.

The estimate always lies inside. Folds go by row number, so that parts that are added up give what the whole gives.
"""

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.special import betaincinv, ndtr, ndtri, stdtr, stdtrit

from focalcal.metrics.independent_units import Bins, Units, other_folds, sum_at

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]

# Number of draws of what a perfectly calibrated model would show.
DRAWS = 4000
# A gap of which no more than this is left is 0.
ROUNDING = 1e-12

_POINTS_PER_WIDTH, _FEWEST_NODES, _MOST_NODES = 16, 512, 2**15
_DRAWS, _NOISE_NODES = 1000, 512


class AbsoluteGaps:
    """Σ_b |D_b|, the norm of ECE and AdaECE.

    Args:
        units: The samples or clusters.
        bins: The bins.
        seed: Seed for the draws.
    """

    def __init__(self, units: Units, bins: Bins, seed: int = 0) -> None:
        self._units, self._bins = units, bins
        self._total = float(units.mass.sum())
        self._by_fold, self._squares = bins.add(units.gap), units.squares(bins)
        self._gaps = self._by_fold.sum(0) / self._total
        self._seed = seed

    @property
    def value(self) -> float:
        """The norm of the gaps."""
        return float(self._size(self._gaps))

    @cached_property
    def null(self) -> Array:
        """Draws of what a perfectly calibrated model would show: (DRAWS,)."""
        return self._size(self._units.noise(self._bins, DRAWS, self._seed).T / self._total)

    def interval(self, level: float, estimate: float | None = None) -> Interval:
        """Return the ends of the confidence interval; it holds ``estimate``, the value itself if not given."""
        estimate = self.value if estimate is None else estimate
        # Cells of a sketch know the value a little less well than the estimate does.
        largest = max(self.value, estimate)
        high = largest + allowance(self._units, self._bins.spread(self._direction(self._gaps)), self.value, level)
        if self.value <= np.quantile(self.null, (1 + level) / 2) + ROUNDING:
            return 0.0, high
        return min(self._lower(level), estimate), high

    def _lower(self, level: float) -> float:
        others = other_folds(self._by_fold), other_folds(self._squares)
        directions = np.stack([self._bins.spread(self._shrunken(s, q)) for s, q in zip(*others, strict=True)])
        return cross_fitted(self._units, directions, level)

    def _size(self, gaps: Array) -> Array:
        return np.asarray(np.abs(gaps).sum(-1))

    def _direction(self, gaps: Array) -> Array:
        return signs(gaps)

    def _shrunken(self, s: Array, q: Array) -> Array:
        """Choose a direction from sums S of x and Q of x², trusting bins whose gap is larger than its noise."""
        return np.clip(np.divide(s, np.sqrt(q), out=np.zeros_like(s), where=q > 0), -1, 1)


class SquaredGaps(AbsoluteGaps):
    """sqrt(Σ_b D_b² / π_b) with π_b the share of the mass that bin b has, the norm of the debiased ECE."""

    def __init__(self, units: Units, bins: Bins, seed: int = 0) -> None:
        super().__init__(units, bins, seed)
        share = bins.add(units.mass.sum(0)) / self._total
        self._share = np.where(share > 0, share, 1.0)

    def _size(self, gaps: Array) -> Array:
        return np.asarray(np.sqrt((gaps**2 / self._share).sum(-1)))

    def _direction(self, gaps: Array) -> Array:
        length = float(self._size(gaps))
        return gaps / (self._share * length) if length > 0 else np.zeros_like(gaps)

    def _shrunken(self, s: Array, q: Array) -> Array:
        noise = np.divide(np.sqrt(q), np.abs(s), out=np.ones_like(q), where=s != 0)
        return self._direction(s * np.maximum(1 - noise**2, 0))


def signs(gaps: Array) -> Array:
    """Return 1 or −1; a gap that is 0, but for rounding, is as uncertain as any other, and has a sign too: 1."""
    return np.where(gaps < -ROUNDING, -1.0, 1.0)


def partial_sum_interval(units: Units, level: float, estimate: float | None = None) -> Interval:
    """Return an interval of max_t |Σ D over cells up to t|, the KS calibration error; it holds ``estimate``."""
    z, total = z_score(level, units.degrees), float(units.mass.sum())
    by_fold = np.cumsum(units.gap, axis=1) / total
    value = float(np.abs(by_fold.sum(0)).max(initial=0.0))
    estimate = value if estimate is None else estimate
    high = max(value, estimate) + z * units.largest_partial_error() + z**2 * units.lump
    if value <= math.sqrt(units.noise_variance) / total * _brownian_maximum((1 + level) / 2):
        return 0.0, high
    directions = []
    for others in other_folds(by_fold):
        end = int(np.abs(others).argmax())
        directions.append(np.sign(others[end]) * (np.arange(len(others)) <= end))
    return min(cross_fitted(units, np.stack(directions), level), estimate), high


def _brownian_maximum(probability: float) -> float:
    """Return the quantile of max |W(t)|, 0 ≤ t ≤ 1, of a Brownian motion W: by the reflection principle.

    Partial sums of independent gaps, looked at where they are, are no larger than a Brownian motion everywhere.
    """
    k = np.arange(50)
    signs, odd = (-1.0) ** k, 2 * k + 1

    def below(x: float) -> float:
        return float(4 / math.pi * (signs / odd * np.exp(-((math.pi * odd / x) ** 2) / 8)).sum())

    low, high = 0.3, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return high


def largest_gap_interval(count: Array, confidence: Array, correct: Array, effective: Array, level: float) -> Interval:
    """Return the interval of max_b |confidence_b − accuracy_b| over occupied bins, MCE: bounds of all bins at once.

    Clopper–Pearson bounds, and not Wilson's: those are below their level where a bin has few samples or few errors.
    Here every one of 15 bins has to be covered, and in simulations of calibrated models Wilson's covered 78%.

    Args:
        count: (M,) number of samples, or their weight.
        confidence: (M,) sum of their confidence.
        correct: (M,) number, or weight, of right ones.
        effective: (M,) effective number of samples, (Σw)²/Σw².
        level: Level of the interval; each of m bins has 1 − (1 − level)/m.
    """
    held = count > 0
    n, sure, right = effective[held], confidence[held] / count[held], correct[held] / count[held]
    tail = (1 - level) / 2 / max(len(n), 1)
    low, high = exact_bounds(right, n, tail)
    nearest = np.maximum(np.maximum(sure - high, low - sure), 0)
    farthest = np.maximum(np.abs(sure - low), np.abs(sure - high))
    return float(nearest.max(initial=0.0)), float(farthest.max(initial=0.0))


def exact_bounds(share: Array, n: Array, tail: float) -> tuple[Array, Array]:
    """Return Clopper–Pearson bounds of probabilities, from shares (M,) of n samples; each misses at most ``tail``."""
    hits = np.clip(share, 0, 1) * n
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-9), n - hits + 1, tail), 0.0)
    return low, np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1e-9), 1 - tail), 1.0)


def cross_fitted(units: Units, directions: Array, level: float) -> float:
    """Return the lower end of an interval from directions (F, P), each chosen without its own fold; at least 0."""
    mean = float((directions * units.gap).sum()) / float(units.mass.sum())
    return max(mean - allowance(units, directions, mean, level), 0.0)


def allowance(units: Units, direction: Array, mean: float, level: float) -> float:
    """Return z standard errors, and z²/n for where errors are rare."""
    z = z_score(level, units.degrees)
    return z * units.error(direction, mean) + z**2 * units.lump


def tail(score: float, degrees: float = math.inf) -> float:
    """Return how probable no larger a score is, of a normal distribution, or of Student's with degrees of freedom."""
    return float(ndtr(score) if math.isinf(degrees) else stdtr(degrees, score))


def z_score(level: float, degrees: float = math.inf) -> float:
    """Return the quantile at (1 + level)/2 of the normal distribution, or of Student's with degrees of freedom.

    Examples:
        >>> round(z_score(0.9), 3), round(z_score(0.9, degrees=4), 3)
        (1.645, 2.132)
    """
    upper = (1 + level) / 2
    return float(ndtri(upper) if math.isinf(degrees) else stdtrit(degrees, upper))


def smooth_interval(units: Units, confidence: Array, estimate: float, level: float, seed: int = 0) -> Interval:
    """Return the interval of smooth ECE.

    At a fixed width σ, smECE_σ = ∫ |R_σ(t)| dt is a norm of a linear function of the gaps, too: the maximum over
    |s(t)| ≤ 1 of ∫ s R_σ, which gives every sample of confidence c the factor v(c) = ∫ s(t) k_σ(t, c) dt.

    The smooth calibration error is the σ with smECE_σ = σ. As smECE_σ falls where σ grows, an interval of smECE_σ at
    the estimated σ that holds this σ also covers the true solution: were that larger than σ, then it is at most smECE_σ
    of the population, and so below the upper end; were it smaller, then it is at least that, and so above the lower
    end.

    Args:
        units: Samples or clusters in cells.
        confidence: (P,) of the cells.
        estimate: The smooth ECE, which is also the width σ.
        level: Probability that the interval covers the truth.
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
