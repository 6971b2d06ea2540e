"""The accumulator: all metrics of data that comes batch by batch, whose parts add up to the whole."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.base.measures import MEASURES, Of, check_of
from focalcal.metrics.binning import BinSums, check_bins
from focalcal.metrics.bootstrap.intervals import check_resampling, checked_names
from focalcal.metrics.calibration_testing import judge_gaps
from focalcal.metrics.catalogue import METRICS, names_for
from focalcal.metrics.evaluation import Evaluation, EvaluationRequest
from focalcal.metrics.gap_intervals import Interval
from focalcal.metrics.group_results import GroupTable
from focalcal.metrics.grouping import check_columns
from focalcal.metrics.honest_intervals import HonestIntervals, RankedUnits
from focalcal.metrics.independent_units import FOLDS, SampleUnits
from focalcal.metrics.mean_intervals import MeanIntervals
from focalcal.metrics.samples import (
    SampleStatistics,
    StatisticsStore,
    block_statistics,
    cluster_numbers,
    scale_weights,
    weight_exponent,
)
from focalcal.metrics.streaming.group_accumulators import GroupAccumulators, gather_states
from focalcal.metrics.streaming.running_sums import RunningSums, check_num_classes
from focalcal.metrics.streaming.sketch import COMPACT, FINE, KEPT_SAMPLES, OF_GROUPS, ConfidenceSketch
from focalcal.metrics.sums import Means, values
from focalcal.predictions import Kind, Predictions
from focalcal.predictions.container import from_rows
from focalcal.predictions.description import Columns, Description
from focalcal.predictions.masking import answers
from focalcal.predictions.rows import WORDS, count_columns, prepare_rows
from focalcal.predictions.tensors import cpu_tensor

_NOT_KEPT = (
    f"More than {KEPT_SAMPLES:,} samples: what depends on the order of confidences comes from a fine histogram (see "
    "bounds), and debiased_ece, whose bins cannot be cut in one, is left out."
)
_IN_CLUSTERS = (
    "Samples of one image, sentence or user depend on each other, and an accumulator does not know how much: for "
    "intervals and the test of calibration use evaluate()."
)
_COMPACT = (
    "What depends on the order of confidences comes from a histogram (see bounds), and debiased_ece, whose bins cannot "
    "be cut in one, is left out."
)
_NEEDS_OUTPUTS = "The calibration and refinement parts of NLL and Brier need the outputs themselves: use evaluate()."


@dataclass(frozen=True)
class _StreamedGaps:
    """What honest intervals are made of."""

    table: BinSums
    sums: RunningSums
    sketch: ConfidenceSketch

    @property
    def binned(self) -> SampleUnits:
        return self.sums.binned_units()

    @cached_property
    def ranked(self) -> RankedUnits:
        return self.sketch.ranked()


class Accumulator:
    """All metrics of data that comes in batches, or in parts on several machines, in memory that does not grow with it.

    Counts are int64 and everything else float64, so that nothing is lost however many samples there are. Most metrics
    take O(K · bins) memory and are exact. Those that depend on the order of confidences, and smooth ECE, keep 131,072
    samples (2 MB), and above that a histogram (9 MB); `Evaluation.bounds` tells how far they may be from the exact
    values. Parts merged in any order give what the whole gives.

    Calibration errors have their intervals (see `focalcal.metrics.gap_intervals`), which need no resamples: their folds
    go by the number of the row.

    Args:
        num_classes: K, at least 2.
        bins: the number of bins of binned metrics.
        of: what calibration is measured of, as in ``Predictions``; by default what the first batch says: one column is
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
        bins: int = 15,
        *,
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
        self._of: Of | None = self._wanted
        self._sums = RunningSums(self.num_classes, self.bins)
        self._sketch = ConfidenceSketch(self.bins, self._resolution)
        self._next_row = self.first_row
        self._has_clusters = False
        self._groups = GroupAccumulators(self.by, self._new_group)

    def _new_group(self) -> "GroupAccumulator":
        return GroupAccumulator(self.num_classes, self.bins, of=self._wanted)

    @property
    def of(self) -> Of:
        """What calibration is measured of; the predicted class as long as nothing was added."""
        return self._of or "top"

    @property
    def samples(self) -> int:
        """The number of samples of positive weight that were added."""
        return self._sums.samples

    def update(
        self,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
        weights: Any = None,
        groups: Mapping[str, Any] | None = None,
        ignore_index: int | Literal["default"] | None = "default",
    ) -> None:
        """Add a batch: numpy or torch, any float type, any device; (N, K) or (N, K, d1, …).

        It never guesses what it was given: pass either ``logits`` or ``probs``. A batch that is refused leaves the
        accumulator as it was.

        Args:
            logits: outputs before the softmax.
            probs: outputs that sum to 1.
            labels: (N,) or (N, d1, …) integers, or class probabilities (or counts) of the outputs' shape.
            weights: (N,) or (N, d1, …), at least 0.
            groups: Columns by name, of text or whole numbers, (N,) or (N, d1, …); those of ``by`` are needed.
            ignore_index: positions with this label are left out, instead of the accumulator's.

        Raises:
            ValueError: one sentence that says what is wrong, in which row, and what to do.
        """
        if (logits is None) == (probs is None):
            raise ValueError("Pass either logits or probs, and not both: what they are is not guessed.")
        kind: Kind = "probs" if logits is None else "logits"
        outputs = cpu_tensor(probs if logits is None else logits, WORDS[kind])
        of, _ = Columns(of=self._of).measure(count_columns(outputs))
        ignored = self.ignore_index if ignore_index == "default" else ignore_index
        rows = prepare_rows(kind, outputs, labels, weights=weights, groups=groups, ignore_index=ignored)
        self.add(from_rows(rows, kind, Description(of=of)))

    def add(self, preds: Predictions) -> None:
        """Add predictions that have been checked; their masked classes do not count as classes."""
        self.add_with_statistics(preds)

    def add_with_statistics(self, preds: Predictions) -> SampleStatistics | None:
        """Add predictions, and return their statistics; None where there are none."""
        check_columns(self.by, tuple(preds.groups))
        rows = torch.arange(self._next_row, self._next_row + len(preds))
        found = self.add_rows(preds, rows)
        if found is not None and self.by:
            self._groups.add(preds, rows)
        return found

    def add_rows(self, preds: Predictions, rows: Tensor) -> SampleStatistics | None:
        """Add predictions whose rows have these numbers, (N,), in the whole data."""
        preds = answers(preds)
        if preds.num_classes != self.num_classes:
            raise ValueError(f"The outputs have {preds.num_classes} classes, the accumulator has {self.num_classes}.")
        if self._of not in (None, preds.of):
            raise ValueError(
                f"These are predictions of {MEASURES[preds.of].title}, and those before of {MEASURES[self.of].title}; "
                "accumulate them apart."
            )
        if len(preds) == 0:
            return None
        self._of = preds.of
        self._has_clusters |= cluster_numbers(preds) is not None
        store = StatisticsStore(len(preds))
        fold = rows % FOLDS
        start = 0
        for stats, probs in block_statistics(self._with_scaled_weights(preds)):
            self._sums.add_classes(stats, probs, fold[start : start + len(stats)])
            store.add(stats)
            start += len(stats)
        joined = store.joined()
        self._sums.add(joined, fold)
        self._sketch.add(joined, fold)
        self._next_row = max(self._next_row, int(rows[-1]) + 1)
        return joined

    def _with_scaled_weights(self, preds: Predictions) -> Predictions:
        """Divide weights by the power of two that all sums are divided by, which grows if need be."""
        exponent = 0 if preds.weights is None else weight_exponent(preds.weights)
        self._rescale(max(exponent, exponent if self._sums.exponent is None else self._sums.exponent))
        if preds.weights is None and self._sums.exponent == 0:
            return preds
        weights = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        return replace(preds, weights=scale_weights(weights, self._sums.exponent or 0))

    def _rescale(self, exponent: int) -> None:
        if self._sums.exponent not in (None, exponent):
            self._sketch.rescale(exponent - (self._sums.exponent or 0))
        self._sums.rescale(exponent)

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Add everything that another accumulator holds, which stays as it is; returns itself."""
        self._check_same(other.num_classes, other.bins, other._of, other.compact)
        if other is self:
            raise ValueError("An accumulator cannot be merged with itself: every sample would count twice.")
        if self.by != other.by:
            raise ValueError("The other accumulator has other columns of groups (by=); only those alike go together.")
        if other._sums.exponent is None:
            return self
        self._of = other._of
        self._groups.merge(other._groups)
        own = other._sums.exponent if self._sums.exponent is None else self._sums.exponent
        exponent = max(own, other._sums.exponent)
        other = copy.deepcopy(other) if other._sums.exponent < exponent else other
        for each in (self, other):
            each._rescale(exponent)
        self._sums.counts += other._sums.counts
        self._sums.sums += other._sums.sums
        self._sketch.merge(other._sketch)
        self._next_row = max(self._next_row, other._next_row)
        self._has_clusters |= other._has_clusters
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
        processes, rank = dist.get_world_size(group), dist.get_rank(group)
        if processes == 1:
            return self
        self._gather_groups(group)
        device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
        exponent = -torch.inf if self._sums.exponent is None else self._sums.exponent
        largest = torch.tensor([exponent, self._next_row, self._has_clusters], dtype=torch.float64, device=device)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        self._next_row, self._has_clusters = int(largest[1]), bool(largest[2])
        if not largest[0].isinf():
            self._rescale(int(largest[0]))
        codes, sums, limits = self._sketch.to_flat(rank, processes)
        counts = torch.cat([self._sums.counts, codes]).to(device)
        sums, limits = torch.cat([self._sums.sums, sums]).to(device), limits.to(device)
        dist.all_reduce(counts, group=group)
        dist.all_reduce(sums, group=group)
        dist.all_reduce(limits, dist.ReduceOp.MAX, group=group)
        counts, sums, limits = counts.cpu(), sums.cpu(), limits.cpu()
        own_counts, own_sums = len(self._sums.counts), len(self._sums.sums)
        self._sums.counts.copy_(counts[:own_counts])
        self._sums.sums.copy_(sums[:own_sums])
        sketch = (counts[own_counts:], sums[own_sums:], limits, self._resolution)
        self._sketch = ConfidenceSketch.from_flat(self.bins, self.samples, *sketch)
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
        if self.samples == 0:
            raise ValueError("Nothing has been added yet (or only weights of 0); call update with a batch first.")
        names = checked_names(metrics, self.num_classes, self.possible_metrics(), self.of)
        needed = {METRICS[name].source for name in names}
        known = replace(
            self._sums.known(with_classes="classes" in needed),
            ranking=self._sketch.ranking() if "ranking" in needed else None,
            residuals=self._sketch.residuals() if "residuals" in needed else None,
        )
        found = {name: float(value) for name, value in values(known, names).items()}
        bounds = self._sketch.bounds(found) if "ranking" in needed else {}
        if known.residuals is not None:
            bounds["smooth_ece"] = float(known.residuals.solution[1])
        evaluation = Evaluation(
            values=found,
            n=self.samples,
            num_classes=self.num_classes,
            bins=self.bins,
            bounds={name: bound for name, bound in bounds.items() if name in found},
            notes=(*([_COMPACT if self.compact else _NOT_KEPT] if self._sketch.missing() else []), _NEEDS_OUTPUTS),
            of=self.of,
        )
        if self._has_clusters:
            return replace(evaluation, notes=(*evaluation.notes, _IN_CLUSTERS))
        assert known.bins is not None
        honest = HonestIntervals(_StreamedGaps(known.bins, self._sums, self._sketch), seed)
        check_resampling(1, level, seed)
        if "ece" in found:
            evaluation = replace(evaluation, calibration_test=judge_gaps(honest.binned))
        if not intervals:
            return evaluation
        of_gaps = self._intervals(found, honest, level)
        of_means = MeanIntervals(self.means(), self._sums.products).at(found, level)
        methods = dict.fromkeys(of_means, "normal") | dict.fromkeys(of_gaps, "honest")
        ends = of_means | of_gaps
        return replace(
            evaluation,
            intervals={name: ends[name] for name in found if name in ends},
            level=level if ends else None,
            methods={name: methods[name] for name in found if name in ends},
        )

    def possible_metrics(self) -> list[str]:
        """Return the metrics that can be computed of what was added."""
        missing = self._sketch.missing()
        possible = names_for(METRICS, self.num_classes, self.of)
        return [name for name in possible if METRICS[name].source != "outputs" and name not in missing]

    def group_tables(self, request: EvaluationRequest) -> dict[str, GroupTable]:
        """Evaluate the groups of each column."""
        return self._groups.tables(request, self._has_clusters)

    def means(self) -> Means:
        """Return the sums that means are made of."""
        found = self._sums.known(with_classes=False).means
        assert found is not None
        return found

    def mean_products(self) -> npt.NDArray[np.float64]:
        """Return the sums of products of their terms, (C, C)."""
        return self._sums.products

    def binned_units(self) -> SampleUnits:
        """Return what the test of calibration needs."""
        return self._sums.binned_units()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, without groups."""
        return self._sums.counts.nbytes + self._sums.sums.nbytes + self._sketch.nbytes

    def _intervals(self, found: Mapping[str, float], honest: HonestIntervals, level: float) -> dict[str, Interval]:
        ends = {name: honest.interval(name, value, level) for name, value in found.items() if honest.has(name)}
        of_classes = self._sums.classwise_interval(level) if "classwise_ece" in found else None
        return ends if of_classes is None else {**ends, "classwise_ece": of_classes}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as tensors, whose size does not depend on the number of samples beyond 131,072."""
        sketch = {f"sketch.{name}": part for name, part in self._sketch.state_dict().items()}
        shape = torch.tensor([self.num_classes, self.bins])
        if self._sums.exponent is not None:
            sketch["exponent"] = torch.tensor(self._sums.exponent)
        sketch["next_row"] = torch.tensor([self._next_row, self._has_clusters])
        if self.compact:
            sketch["compact"] = torch.tensor(True)
        if self._of is not None:
            sketch["of"] = torch.tensor(list(MEASURES).index(self._of))
        if self.by:
            sketch |= {f"groups.{name}": part for name, part in self._groups.state_dict().items()}
        return {"shape": shape, "counts": self._sums.counts.clone(), "sums": self._sums.sums.clone()} | sketch

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the place of the accumulator that `state_dict` described, of the same number of classes and bins."""
        try:
            num_classes, bins = (int(number) for number in state["shape"])
            of = list(MEASURES)[int(state["of"])] if "of" in state else "top"
            self._check_same(num_classes, bins, None if self._wanted is None else of, "compact" in state)
            sketch = {name.removeprefix("sketch."): part for name, part in state.items()}
            self._check_sizes(state)
            loaded = ConfidenceSketch.from_state_dict(self.bins, int(state["counts"][0]), sketch, self._resolution)
            if self.by:
                own = {name.removeprefix("groups."): part for name, part in state.items() if name.startswith("groups.")}
                self._groups.load_state_dict(own)
            self._next_row, self._has_clusters = int(state["next_row"][0]), bool(state["next_row"][1])
            self._sums.counts.copy_(state["counts"])
            self._sums.sums.copy_(state["sums"])
            self._sums.exponent = int(state["exponent"]) if "exponent" in state else None
            self._sketch = loaded
            self._of = of if "of" in state or self.samples else self._wanted
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

    def _check_sizes(self, state: Mapping[str, Tensor]) -> None:
        for name in ("counts", "sums"):
            own = getattr(self._sums, name)
            if state[name].shape != own.shape or state[name].dtype != own.dtype:
                raise ValueError(f"The state's {name} are not those of such an accumulator; pass what state_dict gave.")

    def _check_same(self, num_classes: int, bins: int, of: Of | None, compact: bool) -> None:
        if compact != self.compact:
            raise ValueError(
                "Only one of the two accumulators is compact, and only those of the same form go together."
            )
        if None not in (of, self._of) and of != self._of:
            raise ValueError("The other accumulator's calibration is measured of something else (of=).")
        if (num_classes, bins) != (self.num_classes, self.bins):
            raise ValueError(
                f"The other accumulator has {num_classes} classes and {bins} bins, this one {self.num_classes} and "
                f"{self.bins}; only those of the same shape go together."
            )


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
