"""``focalcal apply``: calibrate new predictions with a saved calibrator; they need no labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.files import check_destination
from focalcal.base.measures import name_event
from focalcal.base.progress import note, spinner
from focalcal.cli.calibrate import learned_numbers, save_calibrated
from focalcal.cli.inputs import open_input, predictions_file
from focalcal.cli.options import READ_OPTIONS, Json, pack_fields, pack_options
from focalcal.cli.output import print_json, results
from focalcal.cli.sharding import ShardOptions, are_shards
from focalcal.report.readings import describe_measure, pluralise

if TYPE_CHECKING:
    from focalcal.calibrators import Calibrator

_LOST = ", without the other columns, which an --out of the input's kind keeps"


@pack_options("reading", READ_OPTIONS)
@pack_fields("sharded", ShardOptions)
def apply(
    calibrator: Annotated[Path, typer.Argument(metavar="CALIBRATOR", help="What calibrate --save-calibrator wrote.")],
    predictions: Annotated[
        list[str],
        typer.Argument(
            metavar="NEW...", help="A predictions file, with or without labels; or shards: 'new/*.parquet'."
        ),
    ],
    out: Annotated[
        str, typer.Option(help="Where the calibrated predictions go; a folder for shards.", show_default=False)
    ],
    json: Json = False,
    *,
    reading: dict[str, Any],
    sharded: ShardOptions,
) -> None:
    """Calibrate new predictions with a saved calibrator.

    They need no labels. A .parquet, .csv or .jsonl of your own stays what it is, if --out has the same ending: the
    columns with logits or probabilities get new numbers, and all other columns stay.

    Shards are calibrated file by file into the folder --out, here or (--on ray) on a Ray cluster, each written whole or
    not at all; the same command again skips those that are finished.

    Examples:
      focalcal calibrate val.parquet test.parquet --save-calibrator calibrator.json
      focalcal apply calibrator.json new.parquet --out scored.parquet
      focalcal apply calibrator.json new.csv --probs-key score --out scored.csv
      focalcal apply calibrator.json 'preds/*.parquet' --out scored
    """
    from focalcal.calibrators import load_calibrator
    from focalcal.predictions.formats import find_format
    from focalcal.predictions.formats.rewriting import has_other_columns

    fitted = load_calibrator(calibrator)
    if are_shards(predictions, sharded):
        _apply_to_shards(fitted, predictions, out, sharded, reading, json)
        return
    only, target = Path(predictions[0]), Path(out)
    path = predictions_file(only)
    find_format(target)
    check_destination(target, [path])
    file = open_input(path, reading)
    with spinner("applying"):
        given = file.read()
        try:
            calibrated = fitted.transform(given)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{calibrator} cannot be applied to {only}: {error}") from error
        kept = save_calibrated(fitted, calibrated, file, target)
    if json:
        content = {"calibrator": calibrator.name, "method": fitted.method, **learned_numbers(fitted)}
        print_json({**content, "n": len(given), "of": given.of, "out": target.name, "kept_all_columns": kept})
        return
    console = results()
    console.print(f"{only}: {pluralise(len(given), 'sample')} calibrated by {fitted.method}.", soft_wrap=True)
    console.print(describe_measure(given.of, name_event(given.of, given.class_names)))
    columns = ", with all other columns" if kept else _LOST * has_other_columns(file)
    console.print(f"Wrote {out}{columns}.", soft_wrap=True)


def _apply_to_shards(
    fitted: Calibrator, paths: list[str], out: str, sharded: ShardOptions, reading: dict[str, Any], json: bool
) -> None:
    from focalcal.calibrators import calibrate_shards

    with spinner("applying"):
        done = calibrate_shards(fitted, paths, out, **sharded.arguments(), **reading)
    for failure in done.failures:
        note(f"skipped: {failure.reason}")
    if json:
        counts = {"written": len(done.written), "finished": len(done.finished), "skipped": len(done.failures)}
        print_json({"method": fitted.method, **learned_numbers(fitted), **counts})
        return
    finished = f"; {len(done.finished)} were finished already" if done.finished else ""
    results().print(f"Wrote {pluralise(len(done.written), 'file')} to {out}{finished}.", soft_wrap=True)
