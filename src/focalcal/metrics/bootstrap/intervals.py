"""Confidence intervals by the bootstrap: every metric at once, from counts and not from passes over the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from focalcal.base.measures import MEASURES, Of
from focalcal.base.suggestions import did_you_mean
from focalcal.metrics.arguments import prepare_predictions
from focalcal.metrics.binning import check_bins
from focalcal.metrics.bootstrap.counts import bootstrap_counts, count_once, drawable, jackknife_counts
from focalcal.metrics.bootstrap.interval_methods import (
    UNKNOWN,
    Array,
    Interval,
    Method,
    check_method,
    interval_from_replicates,
)
from focalcal.metrics.bootstrap.replicates import INTERVAL_METRICS, resample_samples
from focalcal.metrics.bootstrap.sample_groups import CELL_SOURCES, resampler_of
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.refinement import LossSplits
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.metrics.sums import names_from
from focalcal.predictions import Predictions

DEFAULT_METHOD: Method = "basic"

# Beyond this many samples the jackknife leaves out groups; the acceleration that it estimates is the same.
JACKKNIFE_SAMPLES, JACKKNIFE_GROUPS = 1000, 200


@dataclass(frozen=True)
class Bootstrap:
    """Metrics with their intervals.

    Attributes:
        estimates: Each metric on the data itself; NaN where it is undefined.
        intervals: (low, high) of each metric; (NaN, NaN) where none can be given.
        replicates: Each metric on every resample, (bootstrap,) float64.
        level: Level of the intervals.
        method: How the intervals come from the replicates.
        seed: Seed for the draws.
    """

    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    replicates: dict[str, Array]
    level: float
    method: Method
    seed: int


def bootstrap(
    preds: Predictions,
    *,
    metrics: Sequence[str] | None = None,
    bins: int = 15,
    method: Method | None = None,
    bootstrap: int = 1000,
    level: float = 0.90,
    seed: int = 0,
    statistics: SampleStatistics | None = None,
) -> Bootstrap:
    """Resample the N samples with replacement, and give every metric an interval.

    With θ the metric on the data and q its quantiles over the resamples, α = 1 − level:

    - ``"basic"``: (2θ − q(1 − α/2), 2θ − q(α/2)), cut off at the ends of the metric's range. A binned error is above
      that of the population because of noise, and a resample's is above it once more; this takes that rise off.
    - ``"percentile"``: (q(α/2), q(1 − α/2)).
    - ``"bca"``: percentiles moved for bias and acceleration, the latter by a jackknife (of single samples up to 1,000,
      of 200 groups beyond).

    A resample on which a metric is undefined (the confidence of wrong samples where none is wrong) is left out; where
    that is a larger share than α/2 of them, and where there is only one sample, the interval is (NaN, NaN). Samples of
    weight 0 are not drawn. Of more than 16,384 samples, 512 groups dealt at random are drawn instead of samples, in a
    time that hardly depends on n (see `focalcal.metrics.bootstrap.sample_groups`).

    Args:
        preds: N predictions; with weights, each drawn sample counts with its own.
        metrics: Names of metrics that have intervals; None for all of them.
        bins: Number of bins of the binned metrics.
        method: As above; None for ``"basic"``.
        bootstrap: Number of resamples.
        level: Level of the intervals, between 0 and 1.
        seed: Seed for the draws; the same seed gives the same intervals.
        statistics: Statistics of ``preds``, if they are at hand, to save a pass.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875], [0.25, 0.75]], [0, 1, 1, 1])
        >>> from focalcal import bootstrap
        >>> result = bootstrap(preds, metrics=["error", "ece"], seed=1)
        >>> result.estimates["error"], result.intervals["error"]
        (0.25, (0.0, 0.5))
    """
    method = DEFAULT_METHOD if method is None else method
    is_masked, preds = bool(preds.masked_classes), prepare_predictions(preds)
    names = check_names(metrics, preds.num_classes, INTERVAL_METRICS, preds.of)
    names = without_loss_parts(names, metrics is not None) if is_masked else names
    check_resampling(bootstrap, level, seed)
    check_bins(bins)
    check_method(method)
    found = replicate(preds, names, bootstrap, seed, method, bins, statistics)
    intervals = {name: found.interval(name, method, level) for name in names}
    return Bootstrap(found.estimates, intervals, found.values, level, method, seed)


@dataclass(frozen=True)
class Replicates:
    """Metrics on the data and on resamples of them.

    Attributes:
        estimates: Values on the data themselves.
        values: Values on each resample, (B,).
        jackknife: Values with a sample, or a group of them, left out at a time; empty where no method needs it.
        drawn: Number of samples that can be drawn.
    """

    estimates: dict[str, float]
    values: dict[str, Array]
    jackknife: dict[str, Array]
    drawn: int

    def __sub__(self, other: "Replicates") -> "Replicates":
        with np.errstate(invalid="ignore"):
            return Replicates(
                {name: value - other.estimates[name] for name, value in self.estimates.items()},
                {name: value - other.values[name] for name, value in self.values.items()},
                {name: value - other.jackknife[name] for name, value in self.jackknife.items()},
                self.drawn,
            )

    def moved_to(self, estimates: Mapping[str, float]) -> "Replicates":
        """Return the same with some metrics around other estimates."""
        shift = dict.fromkeys(self.estimates, 0.0)
        shift |= {name: value - self.estimates[name] for name, value in estimates.items()}
        return Replicates(
            {**self.estimates, **estimates},
            {name: value + shift[name] for name, value in self.values.items()},
            {name: value + shift[name] for name, value in self.jackknife.items()},
            self.drawn,
        )

    def interval(self, metric: str, method: Method, level: float, limits: Interval | None = None) -> Interval:
        """Return the interval of one metric, without what lies outside the limits of its range (or the given ones)."""
        if self.drawn < 2:
            return UNKNOWN
        of_metric = self.estimates[metric], self.values[metric]
        ends = interval_from_replicates(method, *of_metric, level, self.jackknife.get(metric))
        low, high = np.clip(ends, *(METRICS[metric].range if limits is None else limits))
        return float(low), float(high)


def replicate(
    preds: Predictions | None,
    metrics: Sequence[str],
    samples: int,
    seed: int,
    method: Method,
    bins: int,
    statistics: SampleStatistics | None = None,
    splits: LossSplits | None = None,
) -> Replicates:
    """Compute metrics on the data and on resamples; arguments as in `bootstrap`, which has checked them.

    Statistics alone are enough for all metrics but classwise-ECE and the parts of losses.
    """
    if statistics is not None:
        known = statistics
    elif preds is not None:
        known = sample_statistics(preds)
    else:
        raise ValueError("there is nothing to resample: pass predictions, or their statistics.")
    sets = [] if preds is None else [preds]
    resampler, drawn = resampler_of(sets, metrics, bins, [known], seed, splits)
    number = int(drawn.sum())
    groups = jackknife_counts(drawn, number if number <= JACKKNIFE_SAMPLES else JACKKNIFE_GROUPS, seed)
    found = Replicates(
        estimates={name: float(value[0]) for name, value in resampler.values(count_once(drawn)).items()},
        values=resampler.values_of_blocks(bootstrap_counts(drawn, samples, seed)),
        jackknife=resampler.values_of_blocks(groups) if method == "bca" and number > 1 else {},
        drawn=number,
    )
    return found if len(drawn) == len(known) else found.moved_to(_exact_estimates(known, metrics, bins))


def _exact_estimates(statistics: SampleStatistics, metrics: Sequence[str], bins: int) -> dict[str, float]:
    """Compute the metrics that groups of samples know only up to the width of a cell."""
    names = names_from(metrics, CELL_SOURCES)
    once = count_once(drawable(statistics.weight, len(statistics)))
    return {
        name: float(value[0]) for name, value in resample_samples([], names, bins, [statistics]).values(once).items()
    }


def without_loss_parts(names: tuple[str, ...], by_name: bool) -> tuple[str, ...]:
    """Leave out what masked classes do not allow: a temperature acts on all classes, not on the answers alone."""
    parts = names_from(names, ["outputs"])
    if by_name and parts:
        raise ValueError(f"{parts[0]} cannot be computed where classes are masked; leave it out.")
    return tuple(name for name in names if name not in parts)


def check_names(
    metrics: Sequence[str] | None, num_classes: int, known: Sequence[str], of: Of = "top"
) -> tuple[str, ...]:
    """Return the names asked for, or all that make sense for such predictions; raises for an unknown one.

    Examples:
        >>> check_names(["ece", "nll", "ece"], num_classes=10, known=tuple(METRICS))
        ('ece', 'nll')
    """
    possible = names_for(known, num_classes, of)
    if metrics is None:
        return possible
    if isinstance(metrics, str):
        raise TypeError(f"metrics must be a list of names; pass [{metrics!r}].")
    for name in metrics:
        if name in METRICS and of not in METRICS[name].of:
            raise ValueError(f"{name} cannot be computed for predictions that are measured by {MEASURES[of].title}.")
        if name not in possible:
            nearest = did_you_mean(name, possible, cutoff=0.0) or "."
            raise ValueError(f"There is no metric {name!r}{nearest} (All: {', '.join(possible)}.)")
    return tuple(dict.fromkeys(metrics))


def check_resampling(samples: int, level: float, seed: int = 0) -> None:
    """Raise unless there is at least one resample, the level lies between 0 and 1 and the seed is not negative."""
    for what, number, least in (("number of resamples", samples, 1), ("seed", seed, 0)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"the {what} must be an integer, not {number!r}.")
        if number < least:
            raise ValueError(f"the {what} must be at least {least}, not {number}.")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}: pass for example level=0.9.")
