"""Where results are to be written: looked at before the work, so that nothing is lost at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def check_destinations(predictions: Path | None, calibrator: Path | None, sources: Sequence[Path]) -> None:
    """Refuse a file that cannot be written, that would overwrite what is read, or that is named twice."""
    from focalcal.predictions.formats import format_of

    if predictions is not None:
        if predictions.suffix.lower() == ".npy":
            raise ValueError(f"{predictions} cannot be written: an npy has no place for labels; write to .npz.")
        format_of(predictions)
    if calibrator is not None and calibrator.suffix.lower() != ".json":
        raise ValueError(f"{calibrator} should end in .json: calibrators are saved as JSON.")
    for target in (predictions, calibrator):
        if target is not None:
            check_place(target, sources)


def check_place(target: Path, sources: Sequence[Path]) -> None:
    """Refuse a file whose folder cannot be written to, or that is one of those that are read."""
    _check_folder(target)
    _check_not_read(target, sources)


def _check_folder(target: Path) -> None:
    folder = target.resolve().parent
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the name of a file.")
    if not folder.is_dir():
        raise ValueError(f"{target} cannot be written: its folder does not exist; make it first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{target} cannot be written: its folder is not open for writing; choose another.")


def _check_not_read(target: Path, sources: Sequence[Path]) -> None:
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            raise ValueError(f"{target} is one of the files that are read; write to another name.")
