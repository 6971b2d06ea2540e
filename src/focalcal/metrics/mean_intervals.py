"""Confidence intervals of error, NLL, Brier score and other means from sums alone, for data that is not kept.

Each of these metrics is a ratio f of the sums S of `Means`, and f(a S) = f(S). By the delta method its standard error is
√(∇f · M ∇f) with M = Σ w² t tᵀ, where t are a sample's terms of S. Sums and products of parts of the data add up. A
share (of right samples, of confident ones, …) has Wilson's interval, which is not of width 0 where all are right.
"""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch

from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.gap_intervals import Interval, z_score
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means, Sums, mean_terms, names_from, values

Array = npt.NDArray[np.float64]

_COLUMNS = tuple(Means.__dataclass_fields__)
# Shares, and the sums that they are shares of.
_ALL = ("hits", "misses")
_SHARES = {
    "error": _ALL,
    "accuracy": _ALL,
    "top_5_accuracy": _ALL,
    "confident_share": _ALL,
    "confident_accuracy": ("confident_right", "confident_wrong"),
}
_STEP = 1e-4


class MeanMoments:
    """Sums of the terms of means, and of their products.

    Attributes:
        sums: (C,) float64, in the order of the fields of `Means`.
        products: (C, C) float64.
    """

    def __init__(self) -> None:
        self.sums = np.zeros(len(_COLUMNS))
        self.products = np.zeros((len(_COLUMNS), len(_COLUMNS)))

    def add(self, stats: SampleStatistics) -> None:
        """Add samples."""
        terms = torch.stack([mean_terms(stats)[name] for name in _COLUMNS]).numpy()
        self.sums += terms.sum(1)
        self.products += terms @ terms.T

    def merge(self, other: "MeanMoments") -> None:
        """Add another part of the data."""
        self.sums += other.sums
        self.products += other.products

    def rescale(self, difference: int) -> None:
        """Divide the weights by a power of two."""
        self.sums *= 2.0**-difference
        self.products *= 4.0**-difference

    def intervals(self, names: Iterable[str], level: float) -> dict[str, Interval]:
        """Return the ends of the intervals of those of the metrics that are means; NaN where one is undefined."""
        names = names_from(names, ["means"])
        known = _values(self.sums[None], names)
        errors = self._standard_errors(names)
        return {name: self._interval(name, float(known[name][0]), errors[name], level) for name in names}

    def _standard_errors(self, names: list[str]) -> dict[str, float]:
        """Differentiate numerically: metrics are smooth functions of sums."""
        step = _STEP * np.maximum(np.abs(self.sums), _STEP * np.abs(self.sums).max(initial=0.0))
        step = np.where(step > 0, step, 1.0)
        moved = np.concatenate([self.sums + np.diag(step), self.sums - np.diag(step)])
        found = _values(moved, names)
        errors = {}
        for name in names:
            above, below = np.split(found[name], 2)
            slope = (above - below) / (2 * step)
            errors[name] = math.sqrt(max(float(slope @ self.products @ slope), 0.0)) if _finite(slope) else math.nan
        return errors

    def _interval(self, name: str, value: float, error: float, level: float) -> Interval:
        z, (lowest, highest) = z_score(level), METRICS[name].range
        if not math.isfinite(value) or math.isnan(error):
            return math.nan, math.nan
        if name in _SHARES:
            return _wilson(value, error, self._effective(_SHARES[name]), z)
        return max(value - z * error, lowest), min(value + z * error, highest)

    def _effective(self, parts: tuple[str, ...]) -> float:
        """Return the number of samples that a share is of, (Σw)²/Σw² with weights."""
        places = [_COLUMNS.index(part) for part in parts]
        squares = sum(self.products[place, place] for place in places)
        return float(self.sums[places].sum() ** 2 / squares) if squares > 0 else 0.0


def _values(rows: Array, names: list[str]) -> dict[str, Array]:
    means = Means(*torch.from_numpy(np.maximum(rows, 0)).unbind(-1))
    return values(Sums(means=means), names)


def _finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())


def _wilson(share: float, error: float, most: float, z: float) -> Interval:
    """Wilson's interval of a share whose standard error is known; of at most so many samples.

    Examples:
        >>> low, high = _wilson(0.0, 0.0, 20, 1.645)
        >>> low, round(high, 3)
        (0.0, 0.119)
    """
    spread = share * (1 - share)
    n = min(spread / error**2, most) if error > 0 and spread > 0 else most
    if n <= 0:
        return math.nan, math.nan
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * math.sqrt(spread / n + z**2 / (4 * n**2))
    return max(middle - reach, 0.0), min(middle + reach, 1.0)
