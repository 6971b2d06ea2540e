"""``focalcal paper``: our figures beside the ones that the paper printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalcal.cli.help_text import help_text
from focalcal.cli.output import print_json, results
from focalcal.cli.sources import check_exist

if TYPE_CHECKING:
    from focalcal.paper import PaperTable

paper_app = typer.Typer(name="paper", help="Compare figures with those that the paper printed.", no_args_is_help=True)


def table(
    file: Annotated[Path, typer.Argument(metavar="TABLE", help="A table.csv that focalcal compare wrote.")],
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas: error,ece.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print the figures of a comparison beside the paper's, a table a metric.

    Every cell is before → after temperature scaling (T); ours are the mean over seeds ± their standard deviation, with
    the mean of their 90% intervals in brackets. A dash is a figure that the paper does not have.

    Examples:
      focalcal paper table results/sst/table.csv
      focalcal paper table runs/newsgroups/table.csv --metrics error,ece --markdown
    """
    check_exist(file)
    from focalcal.comparison.rows import read_rows
    from focalcal.paper import paper_tables
    from focalcal.paper.table import LEGEND, METRICS

    tables = paper_tables(read_rows(file))
    if metrics is not None:
        wanted = [name.strip().lower().replace("-", "_") for name in metrics.split(",") if name.strip()]
        unknown = [name for name in wanted if name not in METRICS]
        if not wanted:
            raise ValueError(f"--metrics names no metric; known are {', '.join(METRICS)}.")
        if unknown:
            raise ValueError(f"There is no table of {unknown[0]}; known are {', '.join(METRICS)}.")
        tables = [one for one in tables if one.title in {METRICS[name] for name in wanted}]
    if json:
        print_json({one.title: {line.method: list(line.cells) for line in one.lines} for one in tables})
    elif markdown:
        print("\n".join([f"{LEGEND}\n", *(one.markdown() for one in tables)]))
    else:
        _print(tables)
        results().print(LEGEND, soft_wrap=True)


def _print(tables: list[PaperTable]) -> None:
    from rich.table import Table

    console = results()
    for one in tables:
        shown = Table("loss", *one.columns, title=one.title, title_justify="left")
        for line in one.lines:
            shown.add_row(line.method, *line.cells)
        console.print(shown)


paper_app.command("table", help=help_text(table))(table)
paper_app.callback()(lambda: None)
