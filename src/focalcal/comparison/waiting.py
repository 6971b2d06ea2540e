"""What a person sees while a comparison trains: how many epochs of all runs are done, and the last figures."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from focalcal.base.progress import clock
from focalcal.comparison.plan import PlannedRun
from focalcal.training.history import read_history
from focalcal.training.progress import described

_SECONDS_BETWEEN_LINES = 30.0


class Watcher:
    """Says nothing."""

    def start(self, runs: Sequence[PlannedRun]) -> None:
        """Training begins."""

    def look(self, runs: Sequence[PlannedRun]) -> None:
        """Some time has passed."""

    def close(self) -> None:
        """Training is over."""


def watcher(wanted: bool) -> Watcher:
    """What suits stderr."""
    if not wanted:
        return Watcher()
    return _Bar() if sys.stderr.isatty() else _Lines()


def epochs_done(run: PlannedRun) -> int:
    """How many epochs of a run are done."""
    history = run.path / "history.jsonl"
    try:
        return history.read_bytes().count(b"\n")
    except OSError:
        return 0


class _Lines(Watcher):
    """A line now and then, and one for each run that ends."""

    def __init__(self) -> None:
        self._said: set[PlannedRun] = set()
        self._last, self._began, self._before = 0.0, 0.0, 0

    def start(self, runs: Sequence[PlannedRun]) -> None:
        self._last = self._began = time.monotonic()
        self._said = {run for run in runs if run.is_finished}
        self._before = sum(map(epochs_done, runs))

    def look(self, runs: Sequence[PlannedRun]) -> None:
        for run in runs:
            if run.is_finished and run not in self._said:
                self._said.add(run)
                record = read_history(run.path / "history.jsonl")[-1]
                _say(f"{run.loss}, seed {run.seed}: {described(record)}")
        if time.monotonic() - self._last > _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            done, total = sum(map(epochs_done, runs)), sum(run.recipe.epochs for run in runs)
            new = done - self._before
            left = f", {clock((self._last - self._began) / new * (total - done))} left" if new else ""
            _say(f"{done} of {total} epochs done{left}")


class _Bar(Watcher):
    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f}/{task.total:.0f} epochs"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._bar = Progress(*columns, console=Console(stderr=True, markup=False, highlight=False))
        self._tasks: dict[PlannedRun, TaskID] = {}

    def start(self, runs: Sequence[PlannedRun]) -> None:
        self._bar.start()
        for run in runs:
            name = run.loss if len({one.seed for one in runs}) == 1 else f"{run.loss}, seed {run.seed}"
            self._tasks[run] = self._bar.add_task(name, total=run.recipe.epochs, completed=epochs_done(run))

    def look(self, runs: Sequence[PlannedRun]) -> None:
        for run in runs:
            self._bar.update(self._tasks[run], completed=epochs_done(run))

    def close(self) -> None:
        self._bar.stop()


def _say(sentence: str) -> None:
    print(f"focalcal: {sentence}", file=sys.stderr, flush=True)
