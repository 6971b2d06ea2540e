"""Confidence intervals by the bootstrap: every metric at once, from counts and not from passes over the data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from focalcal.metrics.binning import check_bins
from focalcal.metrics.interval_methods import UNKNOWN, Array, Interval, Method, check_method, interval
from focalcal.metrics.resampling import RESAMPLED_METRICS, Resampler
from focalcal.metrics.resampling.counts import all_once, bootstrap_counts, jackknife_counts, with_weight
from focalcal.metrics.resampling.grouped import CELL_METRICS, GroupedResampler, resampler_of
from focalcal.metrics.resampling.loss_parts import LOSS_PARTS
from focalcal.metrics.resampling.scalars import TOP_K
from focalcal.metrics.statistics import SampleStatistics, measured, sample_statistics
from focalcal.predictions import Predictions
from focalcal.predictions.masking import masked_classes

INTERVAL_METRICS = (*RESAMPLED_METRICS, *LOSS_PARTS)

# Beyond so many samples the jackknife leaves out groups; the acceleration that it estimates is the same.
JACKKNIFE_SAMPLES, JACKKNIFE_GROUPS = 1000, 200

# Where a metric can lie, if that is not [0, 1].
_RANGES = {
    "nll": (0.0, math.inf),
    "brier": (0.0, 2.0),
    "mean_entropy": (0.0, math.inf),
    "mean_entropy_right": (0.0, math.inf),
    "mean_entropy_wrong": (0.0, math.inf),
    "signed_gap": (-1.0, 1.0),
    "nll_calibration": (0.0, math.inf),
    "nll_refinement": (0.0, math.inf),
    "brier_calibration": (0.0, 2.0),
    "brier_refinement": (0.0, 2.0),
}


@dataclass(frozen=True)
class Bootstrap:
    """Metrics with their intervals.

    Attributes:
        estimates: each metric on the data itself; NaN where it is undefined.
        intervals: (low, high) of each metric; (NaN, NaN) where none can be given.
        replicates: each metric on every resample, (samples,) float64.
        level: the share of the time that such intervals are meant to cover what they estimate.
        method: how the intervals come from the replicates.
        seed: of the resampling.
    """

    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    replicates: dict[str, Array]
    level: float
    method: Method
    seed: int


def bootstrap(
    preds: Predictions,
    metrics: Sequence[str] | None = None,
    samples: int = 1000,
    level: float = 0.90,
    seed: int = 0,
    method: Method = "basic",
    bins: int = 15,
    *,
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
    weight 0 are not drawn. Of more than 16,384 samples, 512 groups dealt at random are drawn in place of samples, in a
    time that hardly depends on n (see `focalcal.metrics.resampling.grouped`).

    Args:
        preds: N predictions; with weights, each drawn sample counts with its own.
        metrics: names out of `INTERVAL_METRICS`; None for all of them.
        samples: how many resamples.
        level: between 0 and 1.
        seed: the same seed gives the same intervals.
        method: as above.
        bins: of the binned metrics.
        statistics: of ``preds``, if they are at hand, to save a pass.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875], [0.25, 0.75]], [0, 1, 1, 1])
        >>> result = bootstrap(preds, ["error", "ece"], seed=1)
        >>> result.estimates["error"], result.intervals["error"]
        (0.25, (0.0, 0.5))
    """
    is_masked, preds = bool(masked_classes(preds)), measured(preds)
    names = checked_metrics(metrics, preds.num_classes)
    names = without_loss_parts(names, metrics is not None) if is_masked else names
    check_resampling(samples, level, seed)
    check_bins(bins)
    check_method(method)
    found = replicate(preds, names, samples, seed, method, bins, statistics)
    intervals = {name: found.interval(name, method, level) for name in names}
    return Bootstrap(found.estimates, intervals, found.values, level, method, seed)


@dataclass(frozen=True)
class Replicates:
    """Metrics on the data and on resamples of them.

    Attributes:
        estimates: on the data themselves.
        values: on each resample, (B,).
        jackknife: with a sample, or a group of them, left out at a time; empty where no method needs it.
        drawn: how many samples can be drawn.
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
        """The same with some metrics around other estimates."""
        shift = dict.fromkeys(self.estimates, 0.0)
        shift |= {name: value - self.estimates[name] for name, value in estimates.items()}
        return Replicates(
            {**self.estimates, **estimates},
            {name: value + shift[name] for name, value in self.values.items()},
            {name: value + shift[name] for name, value in self.jackknife.items()},
            self.drawn,
        )

    def interval(self, metric: str, method: Method, level: float, limits: Interval | None = None) -> Interval:
        """Of one metric, without what lies outside the limits of its range (or the given ones)."""
        if self.drawn < 2:
            return UNKNOWN
        ends = interval(method, self.estimates[metric], self.values[metric], level, self.jackknife.get(metric))
        low, high = np.clip(ends, *(metric_range(metric) if limits is None else limits))
        return float(low), float(high)


def replicate(
    preds: Predictions | None,
    metrics: Sequence[str],
    samples: int,
    seed: int,
    method: Method,
    bins: int,
    statistics: SampleStatistics | None = None,
) -> Replicates:
    """Metrics on the data and on resamples; arguments as in `bootstrap`, which has checked them.

    Statistics alone are enough for all metrics but classwise-ECE and the parts of losses.
    """
    if statistics is not None:
        known = statistics
    elif preds is not None:
        known = sample_statistics(preds)
    else:
        raise ValueError("there is nothing to resample: pass predictions, or their statistics.")
    sets = [] if preds is None else [preds]
    resampler, drawn = resampler_of(sets, metrics, bins, [known], seed)
    number = int(drawn.sum())
    groups = jackknife_counts(drawn, number if number <= JACKKNIFE_SAMPLES else JACKKNIFE_GROUPS, seed)
    found = Replicates(
        estimates={name: float(value[0]) for name, value in resampler.values(all_once(drawn)).items()},
        values=resampler.of_blocks(bootstrap_counts(drawn, samples, seed)),
        jackknife=resampler.of_blocks(groups) if method == "bca" and number > 1 else {},
        drawn=number,
    )
    in_cells = [name for name in metrics if name in CELL_METRICS]
    if not isinstance(resampler, GroupedResampler) or not in_cells:
        return found
    exact = Resampler([], in_cells, bins, [known]).values(all_once(with_weight(known.weight, len(known))))
    return found.moved_to({name: float(value[0]) for name, value in exact.items()})


def metric_range(metric: str) -> Interval:
    """The least and the largest value that a metric can have."""
    return _RANGES.get(metric, (0.0, 1.0))


def without_loss_parts(names: tuple[str, ...], by_name: bool) -> tuple[str, ...]:
    """The metrics that masked classes allow: a temperature that acts on all classes has no say in the answers alone."""
    for name in names if by_name else ():
        if name in LOSS_PARTS:
            raise ValueError(f"{name} cannot be computed where classes are masked; leave it out.")
    return tuple(name for name in names if name not in LOSS_PARTS)


def checked_metrics(
    metrics: Sequence[str] | None, num_classes: int, known: Sequence[str] = INTERVAL_METRICS
) -> tuple[str, ...]:
    """The names asked for, or all that make sense for so many classes; raises where one is not known."""
    possible = tuple(name for name in known if name != "top_5_accuracy" or num_classes > TOP_K)
    if metrics is None:
        return possible
    if isinstance(metrics, str):
        raise TypeError(f"metrics must be a list of names: pass [{metrics!r}].")
    for name in metrics:
        if name not in possible:
            raise ValueError(f"{name!r} is not among the metrics that are resampled, which are {', '.join(possible)}.")
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
