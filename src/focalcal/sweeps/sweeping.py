"""Sweeps: recipes with several losses and seeds, trained side by side, measured and compared."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from focalcal.base.files import check_links
from focalcal.base.progress import spinner
from focalcal.losses import build_loss
from focalcal.sweeps.display import sweep_display
from focalcal.sweeps.plan import PAPER_LOSSES, Plan, PlannedRun, plan_grid
from focalcal.sweeps.processes import train_all
from focalcal.sweeps.ray_runs import RayOptions, train_on_ray
from focalcal.sweeps.result import SweepResult, measure_plan, write_result
from focalcal.training import RunDirectory
from focalcal.training.preconditions import check_free, check_hardware

Engine = Literal["local", "ray"]


class SweepFailed(Exception):
    """Every run of a sweep failed; the message has the reason of each."""


@dataclass(frozen=True)
class SweepResults:
    """Results of a sweep over recipes and a grid.

    Attributes:
        results: By the name of recipe and grid point, such as ``digits/mlp, optimizer.lr=0.05`` (empty where there is
            only one); those without a finished run are left out.
        folders: Where each is, with its tables.
        failed: Runs that failed, each with its reason.
        finished, planned: Numbers of runs.
    """

    results: Mapping[str, SweepResult]
    folders: Mapping[str, Path]
    failed: tuple[tuple[PlannedRun, str], ...]
    finished: int
    planned: int


def sweep(
    recipe: str | os.PathLike[str],
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    out: str | os.PathLike[str],
    losses: Sequence[str] = PAPER_LOSSES,
    seeds: int | Sequence[int] = 1,
    jobs: int | None = None,
    on: Engine = "local",
    address: str | None = None,
    cpus_per_run: int | None = None,
    gpus_per_run: float | None = None,
    retries: int = 3,
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
        overrides: Changes to the recipe, ``{"epochs": 10}`` or ``["epochs=10"]``, for every run.
        out: The folder of the sweep; on a cluster, one that all nodes share.
        losses: Names for `build_loss`; by default the six that the paper compares.
        seeds: The number of seeds, counted from 0, or the seeds themselves.
        jobs: Runs at a time on this machine; by default as many as there are cores.
        on: ``local`` for processes of this machine, ``ray`` for a Ray cluster (``focalcal[ray]``).
        address: Address of the Ray cluster: ``auto``, ``HOST:PORT``; None for one of this machine alone.
        cpus_per_run: Cores of each run on Ray; by default the recipe's ``hardware.threads``, else 1.
        gpus_per_run: GPUs of each run on Ray, or a part of one; by default one if the recipe asks for CUDA.
        retries: How often Ray starts a run again after its worker or machine has failed; it resumes.
        bootstrap: Number of resamples for the confidence intervals; 0 for none.
        level: Level of the intervals and of the tests.
        measure_only: Train nothing, and measure the runs that are finished.
        progress: Whether to show progress on stderr.

    Returns:
        The table, a verdict in sentences, every figure, and the runs that failed.

    Raises:
        ValueError: Something is wrong with the recipe, the losses, the folder or the cluster; nothing was trained.
        SweepFailed: Every run failed.
        SweepInterrupted: The sweep was asked to stop; the same call resumes it.
    """
    found = sweep_many(
        [recipe],
        overrides,
        out=out,
        losses=losses,
        seeds=seeds,
        jobs=jobs,
        on=on,
        address=address,
        cpus_per_run=cpus_per_run,
        gpus_per_run=gpus_per_run,
        retries=retries,
        bootstrap=bootstrap,
        level=level,
        measure_only=measure_only,
        progress=progress,
    )
    (result,) = found.results.values()
    return result


def sweep_many(
    recipes: Sequence[str | os.PathLike[str]],
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    out: str | os.PathLike[str],
    grid: Mapping[str, Sequence[Any]] | None = None,
    losses: Sequence[str] = PAPER_LOSSES,
    seeds: int | Sequence[int] = 1,
    jobs: int | None = None,
    on: Engine = "local",
    address: str | None = None,
    cpus_per_run: int | None = None,
    gpus_per_run: float | None = None,
    retries: int = 3,
    bootstrap: int = 1000,
    level: float = 0.90,
    measure_only: bool = False,
    progress: bool = True,
) -> SweepResults:
    """Train several recipes, each at every point of a grid, with several losses and seeds, as one queue of runs.

    Recipes and grid points are compared by themselves: each has a folder in ``OUT`` with its runs and its tables.
    ``grid`` has values of settings, ``{"optimizer.lr": [0.05, 0.1]}``, of which every combination is trained. The other
    arguments, and what is raised, are those of `sweep`.
    """
    plans = plan_grid(
        [os.fspath(recipe) for recipe in _as_list(recipes, "recipes")],
        _as_texts(overrides),
        {key: [str(value) for value in _as_list(values, f"grid[{key!r}]")] for key, values in (grid or {}).items()},
        tuple(_as_list(losses, "losses")),
        tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        Path(out),
    )
    return run_plans(
        plans,
        Path(out),
        jobs=jobs,
        on=on,
        cluster=RayOptions(address, cpus_per_run, gpus_per_run, retries),
        bootstrap=bootstrap,
        level=level,
        measure_only=measure_only,
        progress=progress,
    )


def run_plans(
    plans: Sequence[Plan],
    out: Path,
    *,
    jobs: int | None = None,
    on: Engine = "local",
    cluster: RayOptions | None = None,
    bootstrap: int = 1000,
    level: float = 0.90,
    measure_only: bool = False,
    progress: bool = True,
) -> SweepResults:
    """Train plans as one queue of runs, then measure each; the other arguments are those of `sweep`."""
    runs = [run for plan in plans for run in plan.runs()]
    check_plans(plans, runs, out, here=on == "local")
    failed: list[tuple[PlannedRun, str]] = []
    if not measure_only:
        failed = _train(runs, out, on, jobs, cluster or RayOptions(), progress=progress)
        if failed and not any(run.is_finished for run in runs):
            raise SweepFailed(" ".join(f"{run.name} failed: {reason.rstrip('.')}." for run, reason in failed))
    with spinner("measuring") if progress else nullcontext():
        results = _measure_all(plans, failed, bootstrap, level)
    return SweepResults(
        results,
        {plan.name: plan.out for plan in plans},
        tuple(failed),
        sum(run.is_finished for run in runs),
        len(runs),
    )


def _train(
    runs: Sequence[PlannedRun], out: Path, on: Engine, jobs: int | None, options: RayOptions, *, progress: bool
) -> list[tuple[PlannedRun, str]]:
    display = sweep_display() if progress else None
    try:
        if on == "ray":
            if jobs is not None:
                raise ValueError("jobs is for one machine: on Ray the resources of a run say how many fit.")
            return train_on_ray(runs, options, out=out, display=display)
        return train_all(runs, jobs=jobs or _jobs(runs[0].recipe.hardware.threads), display=display)
    except ValueError:
        for run in runs:  # folders of recipes and grid points in which nothing was trained
            for folder in run.path.parents:
                if out not in folder.parents:
                    break
                with suppress(OSError):
                    folder.rmdir()
        with suppress(OSError):
            out.rmdir()
        raise


def _measure_all(
    plans: Sequence[Plan], failed: Sequence[tuple[PlannedRun, str]], bootstrap: int, level: float
) -> dict[str, SweepResult]:
    """Measure every plan that has a finished run; complain where none has."""
    results: dict[str, SweepResult] = {}
    for plan in plans:
        own = [(run, reason) for run, reason in failed if run.group == plan.name]
        if len(plans) > 1 and not any(run.is_finished for run in plan.runs()):
            continue
        results[plan.name] = measure_plan(plan, own, bootstrap=bootstrap, level=level)
        write_result(results[plan.name], plan.out)
    if not results:
        raise ValueError(f"No run of {', '.join(str(plan.out) for plan in plans)} is finished.")
    return results


def _as_texts(overrides: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    if isinstance(overrides, str):
        raise TypeError(f"overrides must be a mapping or a list of strings; pass [{overrides!r}].")
    if isinstance(overrides, Mapping):
        return tuple(f"{key}={value}" for key, value in overrides.items())
    return tuple(overrides)


def _as_list(given: Sequence[Any], what: str) -> list[Any]:
    if isinstance(given, str):
        raise TypeError(f"{what} must be a list; pass [{given!r}].")
    return list(given)


def check_plans(plans: Sequence[Plan], runs: Sequence[PlannedRun], out: Path, *, here: bool) -> None:
    """Find out what cannot work before anything is trained; devices only if runs are trained ``here``."""
    if RunDirectory(out).config.exists():
        raise ValueError(f"{out} is the folder of a single run; choose another for the sweep.")
    for run in runs:
        build_loss(run.loss)
        if here:
            check_hardware(run.recipe.hardware)
        for what in ("data", "model"):
            if getattr(run.recipe, what).name == "own":
                raise ValueError(f"{what}=own is for focalcal.train in Python; a sweep needs one that has a name.")
        for folder in (out, *{plan.out for plan in plans}, run.path.parent, run.path):
            check_free(RunDirectory(folder), run.recipe, resume=True)
        check_links(run.path)
    for folder in (out, *{plan.out for plan in plans}):
        check_links(folder, below=False)


def _jobs(threads: int | None) -> int:
    """Return how many runs fit into the cores; one where a run takes all of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if threads is None else max(1, cores // threads)
