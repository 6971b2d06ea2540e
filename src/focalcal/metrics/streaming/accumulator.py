"""The accumulator: all metrics of data that comes batch by batch, whose parts add up to the whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.base.measures import Of, check_of
from focalcal.metrics.binning import check_bins
from focalcal.metrics.evaluation import Evaluation, EvaluationRequest
from focalcal.metrics.group_results import GroupTable
from focalcal.metrics.grouping import check_columns
from focalcal.metrics.independent_units import SampleUnits
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.streaming.group_accumulators import GroupAccumulators, gather_states
from focalcal.metrics.streaming.running_sums import check_num_classes
from focalcal.metrics.streaming.sketch import COMPACT, FINE, OF_GROUPS
from focalcal.metrics.streaming.streamed_clusters import StreamedClusters
from focalcal.metrics.streaming.streamed_evaluation import evaluate_streamed, possible_metrics, sum_means
from focalcal.metrics.streaming.streamed_samples import StreamedSamples
from focalcal.metrics.sums import Means
from focalcal.predictions import Kind, Predictions
from focalcal.predictions.container import from_rows
from focalcal.predictions.description import Columns, Description
from focalcal.predictions.rows import WORDS, count_columns, prepare_rows
from focalcal.predictions.tensors import cpu_tensor


class Accumulator:
    """All metrics of data that comes in batches, or in parts on several machines, in memory that does not grow with it.

    Counts are int64 and everything else float64, so that nothing is lost however many samples there are. Most metrics
    take O(K · bins) memory and are exact. Those that depend on the order of confidences, and smooth ECE, keep 131,072
    samples (2 MB), and above that a histogram (9 MB); `Evaluation.bounds` tells how far they may be from the exact
    values. Parts merged in any order give what the whole gives.

    Calibration errors have their intervals (see `focalcal.metrics.gap_intervals`), which need no resamples: their folds
    go by the number of the row. Samples of one image, sentence or user depend on each other: positions of outputs
    (N, K, d1, …) are those of their sample, and ``clusters=`` names others. Then intervals and the test count 512
    groups of clusters (14 MB more), or the clusters, as long as they are fewer.

    Args:
        num_classes: K, at least 2.
        bins: The number of bins of binned metrics.
        of: What calibration is measured of, as in ``Predictions``; by default what the first batch says: one column is
            a score, several are measured by the predicted class.
        by: Columns of groups that every batch comes with, ``groups={"region": [...]}``: each group has its own sums
            (half a megabyte at most for 10 classes), and ``compute().groups`` its metrics.
        ignore_index: Positions with this label are left out; None leaves out nothing.
        first_row: Number of the first row, where this is a part of larger data: parts that know their place in the
            whole give, when merged, the very intervals of the whole.
        compact: Keep no samples and a coarser histogram from the first sample on, in 0.8 MB for 10 classes (3.8 MB for
            1,000): what shards of very large data send to each other.

    Examples:
        >>> whole, part = Accumulator(num_classes=2), Accumulator(num_classes=2)
        >>> whole.update(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[0, 1])
        >>> part.update(probs=[[0.125, 0.875]], labels=[1])
        >>> evaluation = whole.merge(part).compute()
        >>> evaluation.n, round(evaluation.values["error"], 4), evaluation.values["brier"]
        (3, 0.3333, 0.21875)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        bins: int = 15,
        of: Of | None = None,
        by: str | Sequence[str] = (),
        ignore_index: int | None = -100,
        first_row: int = 0,
        compact: bool = False,
    ) -> None:
        check_bins(bins)
        check_num_classes(num_classes)
        if of is not None:
            check_of(of)
        if isinstance(first_row, bool) or not isinstance(first_row, int) or first_row < 0:
            raise ValueError(f"first_row is {first_row!r}; it must be an integer of at least 0.")
        self.num_classes, self.bins, self.first_row, self.compact = num_classes, bins, first_row, compact
        self.ignore_index, self._wanted = ignore_index, of
        self._resolution = COMPACT if compact else FINE
        self.by = (by,) if isinstance(by, str) else tuple(by)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._data = StreamedSamples(self.num_classes, self.bins, self._resolution, self._wanted, self.first_row)
        self._groups = GroupAccumulators(self.by, self._new_group)

    def _new_group(self) -> "GroupAccumulator":
        return GroupAccumulator(self.num_classes, bins=self.bins, of=self._wanted)

    @property
    def of(self) -> Of:
        """The measure of calibration; the predicted class as long as nothing was added."""
        return self._data.measured

    @property
    def samples(self) -> int:
        """The number of samples of positive weight that were added."""
        return self._data.samples

    def update(
        self,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
        weights: Any = None,
        groups: Mapping[str, Any] | None = None,
        clusters: Any = None,
        ignore_index: int | Literal["default"] | None = "default",
    ) -> None:
        """Add a batch: numpy or torch, any float type, any device; (N, K) or (N, K, d1, …).

        It never guesses what it was given: pass either ``logits`` or ``probs``. A batch that is refused leaves the
        accumulator as it was.

        Args:
            logits: Outputs before the softmax.
            probs: Outputs that sum to 1.
            labels: (N,) or (N, d1, …) integers, or class probabilities of the outputs' shape.
            weights: (N,) or (N, d1, …), at least 0.
            groups: Columns by name, of text or whole numbers, (N,) or (N, d1, …); those of ``by`` are needed.
            clusters: Text or whole numbers, (N,) or (N, d1, …): the image, sentence or user of each sample, the same
                in every batch. With extra dimensions the sample is the cluster, unless other ones are passed.
            ignore_index: Positions with this label are left out, instead of the accumulator's.

        Raises:
            ValueError: one sentence that says what is wrong, in which row, and what to do.
        """
        if (logits is None) == (probs is None):
            raise ValueError("Pass either logits or probs, and not both: what they are is not guessed.")
        kind: Kind = "probs" if logits is None else "logits"
        outputs = cpu_tensor(probs if logits is None else logits, WORDS[kind])
        of, _ = Columns(of=self._data.of).measure(count_columns(outputs))
        ignored = self.ignore_index if ignore_index == "default" else ignore_index
        rows = prepare_rows(
            kind, outputs, labels, weights=weights, groups=groups, clusters=clusters, ignore_index=ignored
        )
        if clusters is None and rows.clusters is not None:
            rows = replace(rows, clusters=rows.clusters + self._data.next_sample)
        self.add(from_rows(rows, kind, Description(of=of)))
        self._data.next_sample += len(outputs)

    def add(self, preds: Predictions) -> None:
        """Add predictions that have been checked; their masked classes do not count as classes."""
        self.add_with_statistics(preds)

    def add_with_statistics(self, preds: Predictions) -> SampleStatistics | None:
        """Add predictions, and return their statistics; None where there are none."""
        check_columns(self.by, tuple(preds.groups))
        rows = torch.arange(self._data.next_row, self._data.next_row + len(preds))
        found = self.add_rows(preds, rows)
        if found is not None and self.by:
            self._groups.add(preds, rows)
        return found

    def add_rows(self, preds: Predictions, rows: Tensor) -> SampleStatistics | None:
        """Add predictions whose rows have these numbers, (N,), in the whole data."""
        return self._data.add(preds, rows)

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Add everything that another accumulator holds, which stays as it is; returns itself."""
        self._data.check_same(other.num_classes, other.bins, other._data.of, other.compact)
        if other is self:
            raise ValueError("An accumulator cannot be merged with itself: every sample would count twice.")
        if self.by != other.by:
            raise ValueError("The other accumulator has other columns of groups (by=); only those alike go together.")
        self._groups.merge(other._groups)
        self._data.merge(other._data)
        return self

    def all_reduce(self, group: Any = None) -> "Accumulator":
        """Join the accumulators of all processes of ``torch.distributed``: afterwards each holds everything.

        Of one process nothing is to be joined, and nothing is done.

        One all-reduce of int64 counts and two of float64 numbers (some 5 MB each). Call it once: a second call would
        count everything once more for every process.

        Args:
            group: A process group; None for all processes.
        """
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            return self
        if dist.get_world_size(group) > 1:
            self._gather_groups(group)
            self._data.all_reduce(group)
        return self

    def compute(
        self, metrics: Sequence[str] | None = None, *, intervals: bool = True, level: float = 0.90, seed: int = 0
    ) -> Evaluation:
        """Compute metrics of everything that was added. More may be added afterwards.

        Intervals need no resamples: those of calibration errors are honest, those of means normal (a share's is
        Wilson's).

        Args:
            metrics: Names, see ``METRICS``; None for all that a stream can give.
            intervals: Whether to compute confidence intervals.
            level: Level of the intervals.
            seed: Seed for the draws of what a perfectly calibrated model would show.
        """
        found = self.compute_total(metrics, intervals=intervals, level=level, seed=seed)
        if not self.by:
            return found
        names, named = tuple(found.values), metrics is not None
        request = EvaluationRequest(names, named, self.bins, intervals, None, 0, level, seed, self.by)
        return replace(found, by=self.group_tables(request))

    def compute_total(
        self, metrics: Sequence[str] | None = None, *, intervals: bool = True, level: float = 0.90, seed: int = 0
    ) -> Evaluation:
        """Compute metrics as `compute` does, without groups."""
        return evaluate_streamed(self._data, metrics, intervals=intervals, level=level, seed=seed)

    def possible_metrics(self) -> list[str]:
        """Return the metrics that can be computed of what was added."""
        return possible_metrics(self._data)

    def group_tables(self, request: EvaluationRequest) -> dict[str, GroupTable]:
        """Evaluate the groups of each column."""
        return self._groups.tables(request, self._data.clusters is not None)

    @property
    def clusters(self) -> StreamedClusters | None:
        """Sums of clusters, where samples depend on each other."""
        return self._data.clusters

    @property
    def exponent(self) -> int:
        """Of the power of two that weights are divided by, so far."""
        return self._data.sums.exponent or 0

    def means(self) -> Means:
        """Return the sums that means are made of."""
        return sum_means(self._data)

    def mean_products(self) -> npt.NDArray[np.float64]:
        """Return the sums of products of their terms, (C, C)."""
        return self._data.sums.products

    def binned_units(self) -> SampleUnits:
        """Return what the test of calibration needs."""
        return self._data.sums.binned_units()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, without groups."""
        return self._data.nbytes

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors, whose size does not depend on the number of samples beyond 131,072."""
        state = self._data.state_dict()
        if self.by:
            state |= {f"groups.{name}": part for name, part in self._groups.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the place of the accumulator that `state_dict` described, of the same number of classes and bins."""
        try:
            loaded = StreamedSamples(self.num_classes, self.bins, self._resolution, self._wanted)
            loaded.load_state_dict(state)
            if self.by:
                own = {name.removeprefix("groups."): part for name, part in state.items() if name.startswith("groups.")}
                self._groups.load_state_dict(own)
            self._data = loaded
        except KeyError as missing:
            raise ValueError(f"The state has no entry {missing}; pass what Accumulator.state_dict gave.") from None

    def __repr__(self) -> str:
        return f"Accumulator(num_classes={self.num_classes}, bins={self.bins}): {self.samples:,} samples"

    def _gather_groups(self, group: Any) -> None:
        """Merge the groups of all processes, which may each have seen others."""
        if not self.by:
            return
        own = self._groups
        self._groups = GroupAccumulators(self.by, own.new)
        for state in gather_states(own.state_dict(), group):
            part = GroupAccumulators(self.by, own.new)
            part.load_state_dict(state)
            self._groups.merge(part)


def grouped_columns(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the columns of groups, ``by``, of the accumulator that `Accumulator.state_dict` described."""
    names = state.get("groups.names")
    return () if names is None else tuple(json.loads(names.numpy().tobytes()))


class GroupAccumulator(Accumulator):
    """The accumulator of one group of samples: of which there may be many, so that it remembers less."""

    def reset(self) -> None:
        """Forget everything."""
        self._resolution = OF_GROUPS
        super().reset()
