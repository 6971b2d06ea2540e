"""``focalcal report``: one HTML file about a model, or a comparison of models."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from focalcal.cli.destinations import check_place
from focalcal.cli.output import progress, say
from focalcal.cli.packed_options import packed
from focalcal.cli.sources import READ_OPTIONS, check_exist
from focalcal.cli.thumbnails import thumbnails_of

# Labels and a split are of one file, and several may be read here.
_READ_OPTIONS = [parameter for parameter in READ_OPTIONS if parameter.name not in ("labels", "split")]


@packed("reading", _READ_OPTIONS)
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Run directories or predictions files: one, or up to 12 to compare."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    val: Annotated[
        list[Path] | None, typer.Option(help="Validation predictions to fit T on; once for each source, in order.")
    ] = None,
    ood: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: predictions on out-of-distribution data; may be repeated.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="What to call a source; once for each, in order.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    bins: Annotated[int, typer.Option(min=1, help="How many bins the binned metrics have; at most 10,000.")] = 15,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Resamples for intervals: 0 for none, else at least 20.")
    ] = 1000,
    level: Annotated[float, typer.Option(help="How often an interval is to cover what it estimates.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same report.")] = 0,
    *,
    reading: dict[str, Any],
) -> None:
    """Write a report that opens in any browser, from disk, without a network.

    It says in words how far the confidence can be trusted, and shows reliability diagrams with a temperature slider,
    every metric with its interval, every class, the most confident mistakes; for runs the training curves, and for
    several sources a comparison.

    T is fitted on --val, or on a run's own validation predictions, or else cross-fitted on the predictions themselves.

    Examples:
      focalcal report test.npz --val val.npz --out report.html
      focalcal report runs/cross-entropy runs/flsd-53
      focalcal report test.safetensors --ood svhn=svhn.safetensors --title "My model"
    """
    outside = _by_name(ood or [])
    read = [*sources, *(val or []), *outside.values()]
    check_exist(*read)
    _check_numbers(len(sources), {"--val": val, "--name": name})
    check_place(out, read)
    with progress("writing the report"), needing_extra():
        from focalcal.report import write_report
        from focalcal.report.destination import check_destination

        check_destination(out, read)
        write_report(
            dict(zip(name, sources, strict=True)) if name else sources,
            out,
            val=val or None,
            ood=outside,
            title=title,
            bins=bins,
            bootstrap=bootstrap,
            level=level,
            seed=seed,
            command=command_line(),
            reading=reading,
            thumbnails=thumbnails_of(sources),
        )
    say(f"Wrote {out}.")


def write_report_of_runs(runs: Mapping[str, Path], out: Path, title: str, bootstrap: int) -> str:
    """Write the report of runs that have just been trained; give a sentence on where it is, or why there is none."""
    try:
        with progress("writing the report"), needing_extra():
            from focalcal.report import write_report

            pictures = thumbnails_of(list(runs.values()))
            write_report(dict(runs), out, title=title, bootstrap=bootstrap, command=command_line(), thumbnails=pictures)
    except ValueError as error:
        return f"There is no report: {error}"
    return f"The report is {out}: open it in a browser."


@contextmanager
def needing_extra() -> Iterator[None]:
    """Say as bad input, in one sentence, that a package is missing."""
    try:
        yield
    except ImportError as error:
        raise ValueError(str(error)) from error


def _by_name(pairs: Sequence[str]) -> dict[str, Path]:
    """``["svhn=svhn.npz"]`` to a file by name."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise ValueError(f"--ood must be NAME=FILE, such as svhn=svhn.safetensors, not {pair!r}.")
        if name in found:
            raise ValueError(f"--ood gives the name {name!r} twice; give each data set its own.")
        found[name] = Path(path)
    return found


def _check_numbers(sources: int, given: Mapping[str, Sequence[Any] | None]) -> None:
    for option, values in given.items():
        if values and len(values) != sources:
            raise ValueError(f"{option} is given {len(values)} times for {sources} sources; give it once for each.")
        if option == "--name" and values and not all(value.strip() for value in values):
            raise ValueError("--name is empty; give a name that can be read.")
        if option == "--name" and values and len(set(values)) < len(values):
            raise ValueError("--name gives two sources the same name; give each its own.")


def command_line() -> str:
    """What was typed, as far as it is known: the program's name without its folder."""
    return shlex.join(["focalcal", *sys.argv[1:]])
