"""Evaluation of streamed samples: sums become values and intervals by the functions that `evaluate` uses, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from focalcal.metrics.binning import BinSums
from focalcal.metrics.bootstrap.intervals import check_names, check_resampling
from focalcal.metrics.calibration_testing import judge_gaps
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.evaluation import Evaluation
from focalcal.metrics.gap_intervals import Interval
from focalcal.metrics.honest_intervals import GapSums, HonestIntervals, RankedUnits
from focalcal.metrics.independent_units import SampleUnits
from focalcal.metrics.mean_intervals import MeanIntervals
from focalcal.metrics.streaming.running_sums import RunningSums
from focalcal.metrics.streaming.sketch import KEPT_SAMPLES, ConfidenceSketch
from focalcal.metrics.streaming.streamed_samples import StreamedSamples
from focalcal.metrics.sums import Means, values

_NOT_KEPT = (
    f"More than {KEPT_SAMPLES:,} samples: what depends on the order of confidences comes from a fine histogram (see "
    "bounds), and debiased_ece, whose bins cannot be cut in one, is left out."
)
_NO_CLASSES = "Of clusters in a stream, classwise_ece has no interval."
_COMPACT = (
    "What depends on the order of confidences comes from a histogram (see bounds), and debiased_ece, whose bins cannot "
    "be cut in one, is left out."
)
_NEEDS_OUTPUTS = "The calibration and refinement parts of NLL and Brier need the outputs themselves: use evaluate()."


@dataclass(frozen=True)
class _StreamedGaps:
    """The data that honest intervals are made of."""

    table: BinSums
    sums: RunningSums
    sketch: ConfidenceSketch

    @property
    def binned(self) -> SampleUnits:
        return self.sums.binned_units()

    @cached_property
    def ranked(self) -> RankedUnits:
        return self.sketch.rank()


def possible_metrics(data: StreamedSamples) -> list[str]:
    """Return the metrics that can be computed of what was added."""
    missing = data.sketch.missing()
    possible = names_for(METRICS, data.num_classes, data.measured)
    return [name for name in possible if METRICS[name].source != "outputs" and name not in missing]


def sum_means(data: StreamedSamples) -> Means:
    """Return the sums that means are made of."""
    found = data.sums.known(with_classes=False).means
    assert found is not None
    return found


def evaluate_streamed(
    data: StreamedSamples, metrics: Sequence[str] | None, *, intervals: bool, level: float, seed: int
) -> Evaluation:
    """Compute metrics of everything that was added, as `Accumulator.compute` describes, without groups."""
    if data.samples == 0:
        raise ValueError("Nothing has been added yet (or only weights of 0); call update with a batch first.")
    names = check_names(metrics, data.num_classes, possible_metrics(data), data.measured)
    needed = {METRICS[name].source for name in names}
    known = replace(
        data.sums.known(with_classes="classes" in needed),
        ranking=data.sketch.ranking() if "ranking" in needed else None,
        residuals=data.sketch.residuals() if "residuals" in needed else None,
    )
    found = {name: float(value) for name, value in values(known, names).items()}
    bounds = data.sketch.bounds(found) if "ranking" in needed else {}
    if known.residuals is not None:
        bounds["smooth_ece"] = float(known.residuals.solution[1])
    evaluation = Evaluation(
        values=found,
        n=data.samples,
        num_classes=data.num_classes,
        bins=data.bins,
        bounds={name: bound for name, bound in bounds.items() if name in found},
        notes=(*([_COMPACT if data.compact else _NOT_KEPT] if data.sketch.missing() else []), _NEEDS_OUTPUTS),
        of=data.measured,
    )
    assert known.bins is not None
    if data.clusters is None:
        gaps: GapSums = _StreamedGaps(known.bins, data.sums, data.sketch)
    else:
        gaps, without = data.clusters.gaps(), [_NO_CLASSES] * (intervals and "classwise_ece" in found)
        evaluation = replace(evaluation, notes=(*evaluation.notes, data.clusters.note, *without))
    honest = HonestIntervals(gaps, seed)
    check_resampling(1, level, seed)
    if "ece" in found:
        evaluation = replace(evaluation, calibration_test=judge_gaps(honest.binned))
    return _with_intervals(evaluation, data, honest, level) if intervals else evaluation


def _with_intervals(evaluation: Evaluation, data: StreamedSamples, honest: HonestIntervals, level: float) -> Evaluation:
    found = evaluation.values
    of_gaps = _gap_intervals(found, data, honest, level)
    clusters = data.clusters
    means = MeanIntervals(sum_means(data), data.sums.products) if clusters is None else clusters.mean_intervals()
    of_means = means.at(found, level)
    methods = dict.fromkeys(of_means, "normal") | dict.fromkeys(of_gaps, "honest")
    ends = of_means | of_gaps
    return replace(
        evaluation,
        intervals={name: ends[name] for name in found if name in ends},
        level=level if ends else None,
        methods={name: methods[name] for name in found if name in ends},
    )


def _gap_intervals(
    found: Mapping[str, float], data: StreamedSamples, honest: HonestIntervals, level: float
) -> dict[str, Interval]:
    ends = {name: honest.interval(name, value, level) for name, value in found.items() if honest.has(name)}
    # Cross terms between the samples of a cluster are not known by class.
    by_class = "classwise_ece" in found and data.clusters is None
    of_classes = data.sums.classwise_interval(level) if by_class else None
    return ends if of_classes is None else {**ends, "classwise_ece": of_classes}
