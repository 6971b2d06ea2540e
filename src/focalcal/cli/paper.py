"""``focalcal paper``: the paper's tables, figures and studies, with ours beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from focalcal.cli.engines import EngineOptions, write_slurm
from focalcal.cli.options import Json, help_text, names_in, pack_fields
from focalcal.cli.output import print_json, print_text, results
from focalcal.cli.sweep import train_plans

if TYPE_CHECKING:
    from focalcal.paper import PaperTable

paper_app = typer.Typer(
    name="paper", help="Make the paper's tables, figures and studies, with our results.", no_args_is_help=True
)

Format = Literal["markdown", "latex", "csv", "json"]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="A folder of results, of a sweep or of a run, or several; by default results.",
    ),
]
# An option takes one value; what follows it arrives as arguments.
MoreFolders = Annotated[
    list[Path] | None, typer.Argument(metavar="[DIR]…", show_default=False, help="More folders of the option before.")
]
AsFormat = Annotated[Format, typer.Option("--format", help="How to write it.")]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to; it is made.")]


def _all_folders(option: str, named: list[Path] | None, more: list[Path] | None) -> list[Path] | None:
    if more and not named:
        raise ValueError(f"{more[0]} is one argument too many; folders go after {option}, as in {option} {more[0]}.")
    return [*named, *(more or [])] if named else None


def table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="ece, error, …; or a table.csv of focalcal sweep.")],
    results_in: Results = None,
    more: MoreFolders = None,
    variants: Annotated[bool, typer.Option("--variants", help="The table of the focal variants.")] = False,
    epoch: Annotated[
        Literal["best", "last"] | None,
        typer.Option(
            help="Figures of the best epoch by validation or of the last; by default the one that the recipe selects."
        ),
    ] = None,
    format: AsFormat = "markdown",
    metrics: Annotated[str | None, typer.Option(help="For a table.csv: only these metrics, such as error,ece.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a table.csv: print Markdown.")] = False,
    json: Json = False,
) -> None:
    """Print one of the paper's tables: published figures and ours, and whether they agree.

    Names: ece, error, ada-ece, classwise-ece (each also with --variants), nll, mce (before and after temperature
    scaling), top5, ood-auroc, s99, early-stopping, translation. Rows are the paper's; results of other networks
    follow below. With a table.csv of a sweep: all metrics of that sweep beside the paper's.

    Examples:
      focalcal paper table ece
      focalcal paper table error --variants --format latex
      focalcal paper table early-stopping --results runs/c results --format csv
      focalcal paper table results/sst/table.csv --metrics error,ece
    """
    if name.endswith(".csv"):
        _print_sweep(Path(name), metrics, markdown=markdown, json=json)
        return
    from focalcal.paper import build_table, find_results
    from focalcal.paper.table_formats import FORMATS
    from focalcal.paper.table_names import named_tables
    from focalcal.paper.tables import check_filled

    wanted = named_tables(name, variants=variants)
    found = find_results(_all_folders("--results", results_in, more))
    tables = [build_table(one, found, epoch=epoch) for one in wanted]
    if results_in:
        check_filled(tables[0], found)
    print_text(FORMATS["json" if json else format](*tables))


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a table, as for focalcal paper table.")],
    variants: Annotated[bool, typer.Option("--variants", help="The table of the focal variants.")] = False,
    format: AsFormat = "markdown",
) -> None:
    """Print a table as the paper published it, with footnotes on its slips.

    Examples:
      focalcal paper show ada-ece
      focalcal paper show mce --format csv
    """
    from focalcal.paper import build_table
    from focalcal.paper.table_formats import FORMATS
    from focalcal.paper.table_names import named_tables

    tables = [build_table(one) for one in named_tables(name, variants=variants)]
    print_text(FORMATS[format](*tables))


def tables(
    out: OutFolder,
    results_in: Results = None,
    more: MoreFolders = None,
    format: AsFormat = "markdown",
) -> None:
    """Write all 17 tables of the paper, one file per table.

    Examples:
      focalcal paper tables --out tables
      focalcal paper tables --out tables --results runs/c --format latex
    """
    from focalcal.paper import find_results
    from focalcal.paper.table_formats import write_tables

    written = write_tables(find_results(_all_folders("--results", results_in, more)), out, format)
    print(f"{len(written)} tables are in {out}.")


def figure(
    name: Annotated[str, typer.Argument(metavar="NAME", help="training, focal-training, …; see above.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .png, .svg or .pdf; the data goes beside it.")],
    runs: Annotated[
        list[Path] | None,
        typer.Option("--runs", metavar="DIR", help="A folder of results, a sweep or a run, or several."),
    ] = None,
    more: MoreFolders = None,
    papers_bootstrap: Annotated[
        bool, typer.Option("--papers-bootstrap", help="bars: intervals as in the paper, from kept predictions.")
    ] = False,
) -> None:
    """Draw one of the paper's figures, with the drawn data beside it as csv.

    Names: training, focal-training, gradient-factor, bars, ood-roc, reliability-training, optimum, linear-model,
    qualitative (needs the data), feature-norms, bleu-temperature. Without --runs the folder in results/ that suits
    best is drawn; runs that are given must be of one data set and network.

    Examples:
      focalcal paper figure training --out training.png
      focalcal paper figure focal-training --runs results/cifar10_resnet20 --out focal.svg
      focalcal paper figure optimum --out optimum.pdf
    """
    from focalcal.base.progress import note
    from focalcal.paper.figures import build_figure, check_format

    check_format(out)
    drawn = build_figure(name, _all_folders("--runs", runs, more), papers_bootstrap=papers_bootstrap)
    drawn.save(out)
    for sentence in drawn.notes:
        note(sentence)
    print(f"{drawn.title}: {out}, data in {out.with_suffix('.csv')}")


def figures(
    out: OutFolder,
    results_in: Results = None,
    more: MoreFolders = None,
    format: Annotated[Literal["png", "svg", "pdf"], typer.Option("--format", help="Format of the pictures.")] = "png",
) -> None:
    """Draw all figures of the paper that the results at hand allow, and say why others are missing.

    Examples:
      focalcal paper figures --out figures
      focalcal paper figures --out figures --results runs/c --format svg
    """
    from focalcal.paper import find_results
    from focalcal.paper.pages import write_figures

    for name, said in write_figures(find_results(_all_folders("--results", results_in, more)), out, format).items():
        print_text(f"{name}: {said}\n")


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="early-stopping, ood, confident, temperature, …")],
    results_in: Results = None,
    more: MoreFolders = None,
    json: Json = False,
) -> None:
    """Print a study of the paper: its claims one by one, what our numbers say, and the numbers.

    Names: miscalibration, focal-training, calibration, early-stopping, ood, confident, temperature, large-gamma,
    theory, translation.

    Examples:
      focalcal paper study temperature
      focalcal paper study ood --results results/cifar10_resnet20 --json
    """
    from focalcal.paper import find_results
    from focalcal.paper.studies import find_study, study_markdown, study_records

    wanted = find_study(name)
    found = [] if name == "theory" else find_results(_all_folders("--results", results_in, more))
    if json:
        print_json(study_records(wanted, found))
    else:
        print_text(study_markdown(wanted, found, wanted.claims(found)))


def theory(
    points: Annotated[int, typer.Option(min=100, help="Points of each grid.")] = 2000,
    json: Json = False,
) -> None:
    """Check the paper's propositions, its entropy bound and the optimum of the focal loss on fine grids.

    Examples:
      focalcal paper theory
      focalcal paper theory --points 20000 --json
    """
    from focalcal.paper.theory import check_theory

    claims = check_theory(points)
    if json:
        print_json({"claims": [vars(claim) for claim in claims]})
        return
    for claim in claims:
        results().print(f"{claim.verdict.upper()}: {claim.text}\n    {claim.evidence}", soft_wrap=True)


def pages(
    out: OutFolder,
    results_in: Results = None,
    more: MoreFolders = None,
    readme: Annotated[
        Path | None,
        typer.Option("--readme", metavar="FILE", help="A page whose table of claims, between marks, is made again."),
    ] = None,
) -> None:
    """Write all tables and figures and a page for each study: how docs/paper is made.

    Examples:
      focalcal paper pages --out docs/paper --readme README.md
    """
    from focalcal.paper import find_results
    from focalcal.paper.pages import check_readme, update_readme, write_pages

    found = find_results(_all_folders("--results", results_in, more))
    if readme is not None:
        check_readme(readme)
    written, headlines = write_pages(found, out)
    if readme is not None:
        update_readme(readme, headlines)
    print(f"{len(written)} pages are in {out}.")


@pack_fields("engine", EngineOptions)
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table (ece, ece-variants, …) or a figure.")],
    only: Annotated[
        str | None, typer.Option(metavar="RECIPE", help="One recipe: of the paper's, or another in their place.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 1,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the runs.")] = Path("runs/paper"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and the time they take; train nothing.")
    ] = False,
    json: Json = False,
    *,
    engine: EngineOptions,
) -> None:
    """Train the runs that a table or figure of the paper needs, or list them.

    Finished runs are skipped and interrupted ones resumed; tables and figures share runs. The time is estimated from
    epochs of the same recipe, of results/, or from a step that is timed here. On a cluster (see focalcal sweep) all
    recipes are one queue of runs.

    Examples:
      focalcal paper run ece --dry-run
      focalcal paper run early-stopping --only cifar10/resnet50 --seeds 3
      focalcal paper run focal-training --only digits/mlp --out runs/small
      focalcal paper run ece --on ray --address auto --gpus-per-run 1 --out /shared/paper
    """
    from focalcal.paper.result_folders import DEFAULT, find_results
    from focalcal.paper.run_plan import describe, needed_runs

    engine.check()
    at_hand = find_results() if DEFAULT.is_dir() else []
    needed = needed_runs(name, out, only=only, seeds=seeds, results=at_hand)
    listed = list(describe(needed))
    if json:
        print_json({"name": name, "runs": listed})
    else:
        _print_runs(listed)
    if dry_run:
        return
    plans = [replace(one.plan, name=one.recipe) for one in needed]
    if engine.on == "slurm":
        write_slurm(plans, out, engine)
    else:
        train_plans(plans, out, engine)
        print(f"The runs are in {out}: focalcal paper table NAME --results {out}, figure NAME --runs {out}/RECIPE.")


def _print_runs(listed: list[dict[str, str | int | float | None]]) -> None:
    from rich.table import Table

    shown = Table("recipe", "loss", "seed", "state", "hours left", "estimated from")
    for one in listed:
        hours = one["hours"]
        cells = [str(one[key]) for key in ("recipe", "loss", "seed", "state")]
        shown.add_row(*cells, "?" if hours is None else _hours(float(hours)), str(one["estimate"]))
    results().print(shown)
    known = [float(one["hours"]) for one in listed if one["hours"] is not None]
    left = sum(one["state"] != "finished" for one in listed)
    unknown = len(listed) - len(known)
    rest = f"; of {unknown} the time is unknown" if unknown and known else ""
    time = f"about {_hours(sum(known))} hours one after another here{rest}" if known else "the time is unknown"
    results().print(f"{len(listed)} runs, {left} to be trained: {time}.")


def _hours(hours: float) -> str:
    """Write hours to the minute where they are few."""
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 or not hours else f"{max(hours, 0.01):.2f}"


def _print_sweep(file: Path, metrics: str | None, *, markdown: bool, json: bool) -> None:
    """Print every metric of one sweep beside the paper's."""
    from focalcal.paper import paper_tables
    from focalcal.paper.sweep_tables import LEGEND, TITLES
    from focalcal.sweeps.result_rows import read_rows

    found = paper_tables(read_rows(file))
    wanted = names_in(metrics, "--metrics")
    if wanted is not None:
        unknown = [name for name in wanted if name not in TITLES]
        if unknown:
            raise ValueError(f"There is no table of {unknown[0]}; known are {', '.join(TITLES)}.")
        found = [one for one in found if one.title in {TITLES[name] for name in wanted}]
    if json:
        print_json({one.title: {line.method: list(line.cells) for line in one.lines} for one in found})
    elif markdown:
        print_text("\n".join([f"{LEGEND}\n", *(one.markdown() for one in found)]) + "\n")
    else:
        _print_beside(found)
        results().print(LEGEND, soft_wrap=True)


def _print_beside(found: list[PaperTable]) -> None:
    from rich.table import Table

    console = results()
    for one in found:
        shown = Table("loss", *one.columns, title=one.title, title_justify="left")
        for line in one.lines:
            shown.add_row(line.method, *line.cells)
        console.print(shown)


for _command in (table, tables, show, figure, figures, study, theory, run, pages):
    paper_app.command(_command.__name__, help=help_text(_command))(_command)
paper_app.callback()(lambda: None)
