"""``focalcal sweep``: one recipe with several losses and seeds, in one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.base.progress import note
from focalcal.cli.options import Bootstrap, ByDate, Changes, Json, Quiet, recipe_changes
from focalcal.cli.output import print_json, results
from focalcal.cli.report import write_report_of_runs

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.sweeps import SweepResult

_MOST_IN_A_REPORT = 12


def sweep(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A packaged recipe, or a .yaml file of your own.")],
    changes: Changes = None,
    by_date: ByDate = False,
    losses: Annotated[
        str | None, typer.Option(help="The losses, separated by commas; by default the paper's six.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per loss: 0, 1, …")] = 1,
    out: Annotated[Path | None, typer.Option(help="The folder of the sweep.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; by default one per core.")] = None,
    bootstrap: Bootstrap = 1000,
    measure_only: Annotated[
        bool, typer.Option("--measure-only", help="Train nothing: the table of the runs that are finished.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write DIR/report.html, of the first seed of each loss.")] = True,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a recipe with several losses, and print one table like the paper's.

    Each loss is trained in a process of its own, in DIR/LOSS/seed-N. The table has error, ECE, AdaECE, classwise-ECE
    and NLL of the test set before → after temperature scaling, with T fitted by validation ECE as in the paper
    (table_nll.csv has T by validation NLL), confidence intervals or the spread over seeds, the best in bold, and a mark
    at those that are statistically indistinguishable from it; a verdict in words follows. DIR gets table.csv,
    table_nll.csv, table.json, table.md and report.html.

    The same command again resumes what was interrupted; with --measure-only it shows what is finished so far, also
    while another process trains. The exit code is 1 if a run failed.

    Examples:
      focalcal sweep digits/mlp --out runs/digits
      focalcal sweep cifar10/resnet8 --losses cross-entropy,fl-3,flsd-53 --seeds 3 --out runs/resnet8
      focalcal sweep fashion_mnist/cnn epochs=5 --jobs 1 --out runs/fashion
      focalcal sweep cifar10/resnet8 --seeds 3 --out runs/resnet8 --measure-only
    """
    if out is None or out == Path():
        raise ValueError("--out is missing: name a folder for the sweep, such as runs/losses.")
    changed = recipe_changes(changes, by_date=by_date)
    result = run_sweep(recipe, changed, out, losses, seeds, jobs, bootstrap, measure_only, quiet)
    print_json(result.to_dict()) if json else print_sweep(result)
    if report and not result.curves:  # the report is about classes, not about subwords
        sentence = report_of_sweep(result, out, bootstrap)
        if not quiet:
            note(sentence)
    if result.failed:
        raise typer.Exit(1)


def run_sweep(
    recipe: str,
    changes: Sequence[str],
    out: Path,
    losses: str | None = None,
    seeds: int = 1,
    jobs: int | None = None,
    bootstrap: int = 1000,
    measure_only: bool = False,
    quiet: bool = False,
) -> SweepResult:
    """Call `focalcal.sweep`, and say what failed; exit where nothing is left to be shown."""
    from focalcal.sweeps import PAPER_LOSSES, SweepFailed, SweepInterrupted
    from focalcal.sweeps import sweep as train_and_measure

    names = PAPER_LOSSES if losses is None else [name.strip() for name in losses.split(",") if name.strip()]
    try:
        result = train_and_measure(
            recipe,
            changes,
            out=out,
            losses=names,
            seeds=seeds,
            jobs=jobs,
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
    for run, reason in result.failed:
        note(f"{run.name} failed: {reason}")
    if measure_only and result.finished < result.planned:
        note(f"{result.finished} of {result.planned} runs are finished; the others are left out.")
    return result


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
