"""Files larger than memory: read once, in blocks, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch

from focalcal.metrics.bootstrap.counts import bootstrap_counts, count_once, drawable
from focalcal.metrics.bootstrap.intervals import Replicates
from focalcal.metrics.bootstrap.replicates import RESAMPLED_METRICS, Resampler, resample_samples
from focalcal.metrics.bootstrap.sample_groups import GROUPS, ONE_BY_ONE, GroupReplicates, deal
from focalcal.metrics.catalogue import METRICS, Method
from focalcal.metrics.evaluation import Evaluation, EvaluationRequest
from focalcal.metrics.samples import SampleStatistics, StatisticsStore
from focalcal.metrics.streaming.accumulator import Accumulator
from focalcal.metrics.streaming.sketch import KEPT_SAMPLES
from focalcal.metrics.streaming.streamed_clusters import StreamedClusters
from focalcal.metrics.sums import names_from
from focalcal.predictions import PredictionsFile
from focalcal.predictions.masking import answer_classes

# Memory matters here more than speed: what is read at a time, and how large a block of resamples may be.
_VALUES_READ, _ROWS_READ = 2**19, 2**15
_BYTES_OF_COUNTS = 2**23

# What has intervals where samples are not kept: groups of them have no probabilities per class.
STREAMED_METRICS = tuple(
    name for name in RESAMPLED_METRICS if METRICS[name].source != "classes" and name != "debiased_ece"
)

_LEFT_OUT = (
    "The file was read in blocks: the calibration and refinement parts of NLL and Brier, which need several passes, "
    "are left out."
)
_NO_CLASSES = "Resamples of blocks give classwise_ece no interval; the default method does."
_HISTOGRAM = (
    f"It has more than {KEPT_SAMPLES:,} samples: what depends on the order of confidences comes from a fine histogram "
    "(see bounds), and debiased_ece, whose bins cannot be cut in one, is left out."
)


def evaluate_file(file: PredictionsFile, request: EvaluationRequest) -> Evaluation:
    """Compute everything asked for that one pass can give; raises for what was asked for by name and it cannot."""
    parts_of_losses = names_from(request.names, ["outputs"])
    _check_given(request, [name for name in request.names if name not in parts_of_losses])
    total = Accumulator(len(answer_classes(file)), bins=request.bins, of=file.of, by=request.by)
    methods = request.methods()
    resampled_names = [name for name, method in methods.items() if method != "honest"]
    resampled = _Resampled(file.num_samples, request, resampled_names) if resampled_names else None
    for block in file.blocks(max(1, min(_ROWS_READ, _VALUES_READ // file.num_classes))):
        stats = total.add_with_statistics(block)
        if resampled is not None and stats is not None and block.clusters is None:
            resampled.add(stats, total.exponent)
    evaluation = total.compute_total(intervals="honest" in methods.values(), level=request.level, seed=request.seed)
    tables = total.group_tables(request)
    if total.clusters is not None:
        return replace(_with_clusters(request.select(evaluation), total.clusters, request), by=tables)
    _check_given(request, list(evaluation.values))
    notes = (_LEFT_OUT, _HISTOGRAM) if total.samples > KEPT_SAMPLES else (_LEFT_OUT,)
    if resampled is not None:
        notes = (*notes, *resampled.notes())
    chosen = request.select(replace(evaluation, notes=notes))
    ends = dict(evaluation.intervals) | ({} if resampled is None else resampled.intervals(chosen))
    ends = {name: ends[name] for name in methods if name in ends}
    return replace(
        chosen,
        intervals=ends,
        level=request.level if ends else None,
        methods={name: methods[name] for name in ends},
        calibration_test=evaluation.calibration_test if "ece" in chosen.values else None,
        by=tables,
    )


def _with_clusters(evaluation: Evaluation, clusters: StreamedClusters, request: EvaluationRequest) -> Evaluation:
    """Resample the clusters for those intervals that are made so."""
    methods = {name: method for name, method in request.methods().items() if name in evaluation.values}
    known = evaluation.intervals
    ends = {name: known[name] for name, method in methods.items() if method == "honest" and name in known}
    resampled = {name: one for name, one in methods.items() if one != "honest" and name in STREAMED_METRICS}
    if resampled:
        values = {name: evaluation.values[name] for name in resampled}
        drawn = clusters.replicates(list(values), request.resamples, request.seed).moved_to(values)
        ends |= {name: drawn.interval(name, method, request.level) for name, method in resampled.items()}
    return replace(
        evaluation,
        intervals={name: ends[name] for name in methods if name in ends},
        level=request.level if ends else None,
        methods={name: method for name, method in methods.items() if name in ends},
        calibration_test=evaluation.calibration_test if "ece" in evaluation.values else None,
        notes=(_LEFT_OUT, *evaluation.notes),
    )


def _check_given(request: EvaluationRequest, given: Sequence[str]) -> None:
    for name in request.names if request.by_name else ():
        if name not in given:
            raise ValueError(
                f"{name} cannot be computed from a file that is read in blocks; use Predictions.load, if memory "
                "allows, and evaluate what it gives."
            )


class _Resampled:
    """All that intervals need: every sample's statistics while they are few, sums of groups of samples beyond that."""

    def __init__(self, num_samples: int, request: EvaluationRequest, names: Sequence[str]) -> None:
        self._request, self._names = request, names
        self._store = StatisticsStore(min(num_samples, ONE_BY_ONE))
        # Some samples may turn out to be ignored: with as many rows as this they may still be few.
        self._streamed = StreamedBootstrap(request.bins, request.seed) if num_samples > ONE_BY_ONE else None
        self._samples, self._exponent = 0, 0

    def add(self, stats: SampleStatistics, exponent: int) -> None:
        """Add samples whose weights were divided by a power of two, which may have grown since the last ones."""
        if exponent != self._exponent and self._samples:
            factor = 2.0 ** (self._exponent - exponent)
            self._store.rescale(factor)
            if self._streamed is not None:
                self._streamed.rescale(factor)
        self._exponent = exponent
        self._samples += len(stats)
        if self._samples <= ONE_BY_ONE:
            self._store.add(stats)
        if self._streamed is not None:
            self._streamed.add(stats)

    def intervals(self, evaluation: Evaluation) -> dict[str, tuple[float, float]]:
        """Return those of the metrics that have one: all but classwise_ece, and beyond `ONE_BY_ONE` debiased_ece."""
        in_groups = self._streamed is not None and self._samples > ONE_BY_ONE
        possible = STREAMED_METRICS if in_groups else (*STREAMED_METRICS, "debiased_ece")
        wanted = [name for name in self._names if name in possible]
        values = {name: value for name, value in evaluation.values.items() if name in wanted}
        found = self._of_groups(values) if in_groups else self._of_samples(list(values))
        method = cast(Method, self._request.methods()[self._names[0]])
        return {name: found.interval(name, method, self._request.level) for name in values}

    def notes(self) -> list[str]:
        """Say what has no interval."""
        return [_NO_CLASSES] if "classwise_ece" in self._names else []

    def _of_groups(self, values: dict[str, float]) -> Replicates:
        assert self._streamed is not None
        return self._streamed.replicates(list(values), self._request.resamples).moved_to(values)

    def _of_samples(self, names: list[str]) -> Replicates:
        stats = self._store.join()
        drawn = drawable(stats.weight, len(stats))
        counts = bootstrap_counts(drawn, self._request.resamples, self._request.seed, _BYTES_OF_COUNTS // len(stats))
        resampler = resample_samples([], names, self._request.bins, [stats])
        estimates = {name: float(value[0]) for name, value in resampler.values(count_once(drawn)).items()}
        return Replicates(estimates, resampler.values_of_blocks(counts), {}, int(drawn.sum()))


class StreamedBootstrap:
    """Deals samples into 512 groups as they come, keeps sums of each group (14 MB), and resamples the groups.

    For all of `STREAMED_METRICS`. Meant for some ten thousand samples and more: with fewer, keep the samples and use
    `bootstrap`.

    Args:
        bins: Number of bins of the binned metrics.
        seed: Seed for the dealing and the draws.

    Examples:
        >>> from focalcal.metrics import sample_statistics
        >>> from focalcal.predictions import Predictions
        >>> streamed = StreamedBootstrap()
        >>> for block in torch.linspace(0.05, 0.95, 40_000).split(10_000):
        ...     labels = torch.rand(10_000, generator=torch.Generator().manual_seed(0)) < block
        ...     streamed.add(sample_statistics(Predictions.from_probs(block, labels)))
        >>> low, high = streamed.replicates(["error"], 1000).interval("error", "basic", level=0.9)
        >>> 1.5 < (high - low) / 2 / (0.275 * 0.725 / 40_000) ** 0.5 < 1.8  # 1.64 standard errors, expected
        True
    """

    def __init__(self, bins: int = 15, seed: int = 0) -> None:
        self._seed = seed
        self._used = torch.zeros(GROUPS, dtype=torch.bool)
        self._generator = torch.Generator().manual_seed(seed)
        self._groups = GroupReplicates(bins)

    def add(self, statistics: SampleStatistics) -> None:
        """Add a block of samples."""
        group = deal(len(statistics), GROUPS, self._generator)
        self._groups.add(statistics, group)
        self._used[group] = True

    def rescale(self, factor: float) -> None:
        """Multiply the weights of all samples so far by a power of two."""
        self._groups.rescale(factor)

    def replicates(self, names: Sequence[str], samples: int = 1000) -> Replicates:
        """Compute metrics on everything added, and on this number of resamples."""
        every = self._used.numpy()
        resampler = Resampler(names, [self._groups])
        estimates = {name: float(value[0]) for name, value in resampler.values(count_once(every)).items()}
        return Replicates(
            estimates, resampler.values_of_blocks(bootstrap_counts(every, samples, self._seed)), {}, int(every.sum())
        )
