"""``focalcal train``: from a recipe to a run directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.base.progress import note
from focalcal.cli.options import ByDate, Changes, Quiet, recipe_changes
from focalcal.cli.output import print_json, results
from focalcal.cli.report import write_report_of_runs

if TYPE_CHECKING:
    from focalcal.recipes import Recipe
    from focalcal.training import Run


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="A packaged recipe or a .yaml file; with --resume it may be left out."),
    ] = None,
    changes: Changes = None,
    by_date: ByDate = False,
    out: Annotated[Path | None, typer.Option(help="The run directory; it must not hold a run yet.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")] = False,
    task: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A tasks.jsonl of focalcal sweep --on slurm, instead of a recipe and --out."),
    ] = None,
    index: Annotated[int | None, typer.Option(help="Which task of it, counted from 0; it resumes if it can.")] = None,
    report: Annotated[bool, typer.Option(help="Write report.html into the run directory.")] = True,
    quiet: Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print the evaluation as JSON for programs.")] = False,
) -> None:
    """Train a network by a recipe, and write a run directory.

    The directory holds config.yaml, history.jsonl (one line per epoch), checkpoints, predictions for every split,
    evaluation.json with the metrics before and after temperature scaling, and report.html. --resume continues a run
    that was interrupted, in whatever way, as if nothing had happened.

    The exit code is 1 if the loss became infinite or NaN, 2 for bad input, 130 after Ctrl-C and 143 after SIGTERM (the
    state is saved).

    Examples:
      focalcal train digits/mlp loss=flsd-53 --out runs/a
      focalcal train cifar10/resnet8 loss=fl-3 optimizer.lr=0.05 seed=1 --out runs/b
      focalcal train --resume --out runs/b
      focalcal train cifar10/resnet8 data=images data.path=photos data.size=64 --out runs/photos
      focalcal train digits/mlp data=mymodule:load model=mymodule:network --out runs/own
      focalcal train cifar10/resnet50 hardware.devices=2 hardware.precision=bf16-mixed --out runs/c
      torchrun --nproc-per-node 2 -m focalcal train cifar10/resnet50 --out runs/d
      focalcal train --task runs/sweep/tasks.jsonl --index 3
    """
    if task is not None or index is not None:
        if task is None or index is None or recipe is not None or out is not None:
            raise ValueError("--task and --index go together, and say the recipe, its changes and the folder already.")
        chosen, out = _task(task, index)
        resume = True
    else:
        if out is None or out == Path():
            raise ValueError("--out is missing: name a folder for the run, such as runs/a.")
        name, changes = _source(recipe, recipe_changes(changes, by_date=by_date), out, resume)
        from focalcal.recipes import load_recipe

        chosen = load_recipe(name, changes)
    from focalcal.training import Diverged, Interrupted
    from focalcal.training import train as run_recipe

    try:
        run = run_recipe(chosen, out=out, resume=resume, progress=not quiet)
    except Diverged as error:
        _say_once(error)
        raise typer.Exit(1) from error
    except Interrupted as error:
        _say_once(error)
        sys.exit(128 + error.signal)
    if _is_first_process():
        print_json(run.evaluation) if json else results().print(_summary(run), soft_wrap=True)
        if report:
            sentence = write_report_of_runs({chosen.loss: run.path}, run.files.report, chosen.name, bootstrap=1000)
            if not quiet:
                note(sentence)


def _source(recipe: str | None, changes: list[str], out: Path, resume: bool) -> tuple[str, list[str]]:
    """Return the recipe and its changes; those of the run that is resumed where no recipe is named."""
    if recipe is not None and not (resume and "=" in recipe):
        return recipe, changes
    if recipe is not None:  # the first change, where no recipe is named
        changes = [recipe, *changes]
    if not resume:
        raise ValueError("A recipe is missing: `focalcal recipes` lists them.")
    from focalcal.training import RunDirectory

    config = RunDirectory(out).config
    if not config.is_file():
        raise ValueError(f"{out} holds no run to resume: it has no {config.name}.")
    return str(config), changes


def _task(file: Path, index: int) -> tuple[Recipe, Path]:
    """Return recipe and folder of one run of a sweep."""
    from focalcal.sweeps import read_task

    found = read_task(file, index)
    return found.recipe, found.path


def _say_once(error: Exception) -> None:
    """Print once what all processes know."""
    if _is_first_process():
        note(str(error))


def _is_first_process() -> bool:
    """Return whether this process is the one that prints, where there are several."""
    import torch.distributed as dist

    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def _summary(run: Run) -> str:
    """Write the results in a sentence or two; T is the paper's, as in the table and report of a sweep."""
    result = run.evaluation
    split = "test" if "test" in result["splits"] else "val"
    before, after = result["splits"][split]["before"], result["splits"][split]["after_ece"]
    figures = f"error {_percent(before['error'])}, NLL {_decimals(before['nll'])}, ECE {_percent(before['ece'])}"
    temperature = f"T = {_decimals(result['temperature']['ece'], 2)}, by validation ECE"
    scaled = f"after scaling with {temperature}: NLL {_decimals(after['nll'])}, ECE {_percent(after['ece'])}"
    following = f"focalcal evaluate {run.path} · focalcal calibrate {run.path}"
    if run.files.vocabulary.is_file():
        following = f"focalcal translate {run.path} --split {split} --out translations.txt"
    return f"{run.path}, {split} set, epoch {result['epoch'] + 1}: {figures}; {scaled}.\nNext: {following}"


def _percent(value: float | None) -> str:
    return "infinite" if value is None else f"{100 * value:.2f}%"


def _decimals(value: float | None, digits: int = 3) -> str:
    return "infinite" if value is None else f"{value:.{digits}f}"
