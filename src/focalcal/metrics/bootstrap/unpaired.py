"""Differences between sets of different samples, such as those of two months: drift.

Means (error, NLL, …) are resampled in each set on its own. A calibration error is a norm, which noise only makes
larger, and the more so the fewer samples there are: the difference of two estimates, or of their resamples, differs
from 0 between sets of different sizes although both are calibrated. So its interval is made of the two honest ones,
[low(a) − high(b), high(a) − low(b)], and its p-value is the smallest α whose interval excludes 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from focalcal.metrics.bootstrap.differences import Difference
from focalcal.metrics.bootstrap.interval_methods import UNKNOWN, Interval, Method
from focalcal.metrics.bootstrap.intervals import Replicates, replicate
from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.clusters import cluster_numbers, count_clusters
from focalcal.metrics.gap_intervals import tail, z_score
from focalcal.metrics.honest_intervals import HONEST_METRICS, CalibrationErrors
from focalcal.metrics.sums import means
from focalcal.predictions import Predictions

# A set of fewer samples (or clusters) than this shows its numbers, and is not tested.
FEWEST_SAMPLES = 10
# The draws that honest intervals are made with tell no smaller probabilities apart.
_SMALLEST_P_VALUE = 1e-4
_BISECTIONS = 10
# Sums of the samples that a metric is a mean over, where that is not all of them.
_AVERAGED_OVER = {
    "confident_accuracy": ("confident_right", "confident_wrong"),
    "mean_confidence_right": ("right",),
    "mean_confidence_wrong": ("wrong",),
}


class UnpairedSet:
    """One of the sets, measured on its own.

    Args:
        name: What it is called.
        preds: Its predictions, as `measured` gives them.
        metrics: Names of metrics that have intervals.
        bins: Number of bins of the binned metrics.
        method: Method of the resampled intervals.
        bootstrap: Number of resamples.
        seed: Seed for the draws: another one for every set, as equal draws would make sets alike.
    """

    def __init__(
        self,
        name: str,
        preds: Predictions,
        metrics: Sequence[str],
        bins: int,
        method: Method,
        bootstrap: int,
        seed: int,
    ) -> None:
        self.name, self.num_samples = name, _count(preds)
        self.clusters = None if cluster_numbers(preds) is None else self.num_samples
        self._means = means(preds)
        resampled = [metric for metric in metrics if metric not in HONEST_METRICS]
        self.replicates = replicate(preds, resampled, bootstrap, seed, method, bins) if resampled else None
        self._errors = CalibrationErrors(preds, bins, seed=seed) if len(resampled) < len(metrics) else None

    def value(self, metric: str) -> float:
        """Return the metric on the set."""
        if metric in HONEST_METRICS:
            assert self._errors is not None
            return self._errors.estimates[metric]
        assert self.replicates is not None
        return self.replicates.estimates[metric]

    def count_averaged(self, metric: str) -> float:
        """Return how many samples the metric is a mean over."""
        parts = _AVERAGED_OVER.get(metric)
        share = 1.0 if parts is None else sum(float(getattr(self._means, part)) for part in parts)
        return self.num_samples * share / (1.0 if parts is None else float(self._means.total))

    def honest_interval(self, metric: str, level: float) -> Interval:
        """Return the interval of a calibration error."""
        assert self._errors is not None
        return self._errors.interval(metric, level) if self.num_samples > 1 else UNKNOWN


def _count(preds: Predictions) -> int:
    """Count the samples of positive weight, or their clusters."""
    counted = slice(None) if preds.weights is None else preds.weights > 0
    clusters = cluster_numbers(preds)
    return len(preds.values[counted]) if clusters is None else count_clusters(clusters, preds.weights)


def unpaired_differences(
    a: UnpairedSet, b: UnpairedSet, metrics: Sequence[str], method: Method, level: float
) -> dict[str, Difference]:
    """Compare two sets of different samples in every metric; the p-values are not corrected."""
    difference = None if a.replicates is None or b.replicates is None else a.replicates - b.replicates
    found = {}
    for metric in metrics:
        values = a.value(metric), b.value(metric)
        if metric in HONEST_METRICS:
            interval, p_value = _of_calibration_error(metric, a, b, level)
        else:
            assert difference is not None
            interval, p_value = _of_mean(metric, (a, b), difference, method, level)
        if min(a.num_samples, b.num_samples) < FEWEST_SAMPLES:
            p_value = math.nan
        found[metric] = Difference(
            metric=metric,
            names=(a.name, b.name),
            values=values,
            difference=_subtract(*values),
            interval=interval,
            p_value=p_value,
            adjusted_p_value=p_value,
            level=level,
        )
    return found


def _subtract(a: float, b: float) -> float:
    return math.nan if math.isinf(a) and a == b else a - b


def _of_calibration_error(metric: str, a: UnpairedSet, b: UnpairedSet, level: float) -> tuple[Interval, float]:
    def interval_at(level: float) -> Interval:
        (low_a, high_a), (low_b, high_b) = a.honest_interval(metric, level), b.honest_interval(metric, level)
        return low_a - high_b, high_a - low_b

    return interval_at(level), smallest_alpha(interval_at)


def smallest_alpha(interval_at: Callable[[float], Interval], least: float = _SMALLEST_P_VALUE) -> float:
    """Find the smallest α at which the interval of level 1 − α excludes 0, to about 1%: its p-value.

    Args:
        interval_at: Gives the interval of a level; those of higher levels contain those of lower ones.
        least: Never less than this.

    Examples:
        >>> from focalcal.metrics.gap_intervals import z_score
        >>> round(smallest_alpha(lambda level: (1.96 - z_score(level), 1.96 + z_score(level))), 3)
        0.05
        >>> smallest_alpha(lambda level: (-1.0, 1.0))
        1.0
    """

    def excludes(alpha: float) -> bool:
        low, high = interval_at(1 - alpha)
        return low > 0 or high < 0

    if any(map(math.isnan, interval_at(0.5))):
        return math.nan
    if excludes(least):
        return least
    below, above = math.log(least), 0.0
    if not excludes(0.999):
        return 1.0
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        below, above = (below, middle) if excludes(math.exp(middle)) else (middle, above)
    return math.exp(above)


def _of_mean(
    metric: str, sets: tuple[UnpairedSet, UnpairedSet], difference: Replicates, method: Method, level: float
) -> tuple[Interval, float]:
    """Take the p-value from the standard errors of resamples, and the interval from them and from the resamples."""
    if min(one.num_samples for one in sets) < 2:
        return UNKNOWN, math.nan
    lowest, highest = METRICS[metric].range
    low, high = difference.interval(metric, method, level, (lowest - highest, highest - lowest))
    estimate, error = difference.estimates[metric], math.hypot(*(_standard_error(one, metric) for one in sets))
    if not math.isfinite(estimate) or math.isnan(error):
        return (low, high), math.nan
    degrees = min(math.inf if one.clusters is None else max(one.clusters - 1, 1) for one in sets)
    reach = z_score(level, degrees) * error
    interval = min(low, estimate - reach), max(high, estimate + reach)
    if estimate == 0:
        return interval, 1.0
    return interval, 2 * tail(-abs(estimate) / error, degrees) if error > 0 else math.nan


def _standard_error(one: UnpairedSet, metric: str) -> float:
    """Return the spread of the resamples, no less than what a single sample can make of a share.

    Resamples of samples that are all right are all right too, and say nothing of how rare a mistake is.
    """
    assert one.replicates is not None
    values = one.replicates.values[metric]
    if not np.isfinite(values).all():
        return math.nan
    return math.hypot(float(values.std()), 1 / (one.count_averaged(metric) + 2) if METRICS[metric].is_share else 0.0)


def check_alike(models: Mapping[str, Predictions]) -> None:
    """Raise unless the sets can be compared: the same classes, and labels of one kind."""
    (first, a), *others = models.items()
    for name, b in others:
        if a.num_classes != b.num_classes:
            raise ValueError(f"{first} has {a.num_classes} classes and {name} {b.num_classes}: compare like with like.")
        if a.has_soft_labels != b.has_soft_labels:
            raise ValueError(f"only one of {first} and {name} has soft labels: compare like with like.")
