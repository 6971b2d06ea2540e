"""``focalcal apply``: calibrate new predictions with a saved calibrator; they need no labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from focalcal.base.files import check_destination
from focalcal.base.progress import spinner
from focalcal.cli.calibrate import learned_numbers, save_calibrated
from focalcal.cli.inputs import open_input, predictions_file
from focalcal.cli.options import READ_OPTIONS, Json, packed
from focalcal.cli.output import print_json, results
from focalcal.report.readings import counted, measured_by


@packed("reading", READ_OPTIONS)
def apply(
    calibrator: Annotated[Path, typer.Argument(metavar="CALIBRATOR", help="What calibrate --save-calibrator wrote.")],
    predictions: Annotated[Path, typer.Argument(metavar="NEW", help="A predictions file, with or without labels.")],
    out: Annotated[Path, typer.Option(help="Where the calibrated predictions go.", show_default=False)],
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Calibrate new predictions with a saved calibrator.

    They need no labels. A .parquet, .csv or .jsonl of your own stays what it is, if --out has the same ending: the
    columns with logits or probabilities get new numbers, and all other columns stay.

    Examples:
      focalcal calibrate val.parquet test.parquet --save-calibrator calibrator.json
      focalcal apply calibrator.json new.parquet --out scored.parquet
      focalcal apply calibrator.json new.csv --probs-key score --out scored.csv
    """
    from focalcal.calibrators import load_calibrator
    from focalcal.predictions.formats import find_format

    path = predictions_file(predictions)
    find_format(out)
    check_destination(out, [path])
    fitted = load_calibrator(calibrator)
    file = open_input(path, reading)
    with spinner("applying"):
        given = file.read()
        kept = save_calibrated(fitted, fitted.transform(given), file, out)
    if json:
        content = {"calibrator": calibrator.name, "method": fitted.method, **learned_numbers(fitted)}
        print_json({**content, "n": len(given), "of": given.of, "out": out.name, "kept_all_columns": kept})
        return
    console = results()
    console.print(f"{predictions}: {counted(len(given), 'sample')} calibrated by {fitted.method}.", soft_wrap=True)
    console.print(measured_by(given.of))
    console.print(f"Wrote {out}{', with all other columns' if kept else ''}.", soft_wrap=True)
