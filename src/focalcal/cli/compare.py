"""``focalcal compare``: differences between models, or between months, with intervals, p-values and a verdict."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.files import distinct_names
from focalcal.base.progress import note, spinner
from focalcal.cli.inputs import open_input
from focalcal.cli.options import READ_MANY_OPTIONS, Bins, Json, Level, Seed, names_in, option, pack_options
from focalcal.cli.output import print_json, results
from focalcal.metrics.catalogue import METRICS
from focalcal.report.readings import format_change, format_interval, format_value

if TYPE_CHECKING:
    from focalcal.calibrators import CalibratorDrift
    from focalcal.metrics import Comparison, Difference
    from focalcal.predictions import Predictions

# Options that this command had when it trained losses, which `focalcal sweep` does now.
_SWEEP_OPTIONS = [
    *(option(name, str | None, "", hidden=True) for name in ("losses", "seeds", "out", "jobs")),
    *(option(name, bool, "", hidden=True) for name in ("measure_only", "by_date", "no_report", "quiet")),
]


@pack_options("sweeping", _SWEEP_OPTIONS)
@pack_options("reading", READ_MANY_OPTIONS)
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B [C...]",
            help="Predictions files or run directories, of the same samples, or of any with --unpaired.",
        ),
    ],
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="The files are of different samples, such as those of two months.")
    ] = False,
    calibrator: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|METHOD|none",
            help="With --unpaired: does this saved calibrator, or one of this method fitted on A, still hold on B? "
            "temperature by default.",
            show_default=False,
        ),
    ] = None,
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
    """Compare models on the same samples, or the same model on different samples: intervals, p-values and a verdict.

    Samples are matched by id where both files have ids, otherwise by position. A difference A − B is significant if its
    bootstrap interval excludes 0 and a paired permutation test agrees; with three or more models, p-values are
    corrected for the number of pairs (Holm).

    With --unpaired the files are of different samples: has the model changed from January to February? Every metric is
    compared, calibration errors by their own intervals, as they grow where samples are few; p-values are corrected for
    the number of metrics. And a calibrator of January is judged on February: it no longer holds if a refit has a
    significantly lower NLL.

    To train a recipe with several losses and seeds, use focalcal sweep.

    Examples:
      focalcal compare runs/a runs/b
      focalcal compare a.npz b.npz --metrics error,ece,nll --level 0.95
      focalcal compare a.npz b.npz c.npz --reference a.npz --json
      focalcal compare jan.parquet feb.parquet --unpaired
      focalcal compare jan.parquet feb.parquet --unpaired --calibrator t.json
    """
    _check_arguments(files, reference, sweeping)
    if calibrator is not None and not unpaired:
        raise ValueError("--calibrator asks whether a calibrator still holds on other samples; add --unpaired.")
    settings: dict[str, Any] = {"bins": bins, "bootstrap": bootstrap, "level": level, "seed": seed}
    names = distinct_names(files)
    opened = [open_input(path, reading) for path in files]
    with spinner(f"comparing {len(files)} {'sets' if unpaired else 'models'}"):
        from focalcal.metrics import compare_many

        models = {name: file.read() for name, file in zip(names, opened, strict=True)}
        found = compare_many(
            models,
            reference=None if reference is None else names[files.index(reference)],
            metrics=names_in(metrics, "--metrics"),
            paired=not unpaired,
            permutations=bootstrap,
            **settings,
        )
        drifts = [_drift(calibrator, comparison, models, reference is not None, settings) for comparison in found]
    if json:
        contents = [
            {**comparison.to_dict(), **({} if drift is None else {"calibrator": drift.to_dict()})}
            for comparison, drift in zip(found, drifts, strict=True)
        ]
        print_json({**settings, "comparisons": contents})
        return
    for comparison, drift in zip(found, drifts, strict=True):
        _print_comparison(comparison, level)
        if drift is not None:
            results().print(f"{_calibrator_of(calibrator, comparison, reference is not None)} {drift.verdict}")


def _drift(
    calibrator: str | None,
    comparison: Comparison,
    models: Mapping[str, Predictions],
    with_reference: bool,
    settings: Mapping[str, Any],
) -> CalibratorDrift | None:
    """Judge the saved calibrator, or one that is fitted on the earlier set, on the later set; None where not wanted."""
    if comparison.paired or calibrator == "none":
        return None
    from focalcal.calibrators import CalibrationWarning, build_calibrator, calibrator_drift, load_calibrator

    earlier, later = comparison.names[::-1] if with_reference else comparison.names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            if calibrator is not None and _is_file(calibrator):
                chosen = load_calibrator(calibrator)
            else:
                chosen = build_calibrator(calibrator or "temperature").fit(models[earlier], allow_test=True)
            return calibrator_drift(chosen, models[later], level=settings["level"], seed=settings["seed"])
        except ValueError as reason:
            if calibrator is not None:
                raise
            note(f"No calibrator of {earlier} is judged on {later}: {reason}")
            return None


def _is_file(calibrator: str) -> bool:
    return calibrator.endswith(".json") or Path(calibrator).exists()


def _calibrator_of(calibrator: str | None, comparison: Comparison, with_reference: bool) -> str:
    """Name the calibrator that was judged, as the beginning of a sentence."""
    earlier, later = comparison.names[::-1] if with_reference else comparison.names
    if calibrator is not None and _is_file(calibrator):
        return f"On {later}, {Path(calibrator).name}"
    return f"On {later}, {calibrator or 'temperature'} calibration fitted on {earlier}"


def _print_comparison(comparison: Comparison, level: float) -> None:
    """Print the differences of two models, and which of them are significant."""
    from rich.table import Table
    from rich.text import Text

    console, table = results(), Table("metric")
    for heading in (*comparison.names, "difference", f"{100 * level:g}% interval", "p"):
        table.add_column(Text(heading), justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for name, difference in comparison.differences.items():
        table.add_row(METRICS[name].heading, *_cells(name, difference), Text(difference.verdict))
    how = "sample by sample" if comparison.paired else "different samples"
    console.print(f"\n{' compared with '.join(comparison.names)}, {how}")
    console.print(table)
    for sentence in (comparison.verdict, *comparison.notes):
        console.print(sentence)


def _cells(name: str, difference: Difference) -> list[str]:
    return [
        *(format_value(name, value) for value in difference.values),
        format_change(name, difference.difference),
        format_interval(difference.interval, partial(format_change, name)),
        "" if math.isnan(difference.adjusted_p_value) else f"{difference.adjusted_p_value:.3g}",
    ]


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
