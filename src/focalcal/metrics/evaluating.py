"""Evaluation of predictions: every metric at once, with intervals; one pass for everything that one pass can give."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from torch import Tensor

from focalcal.base.measures import MEASURES, name_event
from focalcal.metrics.arguments import predictions_of, prepare_predictions
from focalcal.metrics.binning import check_bins
from focalcal.metrics.bootstrap.interval_methods import Interval
from focalcal.metrics.bootstrap.intervals import check_names, check_resampling, replicate, without_loss_parts
from focalcal.metrics.calibration_testing import judge_gaps
from focalcal.metrics.catalogue import METRICS, IntervalMethod, Method, Source
from focalcal.metrics.classwise import ClassSums
from focalcal.metrics.classwise_interval import ClassGapFolds, ClasswiseInterval, FoldedClassSums
from focalcal.metrics.clusters import cluster_numbers, count_clusters, note_on_clusters
from focalcal.metrics.evaluation import Evaluation, EvaluationRequest
from focalcal.metrics.floor import floor_sums
from focalcal.metrics.grouping import check_columns, evaluate_groups, label_notes
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.mean_intervals import SHARES, intervals_of_samples
from focalcal.metrics.refinement import LossSplits, loss_splits
from focalcal.metrics.samples import (
    ConfidenceSamples,
    SampleStatistics,
    StatisticsStore,
    block_statistics,
    confidence_samples,
)
from focalcal.metrics.smooth import Residuals
from focalcal.metrics.streaming.large_files import evaluate_file
from focalcal.metrics.sums import Sums, means_of_samples, values
from focalcal.predictions import Kind, Predictions, PredictionsFile, open_predictions
from focalcal.predictions.masking import answer_classes

Predicted = Predictions | PredictionsFile | str | os.PathLike[str]

# A file of at most this many bytes, and this many outputs, is read whole; a larger one is read in blocks.
READ_WHOLE_BYTES, READ_WHOLE_VALUES = 2**28, 2**26
# Sums that need more of a sample than its confidence and whether it is right.
_OF_STATISTICS: set[Source] = {"means", "classes", "outputs"}


def evaluate(
    preds: Predicted | Any,
    *arrays: Any,
    kind: Kind | None = None,
    metrics: Sequence[str] | None = None,
    bins: int = 15,
    intervals: bool = True,
    method: IntervalMethod | None = None,
    bootstrap: int | None = 1000,
    level: float = 0.90,
    seed: int = 0,
    by: str | Sequence[str] | None = None,
) -> Evaluation:
    """Compute all metrics, or some of them, with confidence intervals.

    Predictions in memory, and files of up to 256 MB, give everything. A larger file is read in blocks, in memory that
    does not grow with it: then the parts of the losses are left out, and beyond
    131,072 samples also ``debiased_ece``, while ``Evaluation.bounds`` tells how far metrics that depend on the order of
    confidences may be from the exact values. ``Evaluation.notes`` says what was left out.

    Intervals of calibration errors are ``"honest"`` by default: they cover the truth whatever it is, a calibrated
    model's too, and hold the estimate; see `focalcal.metrics.gap_intervals`. All others come from resamples (of groups
    of samples where there are more than 16,384, see `bootstrap`). ``Evaluation.methods`` says which is which, and
    ``Evaluation.calibration_test`` whether chance alone explains the ECE.

    Args:
        preds: Predictions, or the path of a file of them, or a file that `open_predictions` opened; or an array of
            logits or probabilities, as ``kind`` says.
        *arrays: Labels, beside an array.
        kind: ``"logits"`` or ``"probs"``, for arrays.
        metrics: Names, see ``METRICS``; None for all of them. Only what they need is computed.
        bins: Number of bins of the binned metrics.
        intervals: Whether to compute confidence intervals at all.
        method: Method of the intervals: None for each metric's default, ``"honest"`` for those alone, or a method of
            `bootstrap` (``"basic"``, ``"percentile"``, ``"bca"``) for every metric.
        bootstrap: Number of resamples for those intervals that are made of them; 0 or None for none of those.
        level: Level of the intervals.
        seed: Seed for the draws; the same seed gives the same intervals.
        by: A column of groups, or several (each on its own, not crossed): every group is evaluated as if it were alone,
            ``Evaluation.groups`` by name, and ``Evaluation.by`` tells which differ significantly from the rest in
            confidence − accuracy or in error, or fail the test of calibration (Holm's correction for their number).

    Raises:
        ValueError: For an unknown metric (with the nearest name), or a metric that such data cannot give.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875], [0.25, 0.75]], [0, 1, 1, 1])
        >>> evaluate(preds, metrics=["error", "brier"], intervals=False)
        Evaluation of 4 samples, 2 classes, 15 bins; calibration of the predicted class
          error        0.2500
          Brier score  0.1953
        >>> evaluate(preds, metrics=["error"], seed=1).intervals["error"]
        (0.0, 0.5)
    """
    check_bins(bins)
    resamples = bootstrap or 0
    if method is not None and method not in get_args(IntervalMethod):
        raise ValueError(f"method must be one of {', '.join(get_args(IntervalMethod))}, not {method!r}.")
    if intervals:
        check_resampling(resamples or 1, level, seed)
    source = _open_data(predictions_of("evaluate", preds, arrays, kind) if arrays or kind is not None else preds, by)
    columns = check_columns(by, tuple(source.groups))
    names = check_names(metrics, len(answer_classes(source)), tuple(METRICS), source.of)
    left_out = MEASURES[source.of].left_out
    notes: tuple[str, ...] = (left_out,) if left_out and metrics is None else ()
    if source.masked_classes:
        names, notes = without_loss_parts(names, metrics is not None), (_masking_note(source),)
    request = EvaluationRequest(names, metrics is not None, bins, intervals, method, resamples, level, seed, columns)
    if isinstance(source, Predictions):
        data = prepare_predictions(source)
        evaluation = _evaluate_predictions(data, request)
        tables = {
            column: evaluate_groups(
                data, column, request, lambda part: _evaluate_predictions(prepare_predictions(part), request)
            )
            for column in columns
        }
        evaluation = replace(evaluation, by=tables)
        notes = (*notes, *_notes_on_units(data), *label_notes(data, columns))
    else:
        evaluation = evaluate_file(source, request)
    event = name_event(source.of, source.class_names)
    return replace(evaluation, notes=(*notes, *evaluation.notes), event=event)


def _open_data(preds: Predicted | Any, by: str | Sequence[str] | None) -> Predictions | PredictionsFile:
    """Read the data; what is too large to be read whole stays a file."""
    if isinstance(preds, Predictions):
        return preds
    if not isinstance(preds, PredictionsFile | str | os.PathLike):
        return prepare_predictions(preds)
    columns = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    file = preds if isinstance(preds, PredictionsFile) else open_predictions(preds, groups_key=columns)
    file.check_labels()
    small = file.size <= READ_WHOLE_BYTES
    return file.read() if small and file.num_samples * file.num_classes <= READ_WHOLE_VALUES else file


def _masking_note(source: Predictions | PredictionsFile) -> str:
    masked = [source.class_names[i] if source.class_names else str(i) for i in source.masked_classes]
    return (
        f"Masked, so never the answer, but with their share of the probability: {', '.join(masked)}. The calibration "
        "and refinement parts of NLL and Brier are left out."
    )


def _notes_on_units(preds: Predictions) -> list[str]:
    clusters = cluster_numbers(preds)
    return [] if clusters is None else [note_on_clusters(count_clusters(clusters, preds.weights))]


def _evaluate_predictions(preds: Predictions, request: EvaluationRequest) -> Evaluation:
    needed = {METRICS[name].source for name in request.names}
    methods: dict[str, str] = dict(request.methods())
    resampled = [name for name, method in methods.items() if method != "honest"]
    clusters = cluster_numbers(preds)
    stats: SampleStatistics | None = None
    splits: LossSplits | None = None
    folds: ClassGapFolds | None = None
    if needed & _OF_STATISTICS or resampled:
        in_folds = methods.get("classwise_ece") == "honest"
        stats, classes = _statistics(preds, request.bins, "classes" in needed, in_folds, clusters)
        if isinstance(classes, FoldedClassSums):
            folds, classes = classes.gaps(), classes.total()
        gaps = SampledGaps(stats, request.bins, clusters)
        splits = loss_splits(preds, statistics=stats) if "outputs" in needed else None
        sums = replace(
            _sums(stats, gaps, request.bins, needed),
            means=means_of_samples(stats),
            classes=None if classes is None else classes.table().gaps,
            outputs=None if splits is None else splits.parts,
        )
    else:
        samples = confidence_samples(preds)
        gaps = SampledGaps(samples, request.bins, clusters)
        sums = _sums(samples, gaps, request.bins, needed)
    found = {name: float(value) for name, value in values(sums, request.names).items()}
    bounds = {} if sums.residuals is None else {"smooth_ece": float(sums.residuals.solution[1])}
    n = len(preds) if preds.weights is None else int((preds.weights > 0).sum())
    honest = HonestIntervals(gaps, request.seed)
    ends: dict[str, Interval] = {}
    if resampled:
        ends |= _resample(preds, request, resampled, stats, splits)
        if request.method is None and stats is not None:
            constant = [name for name in SHARES if name in ends and ends[name][0] == ends[name][1]]
            if constant:
                # No resample shows an error that has not occurred.
                ends |= intervals_of_samples(stats, clusters).at(constant, request.level)
                methods |= dict.fromkeys(constant, "normal")
    for name in methods.keys() - ends.keys() - {"classwise_ece"}:
        ends[name] = honest.interval(name, found[name], request.level)
    if folds is not None:
        by_class = ClasswiseInterval(preds, folds, gaps.binned.lump, clusters, request.seed)
        ends["classwise_ece"] = by_class.at(request.level)
    return Evaluation(
        values=found,
        n=n,
        num_classes=preds.num_classes,
        bins=request.bins,
        intervals={name: ends[name] for name in methods},
        level=request.level if methods else None,
        bounds=bounds,
        methods=methods,
        calibration_test=judge_gaps(honest.binned) if "ece" in found else None,
        of=preds.of,
        event=name_event(preds.of, preds.class_names),
    )


def _resample(
    preds: Predictions,
    request: EvaluationRequest,
    names: Sequence[str],
    stats: SampleStatistics | None,
    splits: LossSplits | None,
) -> dict[str, Interval]:
    """Compute intervals by the bootstrap."""
    method = cast(Method, request.methods()[names[0]])
    drawn = replicate(preds, names, request.resamples, request.seed, method, request.bins, stats, splits)
    return {name: drawn.interval(name, method, request.level) for name in names}


def _statistics(
    preds: Predictions, bins: int, with_classes: bool, in_folds: bool, clusters: Tensor | None
) -> tuple[SampleStatistics, ClassSums | FoldedClassSums | None]:
    """Compute everything about each sample, and the sums by class, in one pass."""
    store = StatisticsStore(len(preds))
    classes: ClassSums | FoldedClassSums | None = None
    if with_classes:
        shape = preds.num_classes, bins, preds.weights is not None
        classes = FoldedClassSums(*shape, clusters) if in_folds else ClassSums.zeros(*shape)
    for stats, probs in block_statistics(preds):
        store.add(stats)
        if classes is not None:
            classes.add(probs, stats.label, stats.weight)
    return store.join(), classes


def _sums(samples: ConfidenceSamples, gaps: SampledGaps, bins: int, needed: set[Source]) -> Sums:
    """Sum what confidence and correctness alone are enough for."""
    return Sums(
        bins=gaps.table if "bins" in needed else None,
        chance=floor_sums(samples.confidence, bins, samples.weight) if "chance" in needed else None,
        ranking=gaps.ranking if "ranking" in needed else None,
        residuals=Residuals.of_samples(samples) if "residuals" in needed else None,
    )
