"""Every metric of a set of predictions at once, with intervals: one pass for everything that one pass can give."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from focalcal.metrics.accumulator import Accumulator
from focalcal.metrics.binning import check_bins, equal_mass_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.confidence_sketch import KEPT_SAMPLES
from focalcal.metrics.debiased import debiased_ece_from_statistics
from focalcal.metrics.evaluation import METRIC_TITLES, Evaluation
from focalcal.metrics.intervals import INTERVAL_METRICS, Replicates, check_resampling
from focalcal.metrics.intervals import bootstrap as bootstrap_intervals
from focalcal.metrics.refinement import loss_splits
from focalcal.metrics.resampling import Resampler
from focalcal.metrics.resampling.counts import bootstrap_counts, with_weight
from focalcal.metrics.running_sums import RunningSums
from focalcal.metrics.smooth import smooth_ece_from_statistics
from focalcal.metrics.statistics import SampleStatistics, StatisticsStore, block_statistics, rows_of_block
from focalcal.predictions import Predictions, PredictionsFile, open_predictions

Source = Predictions | PredictionsFile | str | os.PathLike[str]

# A file of at most so many bytes, and so many outputs, is read whole; a larger one is read in blocks.
READ_WHOLE_BYTES, READ_WHOLE_VALUES = 2**28, 2**26
# How large a block of resamples of such a file may be.
_BYTES_OF_COUNTS = 2**23

_PARTS_OF_LOSSES = ("nll_calibration", "nll_refinement", "brier_calibration", "brier_refinement")
_FROM_BLOCKS = (
    "The file was read in blocks: the calibration and refinement parts of NLL and Brier, which need several passes, "
    "and the interval of classwise_ece are left out."
)
_FROM_HISTOGRAM = (
    f"The file was read in blocks and has more than {KEPT_SAMPLES:,} samples: AdaECE comes from a fine histogram (see "
    "bounds), and intervals, debiased_ece and the calibration and refinement parts of NLL and Brier are left out."
)


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
    131,072 samples also ``debiased_ece`` and all intervals, while ``Evaluation.bounds`` tells how far AdaECE may be
    from the exact value. ``Evaluation.notes`` says what was left out.

    Args:
        data: predictions, or the path of a file of them, or a file that `open_predictions` opened.
        metrics: names, see ``METRIC_TITLES``; None for all of them.
        bins: the number of bins of binned metrics.
        bootstrap: how many resamples intervals are made of; 0 or None for no intervals.
        level: how often an interval is meant to cover what it estimates.
        seed: the same seed gives the same intervals.

    Raises:
        ValueError: for a name that is no metric (with the nearest one), or a metric that such data cannot give.

    Example:
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
    names = checked_names(metrics, source.num_classes)
    request = _Request(names, metrics is not None, bins, bootstrap or 0, level, seed)
    return request.of_predictions(source) if isinstance(source, Predictions) else request.of_file(source)


def checked_names(metrics: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    """The names asked for, or all that make sense for so many classes; raises for what is no metric."""
    possible = tuple(name for name in METRIC_TITLES if name != "top_5_accuracy" or num_classes > 5)
    if metrics is None:
        return possible
    if isinstance(metrics, str):
        raise TypeError(f"metrics must be a list of names; pass [{metrics!r}].")
    for name in metrics:
        if name not in possible:
            nearest = difflib.get_close_matches(str(name).lower().replace("-", "_"), possible, n=1, cutoff=0.0)
            raise ValueError(f"There is no metric {name!r}; did you mean {nearest[0]!r}? (All: {', '.join(possible)}.)")
    return tuple(dict.fromkeys(metrics))


def _opened(data: Source) -> Predictions | PredictionsFile:
    """The data; a file only if it is too large to be read whole."""
    if isinstance(data, Predictions):
        return data
    file = data if isinstance(data, PredictionsFile) else open_predictions(data)
    small = os.path.getsize(file.path) <= READ_WHOLE_BYTES
    return file.read() if small and file.num_samples * file.num_classes <= READ_WHOLE_VALUES else file


@dataclass(frozen=True)
class _Request:
    """What was asked for."""

    names: tuple[str, ...]
    by_name: bool
    bins: int
    resamples: int
    level: float
    seed: int

    def of_predictions(self, preds: Predictions) -> Evaluation:
        sums = RunningSums(preds.num_classes, self.bins)
        store = StatisticsStore(len(preds))
        for stats, probs in block_statistics(preds):
            if "classwise_ece" in self.names:
                sums.add_classes(stats, probs)
            store.add(stats)
        stats = store.joined()
        sums.add(stats)
        values, bounds = sums.values(), {}
        if "ada_ece" in self.names:
            values["ada_ece"] = mean_gap(equal_mass_sums(stats.confidence, stats.correct, self.bins, stats.weight))
        if "debiased_ece" in self.names:
            values["debiased_ece"] = debiased_ece_from_statistics(stats, self.bins)
        if "smooth_ece" in self.names:
            values["smooth_ece"], bounds["smooth_ece"] = smooth_ece_from_statistics(stats)
        if set(self.names) & set(_PARTS_OF_LOSSES):
            values |= loss_splits(preds, stats).metrics()
        evaluation = Evaluation(values, sums.samples, preds.num_classes, self.bins, bounds=bounds)
        return self._with_intervals(evaluation, preds, stats)

    def of_file(self, file: PredictionsFile) -> Evaluation:
        total = Accumulator(file.num_classes, self.bins)
        store = StatisticsStore(min(file.num_samples, KEPT_SAMPLES))
        for block in file.blocks(rows_of_block(file.num_classes)):
            stats = total.add_with_statistics(block)
            if total.samples <= KEPT_SAMPLES:
                store.add(stats)
        evaluation = replace(total.compute(), notes=())
        if self.by_name:
            self._check_given(evaluation)
        if total.samples > KEPT_SAMPLES:
            return self._chosen(replace(evaluation, notes=(_FROM_HISTOGRAM,)))
        return self._with_intervals(replace(evaluation, notes=(_FROM_BLOCKS,)), None, store.joined())

    def _with_intervals(self, evaluation: Evaluation, preds: Predictions | None, stats: SampleStatistics) -> Evaluation:
        """The evaluation with intervals of all metrics that can have one; without outputs, classwise_ece has none."""
        chosen = self._chosen(evaluation)
        names = [name for name in chosen.values if name in INTERVAL_METRICS]
        if preds is None and "classwise_ece" in names:
            names.remove("classwise_ece")
        if not self.resamples or not names:
            return chosen
        if preds is None:
            intervals = self._intervals_of_statistics(chosen, names, stats)
        else:
            found = bootstrap_intervals(
                preds, names, self.resamples, self.level, self.seed, bins=self.bins, statistics=stats
            )
            intervals = found.intervals
        return replace(chosen, intervals=intervals, level=self.level)

    def _intervals_of_statistics(
        self, evaluation: Evaluation, names: list[str], stats: SampleStatistics
    ) -> dict[str, tuple[float, float]]:
        """The same intervals from the same draws, in blocks that take little memory."""
        drawn = with_weight(stats.weight, len(stats))
        counts = bootstrap_counts(drawn, self.resamples, self.seed, max(1, _BYTES_OF_COUNTS // len(stats)))
        values = Resampler([], names, self.bins, [stats]).of_blocks(counts)
        found = Replicates({name: evaluation.values[name] for name in names}, values, {}, int(drawn.sum()))
        return {name: found.interval(name, "basic", self.level) for name in names}

    def _chosen(self, evaluation: Evaluation) -> Evaluation:
        """Only what was asked for, in its order."""
        values, bounds = evaluation.values, evaluation.bounds
        return replace(
            evaluation,
            values={name: values[name] for name in self.names if name in values},
            bounds={name: bounds[name] for name in self.names if name in bounds},
        )

    def _check_given(self, evaluation: Evaluation) -> None:
        for name in self.names:
            if name not in evaluation.values:
                raise ValueError(
                    f"{name} cannot be computed from a file that is read in blocks; use Predictions.load, if memory "
                    "allows, and evaluate what it gives."
                )
