"""Training many runs at once: a process each, so that one that fails or is killed leaves the others alone."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from focalcal.comparison.plan import PlannedRun
from focalcal.comparison.waiting import Watcher

_FAILED, _BAD_INPUT, _INTERRUPTED = 1, 2, 3
_SECONDS_BETWEEN_LOOKS = 0.2


class ComparisonInterrupted(Exception):
    """The comparison was asked to stop; its runs have saved their states."""


def train_all(runs: Sequence[PlannedRun], *, jobs: int, watcher: Watcher) -> list[tuple[PlannedRun, str]]:
    """Train what is not finished, ``jobs`` at a time, and give the runs that failed, each with its reason.

    Runs that were begun before go on from their checkpoints. What a run says goes to ``train.log`` in its folder.

    Raises:
        ValueError: every run was refused for the same reason, such as a file that is wrong; nothing is left of them.
    """
    waiting = [run for run in runs if not run.is_finished]
    active: dict[BaseProcess, PlannedRun] = {}
    failed: list[tuple[PlannedRun, str]] = []
    refused = 0
    watcher.start(runs)
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                run = waiting.pop(0)
                active[_started(run)] = run
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            for process in [one for one in active if not one.is_alive()]:
                run = active.pop(process)
                if process.exitcode == _INTERRUPTED:
                    raise ComparisonInterrupted
                refused += process.exitcode == _BAD_INPUT
                if process.exitcode != 0:
                    failed.append((run, _reason(run, process.exitcode)))
            watcher.look(runs)
    except (KeyboardInterrupt, ComparisonInterrupted):
        _stop(active)
        raise ComparisonInterrupted(
            "Interrupted; every run has saved its state, and the same command goes on from there."
        ) from None
    except BaseException:
        _stop(active)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        watcher.close()
    if refused == len(runs) and len({reason for _, reason in failed}) == 1:
        for run in runs:
            _forget(run)
        raise ValueError(failed[0][1])
    return failed


def _forget(run: PlannedRun) -> None:
    """Take away what a run that never began has left."""
    if not (run.path / "config.yaml").exists():
        for name in ("train.log", ".lock"):
            (run.path / name).unlink(missing_ok=True)
        for folder in (run.path, *run.path.parents[:2]):
            with suppress(OSError):  # it holds something else
                folder.rmdir()


def _raise_interrupt(number: int, frame: object) -> None:
    """SIGTERM means here what Ctrl-C means."""
    raise KeyboardInterrupt


def _started(run: PlannedRun) -> BaseProcess:
    process: BaseProcess = _context().Process(target=_train, args=(run, list(sys.argv)), daemon=False)
    process.start()
    return process


def _context() -> Any:
    """Processes that start from one that has imported everything: a run starts in milliseconds, not in seconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["focalcal.training.run", "focalcal.data.registry", "focalcal.models"])
    return context


def _train(run: PlannedRun, command: list[str]) -> None:
    """What a process does."""
    from focalcal.training import Diverged, Interrupted, train
    from focalcal.training.run_directory import RunInUse

    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C goes to the comparison alone, which asks its runs to stop: once, not twice
    sys.argv = command
    run.path.mkdir(parents=True, exist_ok=True)
    with open(run.path / "train.log", "a", encoding="utf-8", buffering=1) as log:
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
    """The run's own words, or what ended it."""
    said = [line for line in _lines(run.path / "train.log") if line.startswith("FAILED: ")]
    if code in (_FAILED, _BAD_INPUT) and said:
        return said[-1].removeprefix("FAILED: ")
    if code is not None and code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}; see {run.path / 'train.log'}"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _stop(active: dict[BaseProcess, PlannedRun]) -> None:
    """Ask every run to save its state, and wait until it has."""
    for process in active:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGTERM)
    for process in active:
        process.join()
