"""Confidence intervals of error, NLL, Brier score and other means from sums alone, for data that is not kept.

Each of these metrics is a ratio f of the sums S of `Means`, and f(a S) = f(S). By the delta method its standard error
is √(∇f · M ∇f) with M = Σ w² t tᵀ, where t are a sample's terms of S. Sums and products of parts of the data add up. A
share (of right samples, of confident ones, …) has Wilson's interval, which is not of width 0 where all are right.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.clusters import count_clusters
from focalcal.metrics.gap_intervals import Interval, z_score
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means, Sums, mean_terms, means_of_samples, names_from, values

Array = npt.NDArray[np.float64]

COLUMNS = tuple(Means.__dataclass_fields__)
# Shares, and the sums that they are shares of.
_ALL = ("hits", "misses")
SHARES = {
    "error": _ALL,
    "accuracy": _ALL,
    "top_5_accuracy": _ALL,
    "confident_share": _ALL,
    "confident_accuracy": ("confident_right", "confident_wrong"),
}
_STEP = 1e-5


class MeanIntervals:
    """Intervals of means.

    Args:
        means: Sums over all samples.
        products: (C, C) float64 from `products_of_terms`, summed over all samples; or over sums of clusters.
        clusters: Number of clusters; None where samples are independent of each other.
    """

    def __init__(self, means: Means, products: Array, clusters: int | None = None) -> None:
        self._clusters, self._degrees = clusters, math.inf if clusters is None else max(clusters - 1.0, 1.0)
        self._sums = np.array([float(getattr(means, name)) for name in COLUMNS])
        self._products = products

    def at(self, names: Iterable[str], level: float) -> dict[str, Interval]:
        """Return the ends at a level for those of the metrics that are means; NaN where one is undefined."""
        names = names_from(names, ["means"])
        known, errors = _values(self._sums[None], names), self._standard_errors(names)
        return {name: self._interval(name, float(known[name][0]), errors[name], level) for name in names}

    def _standard_errors(self, names: list[str]) -> dict[str, float]:
        """Differentiate numerically: metrics are smooth functions of sums."""
        step = _STEP * np.where(self._sums > 0, self._sums, 0.0)
        # A sum of 0 is that of terms that are all 0, and so are their products.
        moved = np.concatenate([self._sums + np.diag(step), self._sums - np.diag(step)])
        found = _values(moved, names)
        errors = {}
        for name in names:
            if not np.isfinite(found[name]).all():
                errors[name] = math.nan
                continue
            above, below = np.split(found[name], 2)
            slope = np.divide(above - below, 2 * step, out=np.zeros_like(step), where=step > 0)
            errors[name] = math.sqrt(max(float(slope @ self._products @ slope), 0.0))
        return errors

    def _interval(self, name: str, value: float, error: float, level: float) -> Interval:
        z, (lowest, highest) = z_score(level, self._degrees), METRICS[name].range
        if not math.isfinite(value) or math.isnan(error) or self._effective(_ALL) <= 1 + 1e-9:
            return math.nan, math.nan
        if name in SHARES:
            # Clusters in which samples differ know more than a sample for each.
            most = math.inf if self._clusters is not None and error > 0 else self._effective(SHARES[name])
            return _wilson(value, error, most, z)
        return max(value - z * error, lowest), min(value + z * error, highest)

    def _effective(self, parts: tuple[str, ...]) -> float:
        """Return the number of samples, or clusters, that a share is of, (Σw)²/Σw² with weights."""
        places = [COLUMNS.index(part) for part in parts]
        squares = self._products[np.ix_(places, places)].sum()
        return float(self._sums[places].sum() ** 2 / squares) if squares > 0 else 0.0


def intervals_of_samples(stats: SampleStatistics, clusters: Tensor | None = None) -> MeanIntervals:
    """Make the intervals of samples that are at hand.

    Args:
        stats: N samples.
        clusters: (N,) numbers from 0 on of the clusters that samples belong to; None where they are independent.
    """
    terms = mean_terms(stats)
    if clusters is None:
        return MeanIntervals(means_of_samples(stats), products_of_terms(terms))
    size = int(clusters.max()) + 1
    by_cluster = {name: torch.zeros(size, dtype=torch.float64).index_add_(0, clusters, terms[name]) for name in terms}
    counted = count_clusters(clusters, stats.weight)
    return MeanIntervals(means_of_samples(stats), products_of_terms(by_cluster), counted)


def products_of_terms(terms: Mapping[str, Tensor]) -> Array:
    """Sum the products of what `mean_terms` gives over samples: (C, C)."""
    rows = torch.stack([terms[name] for name in COLUMNS]).numpy()
    return np.asarray(rows @ rows.T)


def _values(rows: Array, names: list[str]) -> dict[str, Array]:
    means = Means(*torch.from_numpy(np.maximum(rows, 0)).unbind(-1))
    return values(Sums(means=means), names)


def _wilson(share: float, error: float, most: float, z: float) -> Interval:
    """Wilson's interval of a share whose standard error is known, and of ``most`` samples where it is 0.

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
    # Rounding must not leave the share itself outside.
    return max(min(middle - reach, share), 0.0), min(max(middle + reach, share), 1.0)
