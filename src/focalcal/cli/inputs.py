"""Predictions that a command is given: a file, or a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.predictions import PredictionsFile


def predictions_file(path: Path, split: str = "test") -> Path:
    """Return the file itself, or the predictions of a split in a run directory."""
    if not path.is_dir():
        return path
    from focalcal.training import RunDirectory

    inside = RunDirectory(path).predictions(split)
    if not inside.is_file():
        raise ValueError(
            f"{path} is a folder without predictions/{split}.safetensors; give a predictions file or a run directory."
        )
    return inside


def open_input(path: Path | str, reading: Mapping[str, Any], split: str = "test") -> PredictionsFile:
    """Open a file, here or (a text) on remote storage, or the predictions of a split in a run directory."""
    from focalcal.predictions import open_predictions

    return open_predictions(predictions_file(path, split) if isinstance(path, Path) else path, **reading)
