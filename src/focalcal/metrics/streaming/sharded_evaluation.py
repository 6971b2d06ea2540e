"""Evaluation of shards: one small state per file, made side by side here or on a cluster, and joined."""

import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import torch

from focalcal.base.progress import track
from focalcal.metrics.binning import check_bins
from focalcal.metrics.bootstrap.intervals import check_names, check_resampling
from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.evaluation import Evaluation
from focalcal.metrics.streaming.accumulator import Accumulator, grouped_columns
from focalcal.metrics.streaming.workers import FAN_IN, Engine, Workers, start_workers
from focalcal.predictions import Predictions, PredictionsFile, open_predictions
from focalcal.predictions.masking import answer_classes
from focalcal.predictions.read_options import ReadOptions
from focalcal.predictions.shards import Paths, Shard, check_alike, describe_shard, find_shards

# What is read at a time: the numbers of a block stay in the cache.
_VALUES_READ, _ROWS_READ = 2**19, 2**16
# A process takes a second or two to start, and reads more than this in that time.
_SMALL_BYTES = 32 * 2**20

State = Mapping[str, npt.NDArray[Any]]
Transform = Callable[[Predictions], Predictions]
T = TypeVar("T")


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Placed:
    """A shard, and the number of rows in those before it."""

    shard: Shard
    first_row: int


@dataclass(frozen=True)
class ShardSet:
    """Shards that go together.

    Attributes:
        shards: Those that can be read, in order.
        failures: Those that were skipped.
        workers: Who reads them.
        on: Where.
        options: How they are read.
        skip: Whether a shard that cannot be read is skipped.
    """

    shards: tuple[Placed, ...]
    failures: tuple[ShardFailure, ...]
    workers: Workers
    on: Engine
    options: ReadOptions
    skip: bool

    @property
    def rows(self) -> int:
        """The number of rows of all shards."""
        return sum(placed.shard.rows for placed in self.shards)

    @property
    def split(self) -> str | None:
        """The name of the set, if it is the same for all."""
        splits = {placed.shard.split for placed in self.shards}
        return splits.pop() if len(splits) == 1 else None

    def fact(self, name: str) -> Any:
        """Return what all shards have in common, such as their ``kind``."""
        return dict(self.shards[0].shard.facts)[name]

    def map(self, function: Callable[[Placed, PredictionsFile], T]) -> Iterator[T | ShardFailure]:
        """Call a function of every shard and its opened file, and yield the results in order."""
        return self.workers.map(self._guarded(function), self.shards)

    def map_joined(
        self,
        function: Callable[[Placed, PredictionsFile], T],
        join: Callable[[Sequence[T | ShardFailure]], T | ShardFailure],
    ) -> Iterator[T | ShardFailure]:
        """Call a function of every shard and its opened file, and yield what groups of results join to."""
        return self.workers.map_joined(self._guarded(function), self.shards, join)

    def _guarded(self, function: Callable[[Placed, PredictionsFile], T]) -> Callable[[Placed], T | ShardFailure]:
        return partial(_guard, partial(_with_file, function, self.options), self.on, self.skip)


def _with_file(function: Callable[[Placed, PredictionsFile], T], options: ReadOptions, placed: Placed) -> T:
    return function(placed, open_predictions(placed.shard.path, **options))


def _guard(function: Callable[[Any], T], on: Engine, skip: bool, item: Any) -> T | ShardFailure:
    """Call a function of a shard; what is wrong with the shard is an answer, too, where it may be skipped."""
    path = item.shard.path if isinstance(item, Placed) else item
    try:
        return function(item)
    except FileNotFoundError as error:
        if on == "ray" and "://" not in path:
            raise ValueError(
                f"The node {socket.gethostname()} cannot see {path}, which this machine can: put shards on storage "
                "that all nodes share."
            ) from error
        failure = ShardFailure(path, str(error))
    except (ValueError, OSError) as error:
        failure = ShardFailure(path, str(error))
    if not skip:
        raise ValueError(failure.reason if path in failure.reason else f"{path}: {failure.reason}")
    return failure


def open_shards(
    paths: Paths,
    workers: Workers,
    on: Engine,
    options: ReadOptions,
    *,
    skip_bad_shards: bool = False,
    needs_labels: bool = True,
) -> ShardSet:
    """Find shards, look at each of them, and check that they go together.

    Raises:
        ValueError: A shard cannot be read (unless those are skipped), or is of another model.
    """
    if "labels" in options and options["labels"] is not None:
        raise ValueError("Labels in a file of their own belong to one file of predictions, and these are several.")
    found = find_shards(paths)
    look = partial(describe_shard, options=options, needs_labels=needs_labels)
    described = list(workers.map(partial(_guard, look, on, skip_bad_shards), found))
    good = [one for one in described if isinstance(one, Shard)]
    bad = tuple(one for one in described if isinstance(one, ShardFailure))
    if not good:
        raise ValueError(f"None of {len(found)} shards can be read; the first: {bad[0].reason}")
    check_alike(good)
    rows = np.cumsum([0, *(shard.rows for shard in good)]).tolist()
    placed = tuple(Placed(shard, first) for shard, first in zip(good, rows, strict=False))
    return ShardSet(placed, bad, workers, on, options, skip_bad_shards)


def evaluate_shards(
    paths: Paths,
    *,
    metrics: Sequence[str] | None = None,
    bins: int = 15,
    intervals: bool = True,
    level: float = 0.90,
    seed: int = 0,
    by: str | Sequence[str] | None = None,
    on: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    skip_bad_shards: bool = False,
    progress: bool = False,
    **options: Unpack[ReadOptions],
) -> Evaluation:
    """Compute the metrics of predictions that lie in several files, side by side on this machine or on a Ray cluster.

    The result is that of one process over all rows one after another: counts are the same, sums to rounding, intervals
    of calibration errors included. A worker's memory does not grow with its shard, and what it sends back is 0.8 MB for
    10 classes and 3.8 MB for 1,000. What depends on the order of confidences comes from a histogram;
    ``Evaluation.bounds`` tells how far it may be off. Parts of losses and debiased ECE are left out.

    Args:
        paths: Files, or patterns such as ``preds/*.parquet``, here or on storage that fsspec knows (``s3://…``).
        metrics: Names, see ``METRICS``; None for all that shards can give.
        bins: Number of bins of the binned metrics.
        intervals: Whether to compute confidence intervals, as `Accumulator` does.
        level: Level of the intervals.
        seed: Seed for the draws of what a perfectly calibrated model would show.
        by: Columns of groups that are evaluated each on its own, as in `evaluate`; half a megabyte more per group at
            most.
        on: ``local`` for processes of this machine, ``ray`` for a Ray cluster (``focalcal[ray]``).
        workers: Number of processes, or of tasks at a time; None for one per core, or this process for a few MB.
        address: Address of the Ray cluster: ``auto``, ``HOST:PORT``; None for one of this machine alone.
        skip_bad_shards: Leave out shards that cannot be read; ``Evaluation.notes`` names them.
        progress: Whether to show progress on stderr.
        **options: How the files are read, as in `open_predictions`.

    Raises:
        ValueError: One sentence with the name of the shard.

    Examples:
        >>> import pathlib, tempfile
        >>> from focalcal.predictions import Predictions
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, probs, labels in (("a", [[0.75, 0.25], [0.5, 0.5]], [0, 1]), ("b", [[0.125, 0.875]], [1])):
        ...         Predictions.from_probs(probs, labels).save(pathlib.Path(folder, name + ".npz"))
        ...     evaluation = evaluate_shards(folder + "/*.npz", workers=1)
        >>> evaluation.n, evaluation["brier"]
        (3, 0.21875)
    """
    evaluation, _ = measure_shards(
        paths,
        metrics=metrics,
        bins=bins,
        intervals=intervals,
        level=level,
        seed=seed,
        by=by,
        on=on,
        workers=workers,
        address=address,
        skip_bad_shards=skip_bad_shards,
        progress=progress,
        **options,
    )
    return evaluation


def measure_shards(
    paths: Paths,
    *,
    metrics: Sequence[str] | None,
    bins: int,
    intervals: bool,
    level: float,
    seed: int,
    by: str | Sequence[str] | None,
    on: Engine,
    workers: int | None,
    address: str | None,
    skip_bad_shards: bool,
    progress: bool = False,
    **options: Unpack[ReadOptions],
) -> tuple[Evaluation, ShardSet]:
    """Evaluate shards as `evaluate_shards` does, and return what is known of them, too."""
    check_bins(bins)
    check_resampling(1, level, seed)
    paths = find_shards(paths)
    if workers is None and on == "local" and _are_small(paths):
        workers = 1
    columns = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    options["groups_key"] = (*options.get("groups_key", ()), *columns)
    with start_workers(on, workers=workers, address=address) as pool:
        shards = open_shards(paths, pool, on, options, skip_bad_shards=skip_bad_shards)
        names = _names(metrics, len(shards.fact("masked_classes")), shards.fact("num_classes"))
        total, failures = accumulate(shards, bins, by=columns, progress=progress)
    evaluation = total.compute(names, intervals=intervals, level=level, seed=seed)
    skipped = _note_skipped(failures, len(shards.shards) + len(shards.failures))
    return replace(evaluation, notes=(*skipped, *evaluation.notes)), shards


def _are_small(paths: Sequence[str]) -> bool:
    """Return whether files are read sooner than processes are started."""
    local = [path for path in paths if os.path.isfile(path)]
    return len(local) == len(paths) and sum(map(os.path.getsize, local)) < _SMALL_BYTES


def _names(metrics: Sequence[str] | None, masked: int, num_classes: int) -> Sequence[str] | None:
    """Check names of metrics before anything is read."""
    if metrics is not None:
        check_names(metrics, num_classes - masked, tuple(METRICS))
        for name in metrics:
            metric = METRICS[name]
            if metric.source == "outputs" or (metric.source == "ranking" and not metric.partial_sums):
                raise ValueError(f"{name} cannot be computed from shards; evaluate one file that fits into memory.")
    return metrics


def accumulate(
    shards: ShardSet,
    bins: int,
    *,
    by: Sequence[str] = (),
    transform: Transform | None = None,
    progress: bool = False,
) -> tuple[Accumulator, list[ShardFailure]]:
    """Add up all shards, or what they become by a map of predictions, and say which could not be read."""
    total: Accumulator | None = None
    failures = list(shards.failures)
    parts = shards.map_joined(partial(_state_of, bins, tuple(by), transform), partial(_join, bins))
    steps = math.ceil(len(shards.shards) / FAN_IN)
    with track(parts, "reading shards", total=steps) if progress else nullcontext(parts) as shown:
        for part in shown:
            assert isinstance(part, _Part)
            failures += part.failures
            if part.state is not None:
                total = _restore(part.state, bins) if total is None else total.merge(_restore(part.state, bins))
    if total is None:
        raise ValueError(f"None of the shards can be read; the first: {failures[0].reason}")
    return total, failures


@dataclass(frozen=True)
class _Part:
    """The state of some shards, and those that could not be read."""

    state: State | None
    failures: tuple[ShardFailure, ...] = field(default=())


def _state_of(
    bins: int, by: tuple[str, ...], transform: Transform | None, placed: Placed, file: PredictionsFile
) -> _Part:
    """Read one shard."""
    own = Accumulator(len(answer_classes(file)), bins=bins, by=by, first_row=placed.first_row, compact=True)
    for block in file.blocks(max(1, min(_ROWS_READ, _VALUES_READ // file.num_classes)), is_part=True):
        own.add(block if transform is None else transform(block))
    return _Part({name: tensor.numpy() for name, tensor in own.state_dict().items()})


def _join(bins: int, parts: Sequence[_Part | ShardFailure]) -> _Part:
    """Join the states of several shards."""
    total: Accumulator | None = None
    failures: list[ShardFailure] = []
    for part in parts:
        if isinstance(part, ShardFailure):
            failures.append(part)
            continue
        failures += part.failures
        if part.state is not None:
            restored = _restore(part.state, bins)
            total = restored if total is None else total.merge(restored)
    state = None if total is None else {name: tensor.numpy() for name, tensor in total.state_dict().items()}
    return _Part(state, tuple(failures))


def _restore(state: State, bins: int) -> Accumulator:
    tensors = {name: torch.from_numpy(np.array(part)) for name, part in state.items()}
    restored = Accumulator(int(tensors["shape"][0]), bins=bins, by=grouped_columns(tensors), compact=True)
    restored.load_state_dict(tensors)
    return restored


def _note_skipped(failures: Sequence[ShardFailure], count: int) -> tuple[str, ...]:
    """Say which shards are not among the samples."""
    if not failures:
        return ()
    shown = " ".join(failure.reason.rstrip(".") + "." for failure in failures[:3])
    more = f" (and {len(failures) - 3} more)" if len(failures) > 3 else ""
    verb = "was" if len(failures) == 1 else "were"
    return (f"{len(failures)} of {count} shards {verb} skipped: {shown}{more}",)
