"""Moments of groups of samples: whether a group differs from the rest in mean confidence − accuracy, or in error.

Sums of parts of the data add up, and take 80 bytes per group. ECE is not compared between groups: it is the larger the
fewer samples a group has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtr
from torch import Tensor

from focalcal.metrics.independent_units import sum_at
from focalcal.metrics.mean_intervals import COLUMNS
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means

Array = npt.NDArray[np.float64]

# A group of fewer samples (or clusters) than this is shown and not tested.
FEWEST_SAMPLES = 10


@dataclass(frozen=True)
class Contrast:
    """Difference between the mean of each of G groups and that of all other samples; (G,) each.

    Attributes:
        mean: Mean of the group.
        difference: The group less the rest; NaN where there is no rest.
        p_value: P-value of no difference, two-sided, not corrected; NaN where there are too few samples to say.
    """

    mean: Array
    difference: Array
    p_value: Array


@dataclass(frozen=True)
class GroupMoments:
    """Sums over the samples of each of G groups, (G,) float64 each, with x = confidence − correct.

    Attributes:
        samples: Number of samples of positive weight.
        mass: Σ w.
        squares: Σ w².
        gap: Σ w x.
        gap_products: Σ w² x.
        gap_squares: Σ w² x².
        chance: Σ w² c (1 − c).
        wrong: Σ w over samples whose predicted class is wrong.
        wrong_squares: Σ w² over those.
    """

    samples: Array
    mass: Array
    squares: Array
    gap: Array
    gap_products: Array
    gap_squares: Array
    chance: Array
    wrong: Array
    wrong_squares: Array

    @classmethod
    def of(cls, stats: SampleStatistics, codes: Tensor, groups: int) -> "GroupMoments":
        """Add up samples whose groups are numbered by ``codes``, (N,)."""
        w, c, wrong = stats.mass.numpy(), stats.confidence.numpy(), ~stats.right.numpy()
        x = c - stats.correct.numpy()
        terms = (w > 0, w, w**2, w * x, w**2 * x, (w * x) ** 2, w**2 * c * (1 - c), w * wrong, w**2 * wrong)
        return cls(*(sum_at(codes.numpy(), np.asarray(term, dtype=np.float64), groups) for term in terms))

    @classmethod
    def of_means(cls, groups: Sequence[tuple[int, Means, Array]]) -> "GroupMoments":
        """Take the moments from sums that others keep.

        Args:
            groups: For each group the number of samples, its sums, and those of the products of their terms, as
                `focalcal.metrics.mean_intervals.products_of_terms` gives them.
        """
        rows = []
        for samples, means, products in groups:
            table = dict(zip(COLUMNS, products, strict=True))

            def product(a: str, b: str, table: dict[str, Array] = table) -> float:
                return float(table[a][COLUMNS.index(b)])

            right, sure = product("right", "right"), product("confidence_right", "right")
            squares = right + product("wrong", "wrong")
            confidence = sure + product("confidence_wrong", "wrong")
            confidence_squares = sum(product(name, name) for name in ("confidence_right", "confidence_wrong"))
            rows.append(
                (
                    samples,
                    float(means.total),
                    squares,
                    float(means.confidence - means.right),
                    confidence - right,
                    confidence_squares - 2 * sure + right,
                    max(confidence - confidence_squares, 0.0),
                    float(means.misses),
                    product("misses", "misses"),
                )
            )
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, len(cls.__dataclass_fields__)).T)

    def gap_contrast(self) -> Contrast:
        """Compare mean confidence − accuracy."""
        moments = _Moments(self.mass, self.squares, self.gap, self.gap_products, self.gap_squares)
        rest = moments.rest()
        # A few samples that happen to be alike know less of their spread than chance says.
        floors = [_divide(part, each.mass**2) for part, each in ((self.chance, moments), (_rest(self.chance), rest))]
        return self._contrast(moments, rest, floors)

    def error_contrast(self) -> Contrast:
        """Compare how often the predicted class is wrong."""
        moments = _Moments(self.mass, self.squares, self.wrong, self.wrong_squares, self.wrong_squares)
        rest = moments.rest()
        error = self.wrong.sum() / self.mass.sum()
        floors = [error * (1 - error) * _divide(each.squares, each.mass**2) for each in (moments, rest)]
        return self._contrast(moments, rest, floors)

    def _contrast(self, group: "_Moments", rest: "_Moments", floors: list[Array]) -> Contrast:
        variances = [np.maximum(each.variance, floor) for each, floor in zip((group, rest), floors, strict=True)]
        few = (self.samples < FEWEST_SAMPLES) | (_rest(self.samples) < FEWEST_SAMPLES)
        return _test(group.mean, rest.mean, np.sqrt(sum(variances)), few)


@dataclass(frozen=True)
class _Moments:
    """Σ w, Σ w², Σ w x, Σ w² x and Σ w² x² of each group."""

    mass: Array
    squares: Array
    sums: Array
    products: Array
    second: Array

    def rest(self) -> "_Moments":
        return _Moments(*map(_rest, (self.mass, self.squares, self.sums, self.products, self.second)))

    @property
    def mean(self) -> Array:
        return _divide(self.sums, self.mass)

    @property
    def variance(self) -> Array:
        """Of the mean."""
        spread = np.maximum(self.second - 2 * self.mean * self.products + self.mean**2 * self.squares, 0)
        effective = _divide(self.mass**2, self.squares)
        return _divide(spread, self.mass**2) * _divide(effective, effective - 1)


def cluster_contrast(values: Array, weight: Array, codes: Tensor, groups: int, clusters: Tensor) -> Contrast:
    """Compare the means of groups where samples of one cluster depend on each other, within and between groups.

    Args:
        values: (N,) what is averaged.
        weight: (N,).
        codes: (N,) the group of each sample.
        groups: Number of groups G.
        clusters: (N,) the cluster of each sample.
    """
    group, cluster = codes.numpy(), np.unique(clusters.numpy(), return_inverse=True)[1]
    mass, sums = (sum_at(group, term, groups) for term in (weight, weight * values))
    mean, others = _divide(sums, mass), _divide(_rest(sums), _rest(mass))
    whole_mass, whole_sums = (sum_at(cluster, term, int(cluster.max()) + 1) for term in (weight, weight * values))
    # A pair is a cluster's part in a group. What a cluster adds to a difference is linear in its sums inside and
    # outside of the group; clusters without samples of the group are added up through the sums over all clusters.
    pair, place = np.unique(group * np.int64(len(whole_mass)) + cluster, return_inverse=True)
    inside_mass, inside_sums = (sum_at(place, term, len(pair)) for term in (weight, weight * values))
    of_group, of_cluster = pair // len(whole_mass), pair % len(whole_mass)
    inside = _divide(inside_sums - mean[of_group] * inside_mass, mass[of_group])
    outside_sums, outside_mass = whole_sums[of_cluster] - inside_sums, whole_mass[of_cluster] - inside_mass
    outside = _divide(outside_sums - others[of_group] * outside_mass, _rest(mass)[of_group])
    alone = _divide(whole_sums[of_cluster] - others[of_group] * whole_mass[of_cluster], _rest(mass)[of_group])
    total = (whole_sums**2).sum() - 2 * others * (whole_sums * whole_mass).sum() + others**2 * (whole_mass**2).sum()
    absent = _divide(total, _rest(mass) ** 2) - sum_at(of_group, alone**2, groups)
    variance = sum_at(of_group, (inside - outside) ** 2, groups) + np.maximum(absent, 0)
    present = sum_at(of_group, (inside_mass > 0).astype(np.float64), groups)
    variance *= _divide(present, present - 1)
    few = (present < FEWEST_SAMPLES) | (_rest(mass) <= 0)
    return _test(mean, others, np.sqrt(variance), few, present - 1)


def _test(mean: Array, rest: Array, error: Array, few: npt.NDArray[np.bool_], degrees: Array | None = None) -> Contrast:
    difference = mean - rest
    score = -np.abs(np.divide(difference, error, out=np.full_like(error, np.nan), where=error > 0))
    tail = ndtr(score) if degrees is None else stdtr(np.maximum(degrees, 1), score)
    p_value = np.where(difference == 0, 1.0, np.minimum(2 * tail, 1.0))
    return Contrast(mean, difference, np.where(few, np.nan, p_value))


def _rest(values: Array) -> Array:
    """Return the sum over all other groups."""
    return np.asarray(values.sum() - values)


def _divide(values: Array, by: Array) -> Array:
    return np.divide(values, by, out=np.full_like(np.asarray(by, dtype=np.float64), np.nan), where=np.asarray(by) > 0)
