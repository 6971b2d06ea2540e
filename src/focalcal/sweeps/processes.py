"""Training of many runs at once: one process per run, so that one that fails or is killed leaves the others alone."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.base.files import make_folder, read_bytes, read_text
from focalcal.base.progress import clock, note, on_terminal, progress_bar
from focalcal.sweeps.plan import PlannedRun
from focalcal.training.progress import describe_epoch
from focalcal.training.run_directory import read_history

if TYPE_CHECKING:
    from rich.progress import TaskID

_FAILED, _BAD_INPUT, _INTERRUPTED = 1, 2, 3
_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_LINES = 0.2, 30.0


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
            if run.is_finished and run not in self._told:
                self._told.add(run)
                note(f"{run.name}: {describe_epoch(read_history(run.files.history)[-1])}")
        if time.monotonic() - self._last > _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            done, total = sum(map(_epochs_done, runs)), sum(run.recipe.epochs for run in runs)
            new = done - self._before
            left = f", {clock((self._last - self._began) / new * (total - done))} left" if new else ""
            note(f"{done} of {total} epochs done{left}")


class _Bar(SweepDisplay):
    """One bar per run."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TimeRemainingColumn

        epochs = "{task.completed:.0f}/{task.total:.0f} epochs"
        left = TimeRemainingColumn(elapsed_when_finished=True)
        self._bar = progress_bar("{task.description}", BarColumn(bar_width=30), epochs, left)
        self._tasks: dict[PlannedRun, TaskID] = {}

    def start(self, runs: Sequence[PlannedRun]) -> None:
        self._bar.start()
        one_seed = len({run.seed for run in runs}) == 1
        for run in runs:
            name = run.loss if one_seed else run.name
            self._tasks[run] = self._bar.add_task(name, total=run.recipe.epochs, completed=_epochs_done(run))

    def update(self, runs: Sequence[PlannedRun]) -> None:
        for run in runs:
            self._bar.update(self._tasks[run], completed=_epochs_done(run))

    def close(self) -> None:
        self._bar.stop()


class SweepInterrupted(Exception):
    """The sweep was asked to stop; its runs have saved their states."""


def train_all(
    runs: Sequence[PlannedRun], *, jobs: int, display: SweepDisplay | None = None
) -> list[tuple[PlannedRun, str]]:
    """Train what is not finished, ``jobs`` at a time, and return the runs that failed, each with its reason.

    Runs that were begun before resume from their checkpoints. What a run prints goes to ``train.log`` in its folder.

    Args:
        runs: All runs of the sweep.
        jobs: Number of runs at a time.
        display: What shows the progress; None for nothing.

    Raises:
        ValueError: Every run was refused for the same reason, such as a file that is wrong; nothing is left of them.
        SweepInterrupted: Ctrl-C or SIGTERM; every run has saved its state.
    """
    display = display or SweepDisplay()
    waiting = [run for run in runs if not run.is_finished]
    active: dict[BaseProcess, PlannedRun] = {}
    failed: list[tuple[PlannedRun, str]] = []
    refused = 0
    display.start(runs)
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                run = waiting.pop(0)
                active[_start(run)] = run
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            for process in [one for one in active if not one.is_alive()]:
                run = active.pop(process)
                if process.exitcode == _INTERRUPTED:
                    raise SweepInterrupted
                refused += process.exitcode == _BAD_INPUT
                if process.exitcode != 0:
                    failed.append((run, _reason(run, process.exitcode)))
            display.update(runs)
    except (KeyboardInterrupt, SweepInterrupted):
        _stop(active)
        raise SweepInterrupted(
            "Interrupted; every run has saved its state, and the same command resumes them."
        ) from None
    except BaseException:
        _stop(active)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        display.close()
    if refused == len(runs) and len({reason for _, reason in failed}) == 1:
        for run in runs:
            _forget(run)
        raise ValueError(failed[0][1])
    return failed


def _forget(run: PlannedRun) -> None:
    """Remove what a run that never began has left."""
    if not run.files.config.exists():
        for file in (run.files.output, run.files.lock):
            file.unlink(missing_ok=True)
        for folder in (run.path, *run.path.parents[:2]):
            with suppress(OSError):  # it holds something else
                folder.rmdir()


def _raise_interrupt(number: int, frame: object) -> None:
    """Treat SIGTERM like Ctrl-C."""
    raise KeyboardInterrupt


def _start(run: PlannedRun) -> BaseProcess:
    process: BaseProcess = _context().Process(target=_train, args=(run, list(sys.argv)), daemon=False)
    process.start()
    return process


def _context() -> Any:
    """Start processes from one that has imported everything: a run starts in milliseconds, not in seconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["focalcal.training.run", "focalcal.data.data_sets", "focalcal.models"])
    return context


def _train(run: PlannedRun, command: list[str]) -> None:
    """Train one run, in its own process."""
    from focalcal.training import Diverged, Interrupted, train
    from focalcal.training.preconditions import RunInUse

    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C goes to the sweep alone, which asks its runs to stop: once, not twice
    sys.argv = command
    make_folder(run.path)
    with open(run.files.output, "a", encoding="utf-8", buffering=1) as log:
        sys.stderr = sys.stdout = log
        try:
            train(run.recipe, out=run.path, resume=True)
        except Interrupted as error:
            print(error)
            sys.exit(_INTERRUPTED)
        except (Diverged, RunInUse, OSError, ArithmeticError, MemoryError) as error:
            print(f"FAILED: {error}")
            sys.exit(_FAILED)
        except (ValueError, TypeError) as error:
            print(f"FAILED: {error}")
            sys.exit(_BAD_INPUT)


def _reason(run: PlannedRun, code: int | None) -> str:
    """Return the run's own message, or what ended it."""
    said = [line for line in _lines(run.files.output) if line.startswith("FAILED: ")]
    if code in (_FAILED, _BAD_INPUT) and said:
        return said[-1].removeprefix("FAILED: ")
    if code is not None and code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}; see {run.files.output}"


def _lines(path: Path) -> list[str]:
    return read_text(path).splitlines() if path.is_file() else []


def _stop(active: dict[BaseProcess, PlannedRun]) -> None:
    """Ask every run to save its state, and wait until it has."""
    for process in active:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGTERM)
    for process in active:
        process.join()
