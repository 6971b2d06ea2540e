"""Training of many runs on one machine: one process per run, so that one that fails leaves the others alone."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from focalcal.base.files import read_text
from focalcal.sweeps.display import SweepDisplay
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.single_run import Ending, train_run

_SECONDS_BETWEEN_LOOKS = 0.2


class SweepInterrupted(Exception):
    """The sweep was asked to stop; its runs have saved their states."""

    def __init__(self) -> None:
        super().__init__("Interrupted; every run has saved its state, and the same command resumes them.")


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
    waiting = [run for run in runs if not run.is_finished]
    active: dict[BaseProcess, PlannedRun] = {}
    display = display or SweepDisplay()
    with watch_runs(runs, display, lambda: _stop(active)) as failures:
        while waiting or active:
            while waiting and len(active) < jobs:
                run = waiting.pop(0)
                active[_start(run)] = run
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            for process in [one for one in active if not one.is_alive()]:
                run = active.pop(process)
                failures.record(run, process.exitcode, _reason(run, process.exitcode))
            display.update(runs)
    return failures.failed


class Failures:
    """Runs that failed, as they end."""

    def __init__(self) -> None:
        self.failed: list[tuple[PlannedRun, str]] = []
        self._refused = 0

    def record(self, run: PlannedRun, ending: int | None, reason: str) -> None:
        """Take the ending of a run, an `Ending` or what else its process ended with.

        Raises:
            SweepInterrupted: The run was asked to stop.
        """
        if ending == Ending.INTERRUPTED:
            raise SweepInterrupted
        self._refused += ending == Ending.REFUSED
        if ending != Ending.FINISHED:
            self.failed.append((run, reason))

    def raise_if_all_refused(self, runs: Sequence[PlannedRun]) -> None:
        """Say once what is wrong with every run, and remove what runs that never began have left."""
        if self._refused == len(runs) and len({reason for _, reason in self.failed}) == 1:
            for run in runs:
                _forget(run)
            raise ValueError(self.failed[0][1])


@contextmanager
def watch_runs(runs: Sequence[PlannedRun], display: SweepDisplay, stop: Callable[[], None]) -> Iterator[Failures]:
    """Show the progress of runs while they are trained; on Ctrl-C, SIGTERM or an error, stop them first.

    Args:
        runs: All runs of the sweep.
        display: What shows the progress.
        stop: Function that asks every active run to save its state, and waits until it has.

    Raises:
        ValueError: Every run was refused for the same reason; nothing is left of them.
        SweepInterrupted: Ctrl-C, SIGTERM, or a run that was asked to stop.
    """
    failures = Failures()
    display.start(runs)
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        yield failures
    except (KeyboardInterrupt, SweepInterrupted):
        stop()
        raise SweepInterrupted from None
    except BaseException:
        stop()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        display.close()
    failures.raise_if_all_refused(runs)


def _forget(run: PlannedRun) -> None:
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
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C goes to the sweep alone, which asks its runs to stop: once, not twice
    ending, _ = train_run(run.recipe, run.path, command)
    sys.exit(ending)


def _reason(run: PlannedRun, code: int | None) -> str:
    """Return the run's own message, or what ended it; nothing for a run that finished."""
    if code == Ending.FINISHED:
        return ""
    said = [line for line in _lines(run.files.output) if line.startswith("FAILED: ")]
    if code is not None and code > 0 and said:
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
