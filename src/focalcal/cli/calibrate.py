"""``focalcal calibrate``: fit a calibrator on validation predictions, apply it to others, and show what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from focalcal.cli.output import print_json, say
from focalcal.cli.packed_options import option, packed
from focalcal.cli.sources import READ_OPTIONS, check_exist

_PANEL = "Options of methods"

METHOD_OPTIONS = [
    option("objective", str | None, "temperature: nll (the default) or ece (the paper's grid).", panel=_PANEL),
    option("grid", str | None, "temperature by ece: the temperatures to try, separated by commas.", panel=_PANEL),
    option("gamma", float | None, "focal-inverse: the γ that the network was trained with.", panel=_PANEL),
    option("off_diagonal_penalty", float | None, "matrix, dirichlet: on what mixes classes.", panel=_PANEL),
    option("intercept_penalty", float | None, "vector, matrix, dirichlet: on the offsets.", panel=_PANEL),
    option("smoothing", float | None, "isotonic, histogram: the uniform distribution's share in a row.", panel=_PANEL),
    option("diagonal_penalty", float | None, "vector, matrix, dirichlet: on the factors.", panel=_PANEL),
]
# Labels and a split are of one file, and two are read here.
_READ_OPTIONS = [parameter for parameter in READ_OPTIONS if parameter.name not in ("labels", "split")]


@packed("options", METHOD_OPTIONS)
@packed("reading", _READ_OPTIONS)
def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="VAL TEST",
            help="Two predictions files; or a run directory; or TEST alone with --calibrator.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="temperature (the default), temperature-ece, vector, matrix, dirichlet, isotonic, histogram, "
            "focal-inverse, focal-temperature or identity.",
            show_default=False,
        ),
    ] = None,
    calibrator: Annotated[Path | None, typer.Option(help="A saved calibrator to apply instead of fitting one.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the calibrated predictions go: .safetensors, .npz, .parquet or .csv.")
    ] = None,
    save_calibrator: Annotated[Path | None, typer.Option(help="Where the fitted calibrator goes, as JSON.")] = None,
    bins: Annotated[int, typer.Option(min=1, help="How many bins ECE, and the method if it bins, has.")] = 15,
    allow_test: Annotated[
        bool, typer.Option("--allow-test", help="Fit on test data, or on the same samples, all the same.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    *,
    options: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Repair the confidence of a classifier: fit on validation predictions, apply to test predictions.

    Prints error, NLL, Brier score and calibration errors of the test predictions before and after. Refuses validation
    data whose split is "test", and files that share their samples, unless --allow-test is given.

    Examples:
      focalcal calibrate val.npz test.npz --out calibrated.safetensors
      focalcal calibrate val.npz test.npz --objective ece --save-calibrator t.json
      focalcal calibrate new.npz --calibrator t.json --out new-calibrated.npz
      focalcal calibrate runs/a --method focal-temperature --json
      focalcal calibrate test.npz --method focal-inverse --gamma 3
    """
    check_exist(*files, calibrator)
    from focalcal.cli.calibration import Request, calibrated

    request = Request(tuple(files), method, options, calibrator, out, save_calibrator, bins, allow_test)
    done = calibrated(request, reading)
    for warning in done.warnings:
        say(f"warning: {warning}")
    if json:
        print_json(done.to_dict())
    else:
        from focalcal.cli.calibration_output import print_calibration

        print_calibration(done)
