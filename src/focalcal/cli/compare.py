"""``focalcal compare``: paired differences between models, with confidence intervals, p-values and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.files import distinct_names
from focalcal.base.progress import spinner
from focalcal.cli.inputs import open_input
from focalcal.cli.options import READ_MANY_OPTIONS, Bins, Json, Level, Seed, names_in, option, packed
from focalcal.cli.output import print_json, results
from focalcal.metrics.catalogue import METRICS
from focalcal.report.readings import written, written_change, written_interval

if TYPE_CHECKING:
    from focalcal.metrics import Comparison, Difference

# Options that this command had when it trained losses, which `focalcal sweep` does now.
_SWEEP_OPTIONS = [
    *(option(name, str | None, "", hidden=True) for name in ("losses", "seeds", "out", "jobs")),
    *(option(name, bool, "", hidden=True) for name in ("measure_only", "by_date", "no_report", "quiet")),
]


@packed("sweeping", _SWEEP_OPTIONS)
@packed("reading", READ_MANY_OPTIONS)
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="A B [C...]", help="Predictions files or run directories, of the same samples."),
    ],
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas: ece,nll,error.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="One of the files: compare every other with it, instead of all pairs.")
    ] = None,
    bins: Bins = 15,
    bootstrap: Annotated[int, typer.Option(min=1, help="Number of resamples, and of permutations of the test.")] = 1000,
    level: Level = 0.9,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: dict[str, Any],
    sweeping: dict[str, Any],
) -> None:
    """Compare models on the same samples: paired differences, confidence intervals, p-values and a verdict.

    Samples are matched by id where both files have ids, otherwise by position. A difference A − B is significant if its
    bootstrap interval excludes 0 and a paired permutation test agrees; with three or more models, p-values are
    corrected for the number of pairs (Holm).

    To train a recipe with several losses and seeds, use focalcal sweep.

    Examples:
      focalcal compare runs/a runs/b
      focalcal compare a.npz b.npz --metrics error,ece,nll --level 0.95
      focalcal compare a.npz b.npz c.npz --reference a.npz --json
    """
    _check_arguments(files, reference, sweeping)
    settings = {"bins": bins, "bootstrap": bootstrap, "level": level, "seed": seed}
    found = compare_files(files, names_in(metrics, "--metrics"), settings, reading, reference)
    if json:
        print_json({**settings, "comparisons": [comparison.to_dict() for comparison in found]})
        return
    for comparison in found:
        print_comparison(comparison, level)


def compare_files(
    files: Sequence[Path],
    metrics: list[str] | None,
    settings: Mapping[str, Any],
    reading: Mapping[str, Any],
    reference: Path | None = None,
) -> list[Comparison]:
    """Compare all pairs of files, or all with the reference."""
    from focalcal.metrics import compare_many

    opened = [open_input(path, reading) for path in files]
    names = distinct_names(files)
    with spinner(f"comparing {len(files)} models"):
        return compare_many(
            {name: file.read() for name, file in zip(names, opened, strict=True)},
            reference=None if reference is None else names[files.index(reference)],
            metrics=metrics,
            bins=settings["bins"],
            bootstrap=settings["bootstrap"],
            permutations=settings["bootstrap"],
            level=settings["level"],
            seed=settings["seed"],
        )


def print_comparison(comparison: Comparison, level: float) -> None:
    """Print the differences of two models, and which of them are significant."""
    from rich.table import Table
    from rich.text import Text

    console, table = results(), Table("metric")
    for heading in (*comparison.names, "difference", f"{100 * level:g}% interval", "p"):
        table.add_column(Text(heading), justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for name, difference in comparison.differences.items():
        table.add_row(METRICS[name].heading, *_cells(name, difference), Text(difference.verdict))
    console.print(f"\n{' compared with '.join(comparison.names)}, sample by sample")
    console.print(table)
    console.print(_summary(comparison))


def _cells(name: str, difference: Difference) -> list[str]:
    return [
        *(written(name, value) for value in difference.values),
        written_change(name, difference.difference),
        written_interval(difference.interval, partial(written_change, name)),
        f"{difference.adjusted_p_value:.3g}",
    ]


def _summary(comparison: Comparison) -> str:
    """Name the metrics that differ, by model; those that do not are named last."""
    lower: dict[str, list[str]] = {}
    same: list[str] = []
    for name, difference in comparison.differences.items():
        if difference.is_shown:
            winner = comparison.names[0] if difference.difference < 0 else comparison.names[1]
            lower.setdefault(winner, []).append(METRICS[name].heading)
        else:
            same.append(METRICS[name].heading)
    parts = [f"{winner} has a significantly lower {', '.join(titles)}" for winner, titles in lower.items()]
    if same:
        parts.append(f"{'no' if parts else 'No'} significant difference in {', '.join(same)}")
    return f"{'; '.join(parts)}."


def _check_arguments(files: Sequence[Path], reference: Path | None, sweeping: Mapping[str, Any]) -> None:
    missing = [path for path in files if not path.exists()]
    if sweeping or (missing and _names_a_recipe(missing[0])):
        raise ValueError(
            "`focalcal compare` compares predictions files or run directories; to train a recipe with several losses, "
            f"use `focalcal sweep {files[0]} --losses … --out DIR`."
        )
    if len(files) < 2:
        raise ValueError(
            f"There is only {files[0]} to compare; give at least two predictions files or run directories."
        )
    if reference is not None and reference not in files:
        raise ValueError(f"--reference must be one of the files that are compared, not {reference}.")


def _names_a_recipe(path: Path) -> bool:
    from focalcal.recipes import recipe_names

    return path.as_posix() in recipe_names()
