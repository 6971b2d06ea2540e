"""Predictions that a command is given: a file, or a run directory."""

from __future__ import annotations

import atexit
import functools
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from focalcal.cli.failures import rename_in_messages

if TYPE_CHECKING:
    from focalcal.predictions import PredictionsFile


# What a file begins with, by the ending that says its format; everything else is a table in text.
_BEGINNINGS = {b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz", b"{": ".jsonl"}
_LARGEST_INPUT = 16 * 2**30


def predictions_file(path: Path, split: str = "test") -> Path:
    """Return the file itself, the predictions of a split in a run directory, or for ``-`` what stdin gives."""
    if str(path) == "-":
        return _save_input()
    if not path.is_dir():
        return path
    from focalcal.training import RunDirectory

    inside = RunDirectory(path).predictions(split)
    if not inside.is_file():
        raise ValueError(
            f"{path} is a folder without predictions/{split}.safetensors; give a predictions file or a run directory."
        )
    return inside


@functools.cache
def _save_input() -> Path:
    """Save stdin to a temporary file, because files are read more than once; it is removed at the end."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        _copy_input(file)
        file.seek(0)
        first = file.read(8)
    endings = (ending for beginning, ending in _BEGINNINGS.items() if first.startswith(beginning))
    named = Path(file.name).with_name(f"{Path(file.name).name}-stdin{next(endings, '.csv')}")
    Path(file.name).rename(named)
    atexit.register(lambda: named.unlink(missing_ok=True))
    rename_in_messages(named, "stdin")
    return named


def _copy_input(file: IO[bytes]) -> None:
    """Copy stdin, which may have no end, up to a size that no file of predictions has by a pipe."""
    copied = 0
    while piece := sys.stdin.buffer.read(2**20):
        copied += len(piece)
        if copied > _LARGEST_INPUT:
            raise ValueError(f"stdin gave more than {_LARGEST_INPUT:,} bytes; save larger predictions to a file.")
        try:
            file.write(piece)
        except OSError as error:
            raise ValueError(f"stdin cannot be saved to {file.name}: {error.strerror}; free some space.") from error


def open_input(path: Path | str, reading: Mapping[str, Any], split: str = "test") -> PredictionsFile:
    """Open a file, here or (a text) on remote storage, or the predictions of a split in a run directory."""
    from focalcal.predictions import open_predictions

    return open_predictions(predictions_file(path, split) if isinstance(path, Path) else path, **reading)
