"""Options that say where runs are trained: on this machine, on a Ray cluster, or by SLURM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from focalcal.base.progress import note
from focalcal.cli.output import command_line, results

if TYPE_CHECKING:
    from focalcal.sweeps import Plan

_PANEL = "Where runs are trained"
Engine = Literal["local", "ray", "slurm"]


@dataclass(frozen=True)
class EngineOptions:
    """The options, as they were given: a command takes them by `pack_fields`."""

    on: Annotated[
        Engine, typer.Option(help="This machine, a Ray cluster, or a SLURM job array.", rich_help_panel=_PANEL)
    ] = "local"
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs at a time; by default one per core, on SLURM as it likes.", rich_help_panel=_PANEL
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT; by default this machine alone.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    cpus_per_run: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cores of each run; by default hardware.threads of the recipe, else 1.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    gpus_per_run: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="GPUs of each run, or a part of one; by default 1 if the recipe asks for CUDA, else 0.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How often Ray starts a run again after its worker has died; by default three times.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    sbatch: Annotated[
        list[str] | None,
        typer.Option(
            "--sbatch",
            metavar="OPTION=VALUE",
            help="An option of sbatch, such as time=24:00:00 or partition=gpu; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    submit: Annotated[
        bool, typer.Option("--submit", help="Submit the job array to SLURM with sbatch.", rich_help_panel=_PANEL)
    ] = False

    def check(self) -> None:
        """Refuse options of an engine that is not used: they would do nothing."""
        given = {
            "--address": (self.address is not None, ("ray",)),
            "--retries": (self.retries is not None, ("ray",)),
            "--cpus-per-run": (self.cpus_per_run is not None, ("ray", "slurm")),
            "--gpus-per-run": (self.gpus_per_run is not None, ("ray", "slurm")),
            "--sbatch": (bool(self.sbatch), ("slurm",)),
            "--submit": (self.submit, ("slurm",)),
            "--jobs": (self.jobs is not None, ("local", "slurm")),
        }
        for name, (is_given, engines) in given.items():
            if is_given and self.on not in engines:
                raise ValueError(f"{name} belongs to --on {' or '.join(engines)}, and this is --on {self.on}.")


def write_slurm(plans: Sequence[Plan], out: Path, options: EngineOptions) -> None:
    """Write the job array of a sweep, submit it if that was asked for, and say what follows."""
    from focalcal.sweeps import check_plans, write_slurm_job

    check_plans(plans, [run for plan in plans for run in plan.runs()], out, here=False)
    job = write_slurm_job(
        plans,
        out,
        cpus_per_run=options.cpus_per_run,
        gpus_per_run=options.gpus_per_run,
        jobs=options.jobs,
        options=options.sbatch or (),
    )
    said = job.submit() if options.submit else f"Submit it with: sbatch {job.script}"
    results().print(f"{job.script}: {job.waiting} runs, one task each. {said}", soft_wrap=True)
    note(f"the tables of finished runs, at any time: {command_line().replace(' --submit', '')} --measure-only")
