"""Medians of competitors that take turns, so that a disturbance of the machine falls on all of them."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch


def medians(
    competitors: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 3.0,
    most: int = 300,
    fewest: int = 3,
    quick: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Measure the median seconds of one call of each, the competitors taking turns for about ``seconds`` in all.

    A turn repeats a short call until it has taken two milliseconds or so, for the clock's sake and because that is how
    a training loop meets it: with warm caches. ``quick`` calls each of them once. ``clock`` may be
    ``time.process_time`` where one thread does all the work: what other processes take does not count then.
    """
    if quick:
        seconds, fewest = 0.0, 1
    repeats = {name: 1 if quick else _repeats(call) for name, call in competitors.items()}
    times: dict[str, list[float]] = {name: [] for name in competitors}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < fewest or (time.perf_counter() < end and rounds < most):
        for name, call in competitors.items():
            if repeats[name] > 1:
                call()  # another competitor ran before: warm up again
            start = clock()
            for _ in range(repeats[name]):
                call()
            times[name].append((clock() - start) / repeats[name])
        rounds += 1
    return {name: statistics.median(values) for name, values in times.items()}


def _repeats(call: Callable[[], object]) -> int:
    for _ in range(2):
        start = time.perf_counter()
        call()
        taken = time.perf_counter() - start
        if taken > 0.5:
            break  # a second call would only cost time
    return max(1, int(2e-3 / max(taken, 1e-7)))


def machine() -> str:
    """Describe what the figures were measured on, in one line."""
    return (
        f"{platform.machine()}, {torch.get_num_threads()} thread(s), Python {platform.python_version()}, "
        f"torch {torch.__version__}, {time.strftime('%Y-%m-%d')}"
    )
