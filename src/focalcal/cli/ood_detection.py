"""Out-of-distribution data on the command line: files by name, and how well uncertainty tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.cli.inputs import predictions_file
from focalcal.cli.output import results

if TYPE_CHECKING:
    from focalcal.metrics.ood import Score


def named_files(pairs: Sequence[str]) -> dict[str, Path]:
    """Turn ``["svhn=svhn.npz"]`` into files by name."""
    found: dict[str, Path] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise ValueError(f"--ood must be NAME=FILE, such as svhn=svhn.safetensors, not {pair!r}.")
        if name in found:
            raise ValueError(f"--ood gives the name {name!r} twice; give each data set its own.")
        found[name] = Path(path)
    return found


def measure_ood(path: Path, given: Mapping[str, Path], reading: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Measure out-of-distribution sets: those that are given, and those of a run directory.

    Args:
        path: The predictions for the test set, or a run directory, whose validation set gives a temperature, too.
        given: Files by the name of the data.
        reading: How files are read.

    Returns:
        AUROC and the share of false alarms when 95% are found, for each set, score and scaling.
    """
    from focalcal.metrics.ood import ood_evaluate
    from focalcal.predictions import Predictions
    from focalcal.sweeps.finished import OOD_SPLITS
    from focalcal.training import RunDirectory

    files = {name: RunDirectory(path).predictions(name) for name in OOD_SPLITS} if path.is_dir() else {}
    files = {name: file for name, file in files.items() if file.is_file()} | dict(given)
    if not files:
        return []
    test = Predictions.load(predictions_file(path), **reading)
    scalings = _scalings(path)
    scores: tuple[Score, ...] = ("entropy", "confidence")
    records = []
    for name, file in files.items():
        outside = Predictions.load(file)
        for score in scores:
            for scaling, scaler in scalings.items():
                pair = [preds if scaler is None else scaler.transform(preds) for preds in (test, outside)]
                found = ood_evaluate(pair[0], pair[1], score=score)
                records.append(
                    {
                        "data": name,
                        "score": score,
                        "temperature_scaling": scaling,
                        "auroc": found.auroc,
                        "fpr95": found.fpr_at_tpr,
                    }
                )
    return records


def _scalings(path: Path) -> dict[str, Any]:
    """Return what is done to the predictions: nothing, and with a run directory also temperature scaling."""
    from focalcal.predictions import Predictions
    from focalcal.training import RunDirectory
    from focalcal.training.evaluator import fit_temperature

    val = RunDirectory(path).predictions("val") if path.is_dir() else None
    if val is None or not val.is_file():
        return {"pre": None}
    return {"pre": None, "post": fit_temperature("ece", Predictions.load(val))}


def print_ood(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the records as a table."""
    from rich.table import Table

    shown = Table("out-of-distribution", "score", "temperature scaling", "AUROC", "false alarms when 95% are found")
    for one in records:
        cells = [one["data"], one["score"], {"pre": "before", "post": "after"}[one["temperature_scaling"]]]
        shown.add_row(*cells, f"{100 * one['auroc']:.2f}%", f"{100 * one['fpr95']:.2f}%")
    results().print(shown)
