"""``focalcal report``: one HTML file about a model, or a comparison of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from focalcal.base.progress import note, spinner
from focalcal.cli.ood_detection import named_files
from focalcal.cli.options import READ_MANY_OPTIONS, Bins, Level, Seed, pack_options
from focalcal.cli.output import command_line


@pack_options("reading", READ_MANY_OPTIONS)
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Run directories or predictions files: one, or up to 12 to compare."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    val: Annotated[
        list[Path] | None, typer.Option(help="Validation predictions to fit T on; once per source, in order.")
    ] = None,
    ood: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: predictions on out-of-distribution data; may be repeated.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Name of a source; once per source, in order.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="What T minimises, ece or nll; by default ece if all sources are runs, otherwise nll."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Also show every group of this column; may be repeated."),
    ] = None,
    bins: Bins = 15,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Number of resamples for confidence intervals: 0 for none, else at least 20.")
    ] = 1000,
    level: Level = 0.9,
    seed: Seed = 0,
    *,
    reading: dict[str, Any],
) -> None:
    """Write a report that opens in any browser, from disk, without a network.

    It says in words how far the confidence can be trusted, and shows reliability diagrams with a temperature slider,
    every metric with its confidence interval, every class, the most confident mistakes; for runs the training curves,
    and for several sources a comparison.

    T is fitted on --val, or on a run's own validation predictions, or else cross-fitted on the predictions themselves.

    Examples:
      focalcal report test.npz --val val.npz --out report.html
      focalcal report runs/cross-entropy runs/flsd-53
      focalcal report test.parquet --by region
      focalcal report test.safetensors --ood svhn=svhn.safetensors --title "My model"
    """
    with spinner("writing the report"):
        from focalcal.report import write_report

        write_report(
            sources if not name else _by_name(name, sources),
            out,
            val=val or None,
            ood=named_files(ood or []),
            title=title,
            by=by,
            objective=objective,  # type: ignore[arg-type]  # the library checks it
            bins=bins,
            bootstrap=bootstrap,
            level=level,
            seed=seed,
            command=command_line(),
            reading=reading | ({"groups_key": by} if by else {}),
        )
    note(f"Wrote {out}.")


def write_report_of_runs(runs: Mapping[str, Path], out: Path, title: str, bootstrap: int) -> str:
    """Write the report of runs that have just been trained; say in a sentence where it is, or why there is none."""
    try:
        with spinner("writing the report"):
            from focalcal.report import write_report

            write_report(dict(runs), out, title=title, bootstrap=bootstrap, command=command_line())
    except (ValueError, ImportError) as error:
        return f"There is no report: {error}"
    return f"The report is {out}: open it in a browser."


def _by_name(names: Sequence[str], sources: Sequence[Path]) -> dict[str, Path]:
    if len(names) != len(sources):
        raise ValueError(f"--name is given {len(names)} times for {len(sources)} sources; give it once per source.")
    if len(set(names)) < len(names):
        raise ValueError("--name gives two sources the same name; give each its own.")
    return dict(zip(names, sources, strict=True))
