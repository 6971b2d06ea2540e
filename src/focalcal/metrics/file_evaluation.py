"""Metrics of a file too large for memory: read once, in blocks, in memory that does not grow with it."""

from collections.abc import Sequence
from dataclasses import replace

from focalcal.metrics.accumulator import Accumulator
from focalcal.metrics.confidence_sketch import KEPT_SAMPLES
from focalcal.metrics.evaluation import Evaluation
from focalcal.metrics.evaluation_request import PARTS_OF_LOSSES, EvaluationRequest
from focalcal.metrics.interval_methods import Method
from focalcal.metrics.intervals import Replicates
from focalcal.metrics.resampling import Resampler
from focalcal.metrics.resampling.counts import all_once, bootstrap_counts, with_weight
from focalcal.metrics.resampling.grouped import ONE_BY_ONE, STREAMED_METRICS
from focalcal.metrics.statistics import SampleStatistics, StatisticsStore
from focalcal.metrics.streamed_intervals import StreamedBootstrap
from focalcal.predictions import PredictionsFile
from focalcal.predictions.masking import answer_classes

# Memory matters here more than speed: what is read at a time, and how large a block of resamples may be.
_VALUES_READ, _ROWS_READ = 2**19, 2**15
_BYTES_OF_COUNTS = 2**23
_METHOD: Method = "basic"

_LEFT_OUT = (
    "The file was read in blocks: the calibration and refinement parts of NLL and Brier, which need several passes, "
    "and the interval of classwise_ece are left out."
)
_HISTOGRAM = (
    f"It has more than {KEPT_SAMPLES:,} samples: AdaECE comes from a fine histogram (see bounds), and debiased_ece, "
    "whose bins cannot be cut in one, is left out."
)


def evaluate_file(file: PredictionsFile, request: EvaluationRequest) -> Evaluation:
    """Everything asked for that one pass can give; raises for what was asked for by name and it cannot."""
    _check_given(request, [name for name in request.names if name not in PARTS_OF_LOSSES])
    total = Accumulator(len(answer_classes(file)), request.bins)
    resampled = _Resampled(file.num_samples, request) if request.resamples else None
    for block in file.blocks(max(1, min(_ROWS_READ, _VALUES_READ // file.num_classes))):
        stats = total.add_with_statistics(block)
        if resampled is not None:
            resampled.add(stats)
    evaluation = total.compute()
    _check_given(request, list(evaluation.values))
    notes = (_LEFT_OUT, _HISTOGRAM) if total.samples > KEPT_SAMPLES else (_LEFT_OUT,)
    chosen = request.chosen(replace(evaluation, notes=notes))
    if resampled is None:
        return chosen
    return replace(chosen, intervals=resampled.intervals(chosen), level=request.level, method=_METHOD)


def _check_given(request: EvaluationRequest, given: Sequence[str]) -> None:
    for name in request.names if request.by_name else ():
        if name not in given:
            raise ValueError(
                f"{name} cannot be computed from a file that is read in blocks; use Predictions.load, if memory "
                "allows, and evaluate what it gives."
            )


class _Resampled:
    """What intervals need: the statistics of every sample while they are few, sums of groups of samples beyond that."""

    def __init__(self, num_samples: int, request: EvaluationRequest) -> None:
        self._request = request
        self._store = StatisticsStore(min(num_samples, ONE_BY_ONE))
        # Some samples may turn out to be ignored: with as many rows as this they may still be few.
        self._streamed = StreamedBootstrap(request.bins, request.seed) if num_samples > ONE_BY_ONE else None
        self._samples = 0

    def add(self, stats: SampleStatistics) -> None:
        self._samples += len(stats)
        if self._samples <= ONE_BY_ONE:
            self._store.add(stats)
        if self._streamed is not None:
            self._streamed.add(stats)

    def intervals(self, evaluation: Evaluation) -> dict[str, tuple[float, float]]:
        """Of the metrics that have one: all but classwise_ece, and beyond `ONE_BY_ONE` samples debiased_ece."""
        in_groups = self._streamed is not None and self._samples > ONE_BY_ONE
        possible = STREAMED_METRICS if in_groups else (*STREAMED_METRICS, "debiased_ece")
        values = {name: value for name, value in evaluation.values.items() if name in possible}
        found = self._of_groups(values) if in_groups else self._of_samples(list(values))
        return {name: found.interval(name, _METHOD, self._request.level) for name in values}

    def _of_groups(self, values: dict[str, float]) -> Replicates:
        assert self._streamed is not None
        found = self._streamed.replicates(self._request.resamples)
        estimates = {name: found.estimates[name] for name in values}
        return Replicates(estimates, {name: found.values[name] for name in values}, {}, found.drawn).moved_to(values)

    def _of_samples(self, names: list[str]) -> Replicates:
        stats = self._store.joined()
        drawn = with_weight(stats.weight, len(stats))
        counts = bootstrap_counts(drawn, self._request.resamples, self._request.seed, _BYTES_OF_COUNTS // len(stats))
        resampler = Resampler([], names, self._request.bins, [stats])
        estimates = {name: float(value[0]) for name, value in resampler.values(all_once(drawn)).items()}
        return Replicates(estimates, resampler.of_blocks(counts), {}, int(drawn.sum()))
