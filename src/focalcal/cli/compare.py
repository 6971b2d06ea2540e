"""``focalcal compare``: the same recipe with several losses, in one table."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.cli.output import print_json, progress, results, say
from focalcal.cli.recipe_flags import ByDate, with_flags
from focalcal.cli.report import write_report_of_runs

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.comparison import Outcome, Plan, PlannedRun

_MOST_IN_A_REPORT = 12
PAPER_LOSSES = "cross-entropy,brier,mmce,ls-0.05,fl-3,flsd-53"


def compare(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A packaged recipe, or a .yaml file of your own.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes that hold for every run: epochs=10.")
    ] = None,
    by_date: ByDate = False,
    losses: Annotated[str, typer.Option(help="The losses, separated by commas.")] = PAPER_LOSSES,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds each loss is trained with: 0, 1, …")] = 1,
    out: Annotated[Path | None, typer.Option(help="The folder of the comparison.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; as many as there are cores.")] = None,
    bootstrap: Annotated[int, typer.Option(min=0, help="How many resamples make the intervals; 0 for none.")] = 1000,
    measure_only: Annotated[
        bool, typer.Option("--measure-only", help="Train nothing: the table of the runs that are finished.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write DIR/report.html, of the first seed of each loss.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Train a recipe with several losses, and print one table like the paper's.

    Each loss is trained in a process of its own, in DIR/LOSS/seed-N. The table has error, ECE, AdaECE, classwise-ECE
    and NLL of the test set before → after temperature scaling, with T fitted on validation by ECE as in the paper
    (table_nll.csv has T by NLL), intervals or the spread over seeds, the best in bold and its ties marked; a verdict in
    words follows. DIR gets table.csv, table_nll.csv, table.json, table.md and report.html.

    The same command again goes on where it stopped; with --measure-only it shows what is finished so far, also while
    another process trains. The exit code is 1 if a run failed.

    Examples:
      focalcal compare digits/mlp --out runs/digits
      focalcal compare cifar10/resnet8 --losses cross-entropy,fl-3,flsd-53 --seeds 3 --out runs/resnet8
      focalcal compare fashion_mnist/cnn epochs=5 --jobs 1 --out runs/fashion
      focalcal compare cifar10/resnet8 --seeds 3 --out runs/resnet8 --measure-only
    """
    if out is None or out == Path():
        raise ValueError("--out is missing: name a folder for the comparison, such as runs/losses.")
    from focalcal.comparison import Plan
    from focalcal.comparison.plan import chosen_losses, first_seeds

    changed = tuple(with_flags(changes, by_date=by_date))
    plan = Plan(recipe, changed, chosen_losses(losses), tuple(first_seeds(seeds)), out)
    found = run_comparison(plan, jobs=jobs, bootstrap=bootstrap, quiet=quiet, measure_only=measure_only)
    print_json(found.to_dict()) if json else print_outcome(found)
    if report:
        sentence = report_of_comparison(plan, found, bootstrap)
        if not quiet:
            say(sentence)
    if found.failed:
        raise typer.Exit(1)


def run_comparison(plan: Plan, *, jobs: int | None, bootstrap: int, quiet: bool, measure_only: bool = False) -> Outcome:
    """Train what is missing unless only what is there counts, measure, and write the files."""
    from focalcal.comparison import outcome, write_outcome

    runs = list(plan.runs())
    _check(plan, runs)
    failed = [] if measure_only else _trained(runs, jobs, quiet)
    finished = sum(run.is_finished for run in runs)
    if measure_only and 0 < finished < len(runs):
        say(f"{finished} of {len(runs)} runs are finished; the others are left out.")
    with progress("measuring"):
        found = outcome(plan, failed, bootstrap=bootstrap)
    write_outcome(found, plan.out)
    return found


def _trained(runs: Sequence[PlannedRun], jobs: int | None, quiet: bool) -> list[tuple[PlannedRun, str]]:
    """Train what is not finished, and give the runs that failed, each with its reason."""
    from focalcal.comparison import ComparisonInterrupted, train_all
    from focalcal.comparison.waiting import watcher

    try:
        failed = train_all(runs, jobs=jobs or _jobs(runs[0].recipe.hardware.threads), watcher=watcher(not quiet))
    except ComparisonInterrupted as error:
        say(str(error))
        sys.exit(130)
    for run, reason in failed:
        say(f"{run.loss}, seed {run.seed}, failed: {reason}")
    if failed and not any(run.is_finished for run in runs):
        raise typer.Exit(1)
    return failed


def _check(plan: Plan, runs: Sequence[PlannedRun]) -> None:
    """Find out what cannot work before anything is trained."""
    from focalcal.losses import build_loss
    from focalcal.training.hardware import check_hardware
    from focalcal.training.run_directory import check_place

    if (plan.out / "config.yaml").exists():
        raise ValueError(f"{plan.out} is the folder of a single run; give another for the comparison.")
    for run in runs:
        build_loss(run.loss)
        check_hardware(run.recipe.hardware)
        for what in ("data", "model"):
            if getattr(run.recipe, what).name == "own":
                raise ValueError(f"{what}=own is for focalcal.train in Python; a comparison needs one that has a name.")
        for folder in (plan.out, run.path.parent, run.path):
            check_place(folder, run.recipe, resume=True)


def report_of_comparison(plan: Plan, found: Outcome, bootstrap: int) -> str:
    """Write the report of a comparison: the first seed of each loss, of as many losses as one page holds."""
    first = {run.loss: run.path for run in reversed(list(plan.runs())) if run.is_finished}
    shown = {loss: first[loss] for loss in found.losses[:_MOST_IN_A_REPORT]}
    return write_report_of_runs(shown, plan.out / "report.html", found.title, bootstrap)


def _jobs(threads: int | None) -> int:
    """As many runs as fit into the cores; one where a run takes all of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if threads is None else max(1, cores // threads)


def print_outcome(found: Outcome) -> None:
    """The table and the verdict, for people."""
    console = results()
    console.print(found.title)
    console.print(_table(found, has_bold=console.is_terminal))
    console.print(found.caption, soft_wrap=True)
    for sentence in found.verdict:
        console.print(f"• {sentence}", soft_wrap=True)


def _table(found: Outcome, has_bold: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    from focalcal.comparison.table import TITLES

    table = Table("loss", show_lines=True)
    for heading in TITLES.values():
        table.add_column(heading, justify="right")
    for loss, line in found.lines.items():
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
