"""Workers: processes of this machine, or tasks of a Ray cluster, that work on shards side by side.

Results come in the order of the shards and are joined in groups of a fixed size, wherever and whenever they were made:
the same shards give the same numbers to the last bit.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol, TypeVar

from focalcal.metrics.streaming.ray_cluster import ray_cluster

Engine = Literal["local", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")

# Results that are joined at a time.
FAN_IN = 8
# A task whose worker or node died is done again this many times.
_RETRIES = 3


class Workers(Protocol):
    """Something that calls a function of every item, and joins results."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the results in the order of the items."""

    def map_joined(
        self, function: Callable[[Item], Result], items: Sequence[Item], join: Callable[[Sequence[Result]], Result]
    ) -> Iterator[Result]:
        """Yield what results of groups of `FAN_IN` items join to, in their order."""


@contextmanager
def start_workers(on: Engine = "local", *, workers: int | None = None, address: str | None = None) -> Iterator[Workers]:
    """Start workers, and end them with the block.

    Args:
        on: ``local`` for processes of this machine, ``ray`` for a Ray cluster.
        workers: Number of processes; None for one per core. On Ray, tasks at a time; None for one per core.
        address: Address of the cluster; see `ray_cluster`.
    """
    if on not in ("local", "ray"):
        raise ValueError(f"on must be 'local' or 'ray', not {on!r}.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}.")
    if on == "ray":
        with ray_cluster(address) as ray:
            yield _RayTasks(ray, workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
        return
    if address is not None:
        raise ValueError("address is that of a Ray cluster: pass on='ray' as well.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = workers or cores
    if count == 1:
        yield _ThisProcess()
        return
    with ProcessPoolExecutor(count, mp_context=_context(), initializer=_one_thread) as pool:
        yield _Processes(pool, count)


def _context() -> Any:
    import multiprocessing

    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["focalcal.metrics.streaming.sharded_evaluation", "focalcal.predictions.formats.parquet"]
    )
    return context


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


class _ThisProcess:
    """One worker: this process."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        return map(function, items)

    def map_joined(
        self, function: Callable[[Item], Result], items: Sequence[Item], join: Callable[[Sequence[Result]], Result]
    ) -> Iterator[Result]:
        for group in _batches(items):
            yield join([function(item) for item in group])


@dataclass(frozen=True)
class _Processes:
    pool: ProcessPoolExecutor
    count: int

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self.pool.submit(function, item))
                if len(waiting) >= 2 * self.count:  # no more results wait than this
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise ValueError(
                "A process that read shards was ended from outside, perhaps for want of memory; use fewer workers."
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def map_joined(
        self, function: Callable[[Item], Result], items: Sequence[Item], join: Callable[[Sequence[Result]], Result]
    ) -> Iterator[Result]:
        return map(join, _batches(self.map(function, items)))


@dataclass(frozen=True)
class _RayTasks:
    ray: Any
    count: int

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        return self._in_order(self._submit(function, item) for item in items)

    def map_joined(
        self, function: Callable[[Item], Result], items: Sequence[Item], join: Callable[[Sequence[Result]], Result]
    ) -> Iterator[Result]:
        def groups() -> Iterator[Any]:
            for group in _batches(items):
                parts = [self._submit(function, item) for item in group]
                yield self.ray.remote(_join).options(max_retries=_RETRIES).remote(join, *parts)

        return self._in_order(groups())

    def _submit(self, function: Callable[[Item], Result], item: Item) -> Any:
        return self.ray.remote(_call).options(max_retries=_RETRIES, num_cpus=1).remote(function, item)

    def _in_order(self, references: Iterator[Any]) -> Iterator[Any]:
        from ray.exceptions import RayError, RayTaskError

        waiting: deque[Any] = deque()
        try:
            for reference in references:
                waiting.append(reference)
                if len(waiting) >= 2 * self.count:
                    yield self.ray.get(waiting.popleft())
            while waiting:
                yield self.ray.get(waiting.popleft())
        except RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, Exception) else ValueError(str(cause)) from None
        except RayError as error:
            first = " ".join(str(error).split()).split(". ")[0]
            raise ValueError(
                f"A worker died {_RETRIES + 1} times while it read shards ({type(error).__name__}: {first})."
            ) from error
        finally:
            for reference in waiting:
                self.ray.cancel(reference)


def _call(function: Callable[[Item], Result], item: Item) -> Result:
    _one_thread()
    return function(item)


def _join(join: Callable[[Sequence[Result]], Result], *parts: Result) -> Result:
    return join(parts)


def _batches(items: Iterable[Item], size: int = FAN_IN) -> Iterator[tuple[Item, ...]]:
    """Cut into groups of this size, the last of which may have fewer."""
    rest = iter(items)
    while group := tuple(islice(rest, size)):
        yield group
