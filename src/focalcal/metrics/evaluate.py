"""Every metric of a set of predictions at once, with intervals: one pass for everything that one pass can give."""

import os
from collections.abc import Sequence
from dataclasses import replace

from focalcal.metrics.binning import check_bins, equal_mass_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.debiased import debiased_ece_from_statistics
from focalcal.metrics.evaluation import Evaluation
from focalcal.metrics.evaluation_request import PARTS_OF_LOSSES, EvaluationRequest, checked_names
from focalcal.metrics.file_evaluation import evaluate_file
from focalcal.metrics.intervals import INTERVAL_METRICS, check_resampling, without_loss_parts
from focalcal.metrics.intervals import bootstrap as bootstrap_intervals
from focalcal.metrics.refinement import loss_splits
from focalcal.metrics.running_sums import RunningSums
from focalcal.metrics.smooth import smooth_ece_from_statistics
from focalcal.metrics.statistics import SampleStatistics, StatisticsStore, block_statistics, measured
from focalcal.predictions import Predictions, PredictionsFile, open_predictions
from focalcal.predictions.masking import answer_classes, masked_classes

Source = Predictions | PredictionsFile | str | os.PathLike[str]

# A file of at most so many bytes, and so many outputs, is read whole; a larger one is read in blocks.
READ_WHOLE_BYTES, READ_WHOLE_VALUES = 2**28, 2**26


def evaluate(
    data: Source,
    metrics: Sequence[str] | None = None,
    bins: int = 15,
    bootstrap: int | None = 1000,
    level: float = 0.90,
    seed: int = 0,
) -> Evaluation:
    """All metrics, or some of them, with bootstrap intervals.

    Predictions in memory, and files of up to 256 MB, give everything. A larger file is read in blocks, in memory that
    does not grow with it: then the parts of the losses and the interval of ``classwise_ece`` are left out, and beyond
    131,072 samples also ``debiased_ece``, while ``Evaluation.bounds`` tells how far AdaECE may be from the exact value.
    ``Evaluation.notes`` says what was left out. (Beyond 16,384 samples, intervals come from resamples of groups of
    samples, see `bootstrap`.)

    Args:
        data: predictions, or the path of a file of them, or a file that `open_predictions` opened.
        metrics: names, see ``METRIC_TITLES``; None for all of them.
        bins: the number of bins of binned metrics.
        bootstrap: how many resamples intervals are made of; 0 or None for no intervals.
        level: how often an interval is meant to cover what it estimates.
        seed: the same seed gives the same intervals.

    Raises:
        ValueError: for a name that is no metric (with the nearest one), or a metric that such data cannot give.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875], [0.25, 0.75]], [0, 1, 1, 1])
        >>> evaluate(preds, ["error", "brier"], bootstrap=0)
        Evaluation of 4 samples, 2 classes, 15 bins
          error        0.2500
          Brier score  0.1953
        >>> evaluate(preds, ["error"], seed=1).intervals["error"]
        (0.0, 0.5)
    """
    check_bins(bins)
    if bootstrap:
        check_resampling(bootstrap, level)
    source = _opened(data)
    names = checked_names(metrics, len(answer_classes(source)))
    notes: tuple[str, ...] = ()
    if masked_classes(source):
        names, notes = without_loss_parts(names, metrics is not None), (_masking_note(source),)
    request = EvaluationRequest(names, metrics is not None, bins, bootstrap or 0, level, seed)
    if isinstance(source, Predictions):
        evaluation = _evaluate_predictions(measured(source), request)
    else:
        evaluation = evaluate_file(source, request)
    return replace(evaluation, notes=(*notes, *evaluation.notes))


def _opened(data: Source) -> Predictions | PredictionsFile:
    """The data; a file only if it is too large to be read whole."""
    if isinstance(data, Predictions):
        return data
    file = data if isinstance(data, PredictionsFile) else open_predictions(data)
    small = os.path.getsize(file.path) <= READ_WHOLE_BYTES
    return file.read() if small and file.num_samples * file.num_classes <= READ_WHOLE_VALUES else file


def _masking_note(source: Predictions | PredictionsFile) -> str:
    masked = [source.class_names[i] if source.class_names else str(i) for i in masked_classes(source)]
    return (
        f"Masked, so never the answer, but with their share of the probability: {', '.join(masked)}. The calibration "
        "and refinement parts of NLL and Brier are left out."
    )


def _evaluate_predictions(preds: Predictions, request: EvaluationRequest) -> Evaluation:
    names, bins = request.names, request.bins
    sums, store = RunningSums(preds.num_classes, bins), StatisticsStore(len(preds))
    for stats, probs in block_statistics(preds):
        if "classwise_ece" in names:
            sums.add_classes(stats, probs)
        store.add(stats)
    stats = store.joined()
    sums.add(stats)
    values, bounds = sums.values(), {}
    if "ada_ece" in names:
        values["ada_ece"] = mean_gap(equal_mass_sums(stats.confidence, stats.correct, bins, stats.weight))
    if "debiased_ece" in names:
        values["debiased_ece"] = debiased_ece_from_statistics(stats, bins)
    if "smooth_ece" in names:
        values["smooth_ece"], bounds["smooth_ece"] = smooth_ece_from_statistics(stats)
    if set(names) & set(PARTS_OF_LOSSES):
        values |= loss_splits(preds, stats).metrics()
    evaluation = request.chosen(Evaluation(values, sums.samples, preds.num_classes, bins, bounds=bounds))
    return _with_intervals(evaluation, preds, stats, request)


def _with_intervals(
    evaluation: Evaluation, preds: Predictions, stats: SampleStatistics, request: EvaluationRequest
) -> Evaluation:
    names = [name for name in evaluation.values if name in INTERVAL_METRICS]
    if not request.resamples or not names:
        return evaluation
    found = bootstrap_intervals(
        preds, names, request.resamples, request.level, request.seed, bins=request.bins, statistics=stats
    )
    return replace(evaluation, intervals=found.intervals, level=request.level, method=found.method)
