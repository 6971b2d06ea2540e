"""``focalcal train``: from a recipe to a run directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.cli.output import print_json, results, say
from focalcal.cli.recipe_flags import ByDate, with_flags
from focalcal.cli.report import write_report_of_runs

if TYPE_CHECKING:
    from focalcal.training import Run


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="A packaged recipe or a .yaml file; with --resume it may be left out."),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes, such as loss=flsd-53 seed=1.")
    ] = None,
    by_date: ByDate = False,
    out: Annotated[Path | None, typer.Option(help="The run directory; it must not hold a run yet.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    report: Annotated[bool, typer.Option(help="Write report.html into the run directory.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the evaluation as JSON for programs.")] = False,
) -> None:
    """Train a network by a recipe, and write a run directory.

    The directory holds config.yaml, history.jsonl (a line an epoch), checkpoints, predictions for every split,
    evaluation.json with the metrics before and after temperature scaling, and report.html. A run that was interrupted,
    however, goes on with --resume as if nothing had happened.

    The exit code is 1 if the loss became infinite or NaN, 2 for bad input, 130 after Ctrl-C and 143 after SIGTERM (the
    state is saved).

    Examples:
      focalcal train digits/mlp loss=flsd-53 --out runs/a
      focalcal train cifar10/resnet8 loss=fl-3 optimizer.lr=0.05 seed=1 --out runs/b
      focalcal train --resume --out runs/b
      focalcal train cifar10/resnet50 hardware.devices=2 hardware.precision=bf16-mixed --out runs/c
      torchrun --nproc-per-node 2 -m focalcal train cifar10/resnet50 --out runs/d
    """
    if out is None or out == Path():
        raise ValueError("--out is missing: name a folder for the run, such as runs/a.")
    name, changes = _source(recipe, with_flags(changes, by_date=by_date), out, resume)
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
            sentence = write_report_of_runs(
                {chosen.loss: run.path}, run.path / "report.html", chosen.name, bootstrap=1000
            )
            if not quiet:
                say(sentence)


def _source(recipe: str | None, changes: list[str], out: Path, resume: bool) -> tuple[str, list[str]]:
    """The recipe and its changes; those of the run that is continued where no recipe is named."""
    if recipe is not None and not (resume and "=" in recipe):
        return recipe, changes
    if recipe is not None:  # the first change, where no recipe is named
        changes = [recipe, *changes]
    if not resume:
        raise ValueError("A recipe is missing: `focalcal recipes` lists them.")
    if not (out / "config.yaml").is_file():
        raise ValueError(f"{out} holds no run to go on with: it has no config.yaml.")
    return str(out / "config.yaml"), changes


def _say_once(error: Exception) -> None:
    """What all processes know is said by one."""
    if _is_first_process():
        say(str(error))


def _is_first_process() -> bool:
    """Whether this process is the one that speaks, where there are several."""
    import torch.distributed as dist

    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def _summary(run: Run) -> str:
    """What came out, in a sentence or two."""
    result = run.evaluation
    split = "test" if "test" in result["splits"] else "val"
    before, after = result["splits"][split]["before"], result["splits"][split]["after_nll"]
    figures = f"error {_percent(before['error'])}, NLL {before['nll']:.3f}, ECE {_percent(before['ece'])}"
    scaled = f"T = {result['temperature']['nll']:.2f} makes it NLL {after['nll']:.3f}, ECE {_percent(after['ece'])}"
    return (
        f"{run.path}, {split} set, epoch {result['epoch'] + 1}: {figures}; {scaled}.\n"
        f"Next: focalcal evaluate {run.path} · focalcal calibrate {run.path}"
    )


def _percent(value: float) -> str:
    return f"{100 * value:.2f}%"
