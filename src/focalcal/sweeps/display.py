"""Progress of a sweep on stderr, read from the histories of its runs, wherever they are trained."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from focalcal.base.files import read_bytes
from focalcal.base.progress import clock, note, on_terminal, progress_bar
from focalcal.sweeps.plan import PlannedRun
from focalcal.training.epoch_progress import describe_epoch
from focalcal.training.run_directory import read_history

if TYPE_CHECKING:
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 30.0
# More bars than this do not fit on a screen: then only those of runs that are being trained are shown.
_MOST_BARS = 20


class SweepDisplay:
    """Shows nothing; the base of what shows the progress of a sweep."""

    def start(self, runs: Sequence[PlannedRun]) -> None:
        """Begin, before the first run starts."""

    def update(self, runs: Sequence[PlannedRun]) -> None:
        """Show how far the runs have come; called a few times per second."""

    def close(self) -> None:
        """End, after the last run."""


def sweep_display() -> SweepDisplay:
    """Return a bar where stderr is a terminal, lines otherwise."""
    return _Bar() if on_terminal() else _Lines()


def _epochs_done(run: PlannedRun) -> int:
    try:
        return read_bytes(run.files.history).count(b"\n")
    except OSError:
        return 0


class _Lines(SweepDisplay):
    """A line now and then, and one for each run that ends."""

    def __init__(self) -> None:
        self._told: set[PlannedRun] = set()
        self._last, self._began, self._before = 0.0, 0.0, 0

    def start(self, runs: Sequence[PlannedRun]) -> None:
        self._last = self._began = time.monotonic()
        self._told = {run for run in runs if run.is_finished}
        self._before = sum(map(_epochs_done, runs))

    def update(self, runs: Sequence[PlannedRun]) -> None:
        for run in runs:
            if run not in self._told and run.is_finished:
                self._told.add(run)
                note(f"{run.name}: {describe_epoch(read_history(run.files.history)[-1])}")
        if time.monotonic() - self._last > _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            done, total = sum(map(_epochs_done, runs)), sum(run.recipe.epochs for run in runs)
            new = done - self._before
            left = f", {clock((self._last - self._began) / new * (total - done))} left" if new else ""
            note(f"{done} of {total} epochs done{left}")


class _Bar(SweepDisplay):
    """One bar per run; of many runs, one for all and one for each that is being trained."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TimeRemainingColumn

        epochs = "{task.completed:.0f}/{task.total:.0f} epochs"
        left = TimeRemainingColumn(elapsed_when_finished=True)
        self._bar = progress_bar("{task.description}", BarColumn(bar_width=30), epochs, left)
        self._tasks: dict[PlannedRun, TaskID] = {}
        self._all: TaskID | None = None

    def start(self, runs: Sequence[PlannedRun]) -> None:
        self._bar.start()
        if len(runs) > _MOST_BARS:
            self._all = self._bar.add_task(f"{len(runs)} runs", total=sum(run.recipe.epochs for run in runs))
        one_seed = len({run.seed for run in runs}) == 1
        for run in runs:
            name = run.loss if one_seed and not run.group else run.name
            self._tasks[run] = self._bar.add_task(name, total=run.recipe.epochs, visible=self._all is None)
        self.update(runs)

    def update(self, runs: Sequence[PlannedRun]) -> None:
        done = {run: _epochs_done(run) for run in runs}
        for run, epochs in done.items():
            shown = self._all is None or 0 < epochs < run.recipe.epochs
            self._bar.update(self._tasks[run], completed=epochs, visible=shown)
        if self._all is not None:
            self._bar.update(self._all, completed=sum(done.values()))

    def close(self) -> None:
        self._bar.stop()
