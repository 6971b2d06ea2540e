"""Sweeps: one recipe with several losses and seeds, trained side by side, measured and compared."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from focalcal.base.progress import spinner
from focalcal.losses import build_loss
from focalcal.sweeps.plan import PAPER_LOSSES, Plan, PlannedRun
from focalcal.sweeps.processes import sweep_display, train_all
from focalcal.sweeps.result import SweepResult, measure_plan, write_result
from focalcal.training import RunDirectory
from focalcal.training.preconditions import check_free, check_hardware


class SweepFailed(Exception):
    """Every run of a sweep failed; the message has the reason of each."""


def sweep(
    recipe: str | os.PathLike[str],
    changes: Mapping[str, Any] | Sequence[str] = (),
    *,
    out: str | os.PathLike[str],
    losses: Sequence[str] = PAPER_LOSSES,
    seeds: int | Sequence[int] = 1,
    jobs: int | None = None,
    bootstrap: int = 1000,
    level: float = 0.90,
    measure_only: bool = False,
    progress: bool = True,
) -> SweepResult:
    """Train a recipe with several losses and seeds, and compare the results.

    Each run is trained in a process of its own, in ``OUT/LOSS/seed-N``; finished runs are not trained again, and runs
    that were interrupted resume. ``OUT`` gets table.csv (T fitted by validation ECE, as in the paper), table_nll.csv
    (T by validation NLL), table.json and table.md.

    Args:
        recipe: The name of a packaged recipe, or a .yaml file.
        changes: ``{"epochs": 10}`` or ``["epochs=10"]``, for every run.
        out: The folder of the sweep.
        losses: Names for `build_loss`; by default the six that the paper compares.
        seeds: The number of seeds, counted from 0, or the seeds themselves.
        jobs: Runs at a time; by default as many as there are cores.
        bootstrap: Number of resamples for the confidence intervals; 0 for none.
        level: Level of the intervals and of the tests.
        measure_only: Train nothing, and measure the runs that are finished.
        progress: Whether to show progress on stderr.

    Returns:
        The table, a verdict in sentences, every figure, and the runs that failed.

    Raises:
        ValueError: Something is wrong with the recipe, the losses or the folder; nothing was trained.
        SweepFailed: Every run failed.
        SweepInterrupted: The sweep was asked to stop; the same call resumes it.
    """
    plan = Plan(
        os.fspath(recipe),
        _as_texts(changes),
        _as_names(losses),
        tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        Path(out),
    )
    runs = list(plan.runs())
    _check(plan, runs)
    failed: list[tuple[PlannedRun, str]] = []
    if not measure_only:
        display = sweep_display() if progress else None
        failed = train_all(runs, jobs=jobs or _jobs(runs[0].recipe.hardware.threads), display=display)
        if failed and not any(run.is_finished for run in runs):
            raise SweepFailed(" ".join(f"{run.name} failed: {reason.rstrip('.')}." for run, reason in failed))
    with spinner("measuring") if progress else nullcontext():
        result = measure_plan(plan, failed, bootstrap=bootstrap, level=level)
    write_result(result, plan.out)
    return result


def _as_texts(changes: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    if isinstance(changes, str):
        raise TypeError(f"changes must be a mapping or a list of texts; pass [{changes!r}].")
    return tuple(f"{key}={value}" for key, value in changes.items()) if isinstance(changes, Mapping) else tuple(changes)


def _as_names(losses: Sequence[str]) -> tuple[str, ...]:
    if isinstance(losses, str):
        raise TypeError(f"losses must be a list of names; pass [{losses!r}].")
    return tuple(losses)


def _check(plan: Plan, runs: Sequence[PlannedRun]) -> None:
    """Find out what cannot work before anything is trained."""
    if RunDirectory(plan.out).config.exists():
        raise ValueError(f"{plan.out} is the folder of a single run; choose another for the sweep.")
    for run in runs:
        build_loss(run.loss)
        check_hardware(run.recipe.hardware)
        for what in ("data", "model"):
            if getattr(run.recipe, what).name == "own":
                raise ValueError(f"{what}=own is for focalcal.train in Python; a sweep needs one that has a name.")
        for folder in (plan.out, run.path.parent, run.path):
            check_free(RunDirectory(folder), run.recipe, resume=True)


def _jobs(threads: int | None) -> int:
    """Return how many runs fit into the cores; one where a run takes all of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if threads is None else max(1, cores // threads)
