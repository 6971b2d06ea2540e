"""Training of many runs on a Ray cluster: one task per run, which resumes on another worker if its own dies."""

import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focalcal._version import __version__
from focalcal.base.files import make_folder
from focalcal.base.progress import note
from focalcal.metrics.streaming.ray_cluster import ray_cluster
from focalcal.recipes import Recipe
from focalcal.sweeps.display import SweepDisplay
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.processes import watch_runs
from focalcal.sweeps.single_run import Ending, train_run

_SECONDS_BETWEEN_LOOKS = 0.5
# A worker whose node has died holds its run directory until it notices that, too.
_SECONDS_FOR_THE_LAST_WORKER = 60.0
# Settings of this process that a run needs to find its data.
_PASSED_ON = ("FOCALCAL_DATA", "HF_HOME", "HF_HUB_OFFLINE")


@dataclass(frozen=True)
class _Work:
    """Everything that a worker needs to know; the marker is a file of this machine that it must see."""

    recipe: Recipe
    path: Path
    threads: int
    marker: Path
    command: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))
    environment: Mapping[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    )


class TryAgain(Exception):
    """A run that failed for a reason of its machine; on another one it may succeed."""


@dataclass(frozen=True)
class RayOptions:
    """Cluster that trains runs, and resources of each.

    Attributes:
        address: Address of the cluster; see `ray_cluster`.
        cpus_per_run: Cores, and threads of PyTorch; by default the recipe's ``hardware.threads``, else 1.
        gpus_per_run: GPUs, or a part of one; by default none, or one if the recipe asks for CUDA.
        retries: How often a run is started again after its worker or machine has failed.
    """

    address: str | None = None
    cpus_per_run: int | None = None
    gpus_per_run: float | None = None
    retries: int = 3

    def needs(self, run: PlannedRun) -> dict[str, float]:
        """Return what a run takes, in Ray's words."""
        cpus, gpus = run.resources(self.cpus_per_run, self.gpus_per_run)
        return {"num_cpus": cpus, "num_gpus": gpus}


def train_on_ray(
    runs: Sequence[PlannedRun], options: RayOptions, *, out: Path, display: SweepDisplay | None = None
) -> list[tuple[PlannedRun, str]]:
    """Train what is not finished on a cluster, and return the runs that failed, each with its reason.

    Every run is a task that resumes from the checkpoint in its folder, which all nodes must share: a worker that dies
    costs at most the steps since the last checkpoint.

    Args:
        runs: All runs of the sweep.
        options: The cluster, and what each run takes of it.
        out: The folder of the sweep.
        display: What shows the progress; None for nothing.

    Raises:
        ValueError: No cluster, nodes that cannot do it, or every run was refused for the same reason.
        SweepInterrupted: Ctrl-C or SIGTERM; every run has saved its state.
    """
    waiting = [run for run in runs if not run.is_finished]
    for run in waiting:
        _check_one_process(run)
    if not waiting:
        return []
    with ray_cluster(options.address) as ray:
        _check_resources(ray, [options.needs(run) for run in waiting])
        made = not out.exists()
        marker = out.resolve() / f".sweep-{secrets.token_hex(6)}"
        make_folder(out)
        marker.touch()
        try:
            _check_nodes(ray, marker)
            return _train(ray, runs, waiting, options, marker, display or SweepDisplay())
        finally:
            marker.unlink(missing_ok=True)
            if made and not any(out.iterdir()):
                out.rmdir()


def _check_one_process(run: PlannedRun) -> None:
    hardware = run.recipe.hardware
    if hardware.devices > 1 or hardware.nodes > 1:
        raise ValueError(
            f"{run.name} is to be trained on {hardware.devices * hardware.nodes} devices, and a task of Ray is one "
            "process: leave hardware.devices out, or train it with torchrun."
        )


def _check_resources(ray: Any, wanted: Sequence[Mapping[str, float]]) -> None:
    """Refuse what no node has, which Ray would wait for without end."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for need in wanted:
        if not any(node.get("CPU", 0) >= need["num_cpus"] and node.get("GPU", 0) >= need["num_gpus"] for node in nodes):
            largest = max((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)
            raise ValueError(
                f"A run takes {need['num_cpus']:g} CPUs and {need['num_gpus']:g} GPUs, and no node of the cluster has "
                f"them: the largest has {largest[0]:g} CPUs and {largest[1]:g} GPUs; see --cpus-per-run and "
                "--gpus-per-run."
            )
    gpus = sum(node.get("GPU", 0.0) for node in nodes)
    if gpus and not any(need["num_gpus"] for need in wanted):
        note(f"the cluster has {gpus:g} GPUs, and no run asks for one: the runs train on CPUs (see --gpus-per-run).")


def _check_nodes(ray: Any, marker: Path) -> None:
    """Find nodes without focalcal, with another version of it, or without the folder, before anything is trained."""

    def look(marker: str) -> str | None:  # a nested function travels by itself: the node may not have this module
        import os

        try:
            from focalcal._version import __version__ as version
        except ImportError:
            return "has no focalcal; install it there"
        if version != __version__:
            return f"has focalcal {version}, and this machine {__version__}; install the same"
        return (
            None if os.path.isfile(marker) else f"cannot see the folder {os.path.dirname(marker)}; put it where all can"
        )

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = [
        ray.remote(look)
        .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
        .remote(str(marker))
        for node in nodes
    ]
    for node, problem in zip(nodes, ray.get(asked), strict=True):
        if problem is not None:
            raise ValueError(f"The node {node['NodeManagerAddress']} {problem}.")


def _train(
    ray: Any,
    runs: Sequence[PlannedRun],
    waiting: Sequence[PlannedRun],
    options: RayOptions,
    marker: Path,
    display: SweepDisplay,
) -> list[tuple[PlannedRun, str]]:
    task = ray.remote(_train_here)
    retrying = {"max_retries": options.retries, "retry_exceptions": [TryAgain]}
    active: dict[Any, PlannedRun] = {}
    with watch_runs(runs, display, lambda: _stop(ray, list(active))) as failures:
        for run in waiting:
            needs = options.needs(run)
            work = _Work(_on_what_it_gets(run.recipe, needs), run.path.resolve(), int(needs["num_cpus"]), marker)
            active[task.options(name=f"train {run.name}", **needs, **retrying).remote(work)] = run
        while active:
            done, _ = ray.wait(list(active), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            for reference in done:
                failures.record(active.pop(reference), *_result(ray, reference, options.retries))
            display.update(runs)
    return failures.failed


def _on_what_it_gets(recipe: Recipe, needs: Mapping[str, float]) -> Recipe:
    """Keep a run that asks for no GPU off the GPUs of its node."""
    if needs["num_gpus"] or recipe.hardware.accelerator != "auto":
        return recipe
    return recipe.with_changes(hardware=recipe.hardware.model_copy(update={"accelerator": "cpu"}).model_dump())


def _train_here(work: _Work) -> tuple[int, str]:
    """Train one run, on a worker."""
    import torch

    if not work.marker.is_file():
        where = f"the node {socket.gethostname()} cannot see the folder {work.marker.parent}"
        raise TryAgain(f"{where}; put it where all can")
    os.environ.update(work.environment)
    torch.set_num_threads(work.threads)
    until = time.monotonic() + _SECONDS_FOR_THE_LAST_WORKER
    ending, reason = train_run(work.recipe, work.path, list(work.command))
    while ending == Ending.IN_USE and time.monotonic() < until:
        time.sleep(1.0)
        ending, reason = train_run(work.recipe, work.path, list(work.command))
    if ending == Ending.MACHINE_FAILED:
        raise TryAgain(f"{reason.rstrip('.')} (on {socket.gethostname()})")
    return int(ending), reason


def _result(ray: Any, reference: Any, retries: int) -> tuple[Ending, str]:
    """Return how a task ended; Ray's own errors in one sentence."""
    from ray.exceptions import RayError, RayTaskError, TaskCancelledError

    times = f"tried {retries + 1} times" if retries else "tried once"
    try:
        ending, reason = ray.get(reference)
        return Ending(ending), reason
    except TaskCancelledError:
        return Ending.INTERRUPTED, "it was cancelled"
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TryAgain):
            return Ending.FAILED, f"{cause}; {times}"
        return Ending.FAILED, f"it failed with {type(cause).__name__}: {cause}"
    except RayError as error:
        first = " ".join(str(error).split()).split(". ")[0]
        return Ending.FAILED, f"its worker died, {times} ({type(error).__name__}: {first})"


def _stop(ray: Any, active: Sequence[Any]) -> None:
    """Ask every run to save its state, and wait until it has."""
    for reference in active:
        ray.cancel(reference)
    if active:
        ray.wait(list(active), num_returns=len(active))
