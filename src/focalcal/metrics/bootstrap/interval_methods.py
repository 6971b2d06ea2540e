"""Interval methods: three ways from an estimate and its replicates to an interval, as pure functions of numbers."""

import math
from typing import get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from focalcal.metrics.catalogue import Method as Method

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]

UNKNOWN: Interval = (math.nan, math.nan)


def check_method(method: str) -> None:
    """Raise unless there is a method of this name."""
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}.")


def interval_from_replicates(
    method: Method, estimate: float, replicates: Array, level: float, jackknife: Array | None = None
) -> Interval:
    """Return an interval at a level by the method of that name.

    Replicates that are NaN (undefined) are left out. Where they are a larger share than either tail, nobody can say
    where the quantile is, and the interval is (NaN, NaN), as it is where the estimate itself is NaN.

    Args:
        method: ``"basic"``, ``"percentile"`` or ``"bca"``.
        estimate: The metric on the data.
        replicates: (B,) the metric on each resample.
        level: Probability between 0 and 1.
        jackknife: For ``"bca"``, the metric with one sample, or one group of samples, left out at a time.

    Examples:
        >>> replicates = np.arange(1.0, 12.0)
        >>> interval_from_replicates("percentile", 5.0, replicates, level=0.8)
        (2.0, 10.0)
        >>> interval_from_replicates("basic", 5.0, replicates, level=0.8)
        (0.0, 8.0)
    """
    tail = (1 - level) / 2
    defined = replicates[~np.isnan(replicates)]
    if math.isnan(estimate) or len(replicates) - len(defined) > tail * len(replicates) + 1e-9:
        return UNKNOWN
    if method == "bca":
        if jackknife is None:
            raise ValueError("method 'bca' needs the values of a jackknife: pass jackknife, or use 'basic'.")
        return _between(defined, *_bca_levels(estimate, defined, jackknife, tail))
    low, high = _between(defined, tail, 1 - tail)
    if method == "percentile":
        return low, high
    return (2 * estimate - high, 2 * estimate - low) if math.isfinite(estimate) else UNKNOWN


def _between(values: Array, low: float, high: float) -> Interval:
    """Return the quantiles at two levels, rounded outwards to values that are there: an infinite one stays apart."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    # Levels are rounded numbers: what is a hair from a whole place is that place.
    return float(ordered[math.floor(last * low + 1e-9)]), float(ordered[math.ceil(last * high - 1e-9)])


def _bca_levels(estimate: float, defined: Array, jackknife: Array, tail: float) -> tuple[float, float]:
    """Compute levels Φ(z₀ + (z₀ + z)/(1 − a(z₀ + z))) for z = Φ⁻¹ of the two tails."""
    below = np.mean(defined < estimate) + np.mean(defined == estimate) / 2
    # With every replicate on one side the bias is only known to exceed what B of them can show.
    bias = ndtri(np.clip(below, 0.5 / len(defined), 1 - 0.5 / len(defined)))
    shifted = bias + ndtri(np.array([tail, 1 - tail]))
    levels = ndtr(bias + shifted / np.maximum(1 - acceleration(jackknife) * shifted, 1e-12))
    return float(levels[0]), float(levels[1])


def acceleration(jackknife: Array) -> float:
    """Compute a sixth of the skewness of the jackknife: Σd³ / (6 (Σd²)^1.5), d = mean − value; 0 without spread.

    Examples:
        >>> acceleration(np.array([1.0, 1.0, 1.0]))
        0.0
        >>> tiny = acceleration(np.array([0.0, 0.0, 3e-288]))
        >>> round(tiny, 9) == round(acceleration(np.array([0.0, 0.0, 3.0])), 9)
        True
    """
    values = jackknife[np.isfinite(jackknife)]
    distance = values.mean() - values if len(values) else values
    largest = float(np.abs(distance).max(initial=0.0))
    if not 0 < largest < math.inf:
        return 0.0
    # In units of the largest: squares and cubes of a tiny spread would be 0, and of a huge one infinite.
    distance = distance / largest
    return float(np.sum(distance**3) / (6 * np.sum(distance**2) ** 1.5))
