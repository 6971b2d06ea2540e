"""Clusters of samples as units: images with their pixels, sentences with their tokens, users with their records.

Samples of a cluster may depend on each other in any way, so that sums over clusters take the place of samples.
"""

import math
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from focalcal.metrics.independent_units import FOLDS, Array, Bins, CellSamples, Integers, sum_at

# Cuts at which the error of a partial sum over clusters is looked at.
_PARTIAL_SUMS = 64
# Ranges of confidence, by which errors are looked at: rare in one, frequent in another.
_RANGES = 15


class ClusterUnits:
    """Clusters of samples, which may depend on each other within a cluster in any way.

    Args:
        samples: Their ``unit`` is the number of the cluster.
    """

    def __init__(self, samples: CellSamples) -> None:
        self._samples = samples
        self._clusters = int(samples.unit.max(initial=-1)) + 1
        self._weight = sum_at(samples.unit, samples.weight, self._clusters)
        self.mass = samples.per_fold_and_cell(samples.weight)
        self.gap = samples.per_fold_and_cell(samples.gap)

    @property
    def effective(self) -> float:
        """(Σw)²/Σw² over the weights of clusters."""
        return float(self._weight.sum() ** 2 / (self._weight**2).sum())

    @cached_property
    def lump(self) -> float:
        """See `Units`; a whole cluster if its samples are right or wrong together, one sample if they are not."""
        everything = np.zeros(len(self._samples.cell), dtype=np.int64)
        largest = max(self._lumps(everything, 1)[0], self._lumps(self._range, _RANGES).max())
        return float(largest / self._weight.sum())

    def lumps(self) -> Array:
        """Return the weight by which errors come in each cell, (P,)."""
        return self._lumps(self._samples.cell, self._samples.cells)

    @cached_property
    def _range(self) -> Integers:
        """Ranges of confidence, in which samples are about as likely to be wrong."""
        return np.clip(np.ceil(self._samples.confidence * _RANGES).astype(np.int64) - 1, 0, _RANGES - 1)

    def _lumps(self, place: Integers, count: int) -> Array:
        """Return the weight by which errors come, (count,), of the samples at each place.

        It is the variance of what is wrong in a cluster, by that of independent errors. Where few clusters have
        errors, little is known of it: one more cluster, in which all is wrong, is counted in the less, the more
        clusters have errors.
        """
        samples, shape = self._samples, (self._clusters, count)
        unlikely = np.where(samples.confidence > 0.5, 1 - samples.correct, samples.correct)
        wrong, mass = (
            csr_array((term, (samples.unit, place)), shape) for term in (samples.weight * unlikely, samples.weight)
        )

        def add(terms: Array) -> Array:
            return sum_at(mass.indices, terms, count)

        total, of_wrong = add(mass.data), add(wrong.data)
        held = np.where(total > 0, total, 1.0)
        rate, size = of_wrong / held, add(mass.data**2) / held
        spread = add((wrong.data - rate[mass.indices] * mass.data) ** 2)
        with_errors = of_wrong**2 / np.maximum(add(wrong.data**2), 1e-300)
        more = 1 / (1 + with_errors)
        expected = rate * (1 - rate) * total + more * size
        return np.asarray((spread + more * size**2) / np.where(expected > 0, expected, 1.0))

    @cached_property
    def _chance_gap(self) -> Array:
        """The gaps of samples, (N,), made larger where a perfectly calibrated model would show more of a spread.

        Where errors are rare, all clusters may be right, and as alike as no other samples of such a model.
        """
        samples, clusters = self._samples, self._clusters
        sums = csr_array((samples.gap, (samples.unit, self._range)), (clusters, _RANGES))
        seen = sum_at(sums.indices, sums.data**2, _RANGES)
        chance = samples.weight * samples.confidence * (1 - samples.confidence)
        least = self._lumps(self._range, _RANGES) * sum_at(self._range, chance, _RANGES)
        larger = np.divide(least, seen, out=np.ones(_RANGES), where=seen > 0)
        return np.asarray(samples.gap * np.sqrt(np.maximum(larger, 1))[self._range])

    def _gaps(self, bins: Bins) -> Array:
        """Σ w x per cluster and bin, (clusters, M)."""
        place = self._samples.unit * bins.count + bins.place[self._samples.cell]
        return sum_at(place, self._samples.gap, self._clusters * bins.count).reshape(-1, bins.count)

    def squares(self, bins: Bins) -> Array:
        """See `Units`."""
        gaps = self._gaps(bins) ** 2
        return np.stack([gaps[fold::FOLDS].sum(0) for fold in range(FOLDS)])

    @property
    def degrees(self) -> float:
        """Number of clusters of some weight, less one."""
        return float((self._weight > 0).sum() - 1)

    @property
    def noise_variance(self) -> float:
        """See `Units`; as `noise`."""
        return float((sum_at(self._samples.unit, self._chance_gap, self._clusters) ** 2).sum())

    def noise(self, bins: Bins, draws: int, seed: int) -> Array:
        """See `Units`; from the sums that were seen, as how samples of a cluster depend on each other is not known."""
        samples = self._samples
        gaps = csr_array((self._chance_gap, (samples.unit, bins.place[samples.cell])), (self._clusters, bins.count))
        size, axes = np.linalg.eigh((gaps.T @ gaps).toarray())
        normal = np.random.default_rng(seed).standard_normal((len(size), draws))
        return np.asarray((axes * np.sqrt(np.maximum(size, 0))) @ normal)

    def error(self, direction: Array, mean: float) -> float:
        """See `Units`."""
        samples = self._samples
        v = direction[samples.cell] if direction.ndim == 1 else direction[samples.unit % FOLDS, samples.cell]
        sums = sum_at(samples.unit, v * samples.gap, self._clusters)
        return math.sqrt(float(((sums - mean * self._weight) ** 2).sum())) / float(self._weight.sum())

    def cell_squares(self) -> Array:
        """See `Units`; as if samples of different cells were independent."""
        return sum_at(self._samples.cell, self._samples.gap**2, self._samples.cells)

    def cell_effective(self, accuracy: Array) -> Array:
        """See `Units`; at most the samples of the cell, and clusters where all of them are right, or wrong."""
        samples, cells = self._samples, self._samples.cells
        squares = sum_at(samples.cell, samples.weight**2, cells)
        mass = self.mass.sum(0)
        most = np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0)
        lumps = self.lumps()
        known = np.divide(mass, lumps, out=most.copy(), where=lumps > 0)
        return np.asarray(np.clip(known, np.minimum(most, 1.0), most))

    def largest_partial_error(self) -> float:
        """See `Units`; looked at after each of 64 bins of equal mass."""
        mass = self.mass.sum(0)
        bins = Bins.of_mass(mass, np.linspace(0, mass.sum(), _PARTIAL_SUMS + 1)[1:-1])
        gaps = np.cumsum(self._gaps(bins), axis=1)
        total = self._weight.sum()
        spread = gaps - self._weight[:, None] * (gaps.sum(0) / total)
        return math.sqrt(float((spread**2).sum(0).max(initial=0.0))) / float(total)


def units_of_sums(mass: Array, confidence: Array, gap: Array) -> ClusterUnits:
    """Take the sums (G, P) of groups of clusters for samples, each with the share of right ones that makes its gap."""
    group, cell = np.nonzero(mass > 0)
    weight, sure = mass[group, cell], confidence[group, cell]
    right = sure - gap[group, cell] / weight
    # Groups without samples are not units.
    _, unit = np.unique(group, return_inverse=True)
    return ClusterUnits(CellSamples(cell, sure, right, weight, unit, mass.shape[1]))
