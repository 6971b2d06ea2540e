"""``focalcal sweep``: recipes with several losses and seeds, one table per recipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.base.progress import note
from focalcal.cli.engines import EngineOptions, write_slurm
from focalcal.cli.options import Bootstrap, ByDate, Json, Quiet, pack_fields, recipe_changes
from focalcal.cli.output import print_json, results
from focalcal.cli.report import write_report_of_runs

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.sweeps import Plan, SweepResult, SweepResults

_MOST_IN_A_REPORT = 12


@pack_fields("engine", EngineOptions)
def sweep(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE... [KEY=VALUE]...",
            help="Packaged recipes or .yaml files of your own, and changes to them, such as epochs=10.",
        ),
    ],
    by_date: ByDate = False,
    losses: Annotated[
        str | None, typer.Option(help="The losses, separated by commas; by default the paper's six.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per loss: 0, 1, …")] = 1,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="Values of a setting, each trained; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the sweep; all nodes of a cluster share it.")] = None,
    bootstrap: Bootstrap = 1000,
    measure_only: Annotated[
        bool, typer.Option("--measure-only", help="Train nothing: the table of the runs that are finished.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write report.html, of the first seed of each loss.")] = True,
    quiet: Quiet = False,
    json: Json = False,
    *,
    engine: EngineOptions,
) -> None:
    """Train recipes with several losses, and print tables like the paper's.

    Each loss is trained in a process of its own, in DIR/LOSS/seed-N. The table has error, ECE, AdaECE, classwise-ECE
    and NLL of the test set before → after temperature scaling, with T fitted by validation ECE as in the paper
    (table_nll.csv has T by validation NLL), confidence intervals or the spread over seeds, the best in bold, and a mark
    at those that are statistically indistinguishable from it; a verdict in words follows. DIR gets table.csv,
    table_nll.csv, table.json, table.md and report.html. Several recipes, and the points of a --grid, have a folder
    each in DIR, with a table of their own.

    --on ray trains on a Ray cluster, one task per run: a run whose worker dies resumes on another one. --on slurm
    writes DIR/sweep.sbatch, a job array with one task per run; --measure-only makes the tables afterwards.

    The same command again resumes what was interrupted; with --measure-only it shows what is finished so far, also
    while another process trains. The exit code is 1 if a run failed.

    Examples:
      focalcal sweep digits/mlp --out runs/digits
      focalcal sweep cifar10/resnet8 --losses cross-entropy,fl-3,flsd-53 --seeds 3 --out runs/resnet8
      focalcal sweep fashion_mnist/cnn epochs=5 --jobs 1 --out runs/fashion
      focalcal sweep cifar10/resnet8 --seeds 3 --out runs/resnet8 --measure-only
      focalcal sweep digits/mlp --grid optimizer.lr=0.05,0.1 --out runs/rates
      focalcal sweep cifar10/resnet50 cifar100/resnet50 --on ray --address auto --gpus-per-run 1 --out /shared/paper
      focalcal sweep cifar10/resnet50 --on slurm --gpus-per-run 1 --sbatch time=24:00:00 --submit --out /shared/paper
    """
    if out is None or out == Path():
        raise ValueError("--out is missing: name a folder for the sweep, such as runs/losses.")
    names, changed = split_changes(recipes, by_date=by_date)
    wanted = _losses(losses)
    engine.check()
    from focalcal.sweeps import plan_grid

    plans = plan_grid(names, tuple(changed), _grid(grid), tuple(wanted), tuple(range(seeds)), out)
    if engine.on == "slurm" and not measure_only:
        write_slurm(plans, out, engine)
        return
    found = train_plans(plans, out, engine, bootstrap, measure_only, quiet)
    _print(found, json)
    if report:
        for name, result in found.results.items():
            sentence = report_of_sweep(result, found.folders[name], bootstrap)
            if not quiet:
                note(sentence)
    if found.failed:
        raise typer.Exit(1)


def split_changes(given: Sequence[str], *, by_date: bool) -> tuple[list[str], list[str]]:
    """Tell recipes from KEY=VALUE changes to them.

    Examples:
        >>> split_changes(["digits/mlp", "epochs=3"], by_date=False)
        (['digits/mlp'], ['epochs=3'])
    """
    recipes = [one for one in given if "=" not in one or Path(one).is_file()]
    return recipes, recipe_changes([one for one in given if one not in recipes], by_date=by_date)


def _losses(text: str | None) -> list[str]:
    from focalcal.sweeps import PAPER_LOSSES

    return list(PAPER_LOSSES) if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _grid(texts: Sequence[str] | None) -> dict[str, list[str]]:
    from focalcal.sweeps import parse_grid

    values: dict[str, list[str]] = {}
    for key, found in map(parse_grid, texts or ()):
        if key in values:
            raise ValueError(f"--grid {key} is given twice; give all its values at once.")
        values[key] = found
    return values


def run_sweep(recipe: str, out: Path, quiet: bool) -> SweepResult:
    """Train one recipe with the paper's losses on this machine, and measure it."""
    from focalcal.sweeps import plan_grid

    plans = plan_grid([recipe], (), {}, tuple(_losses(None)), (0,), out)
    (result,) = train_plans(plans, out, EngineOptions(), quiet=quiet).results.values()
    return result


def train_plans(
    plans: Sequence[Plan],
    out: Path,
    options: EngineOptions,
    bootstrap: int = 1000,
    measure_only: bool = False,
    quiet: bool = False,
) -> SweepResults:
    """Train and measure plans, and say what failed; exit where nothing is left to be shown."""
    from focalcal.sweeps import RayOptions, SweepFailed, SweepInterrupted, run_plans

    try:
        found = run_plans(
            plans,
            out,
            on="ray" if options.on == "ray" else "local",
            jobs=options.jobs,
            cluster=RayOptions(
                options.address,
                options.cpus_per_run,
                options.gpus_per_run,
                RayOptions.retries if options.retries is None else options.retries,
            ),
            bootstrap=bootstrap,
            measure_only=measure_only,
            progress=not quiet,
        )
    except SweepFailed as error:
        note(str(error))
        raise typer.Exit(1) from error
    except SweepInterrupted as error:
        note(str(error))
        sys.exit(130)
    for run, reason in found.failed:
        note(f"{run.name} failed: {reason}")
    if measure_only and found.finished < found.planned:
        note(f"{found.finished} of {found.planned} runs are finished; the others are left out.")
    return found


def _print(found: SweepResults, json: bool) -> None:
    """Print one table after another; JSON of a sweep with one table is that table's."""
    if not json:
        for result in found.results.values():
            print_sweep(result)
    elif len(found.folders) == 1:
        (result,) = found.results.values()
        print_json(result.to_dict())
    else:
        failed = [{"run": run.name, "reason": reason} for run, reason in found.failed]
        print_json({"sweeps": {name: one.to_dict() for name, one in found.results.items()}, "failed": failed})


def report_of_sweep(result: SweepResult, out: Path, bootstrap: int) -> str:
    """Write the report of a sweep: the first seed of each loss, of as many losses as one page holds."""
    shown = dict(list(result.first_runs.items())[:_MOST_IN_A_REPORT])
    return write_report_of_runs(shown, out / "report.html", result.title, bootstrap)


def print_sweep(result: SweepResult) -> None:
    """Print the table and the verdict."""
    console = results()
    console.print(result.title)
    console.print(_table(result, has_bold=console.is_terminal))
    console.print(result.caption, soft_wrap=True)
    for sentence in result.verdict:
        console.print(f"• {sentence}", soft_wrap=True)


def _table(result: SweepResult, has_bold: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    from focalcal.sweeps.loss_table import table_headings

    table = Table("loss", show_lines=True)
    for heading in table_headings(result.lines):
        table.add_column(heading, justify="right")
    for loss, line in result.lines.items():
        texts = []
        for cell in line.values():
            text = Text()
            for number, (part, mark) in enumerate(cell.parts):
                text.append(" → " if number else "")
                shown = f"≈{part}" if mark == "tie" else f"*{part}*" if mark == "best" and not has_bold else part
                text.append(shown, style="bold green" if mark == "best" else "")
            texts.append(text.append(f"\n{cell.detail}" if cell.detail else "", style="dim"))
        table.add_row(loss, *texts)
    return table
