"""Where a report may be written: never over what it is made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from focalcal.predictions import Predictions, PredictionsFile


def check_destination(out: str | os.PathLike[str], *given: Any) -> None:
    """Raise unless a report can be written to ``out`` without harm to what is read.

    Args:
        out: the file to write.
        given: sources, validation predictions, out-of-distribution predictions: as `write_report` takes them.

    Raises:
        ValueError: its folder cannot be written to, it is a file that is read, or it is a file of a run directory that
            is no HTML.

    Examples:
        >>> check_destination("test.npz/report.html", "test.npz")
        Traceback (most recent call last):
        ValueError: test.npz/report.html cannot be written: its folder does not exist; make it first.
    """
    target = Path(os.path.realpath(out))  # a link is written through
    _check_folder(os.fspath(out), target)
    if not target.exists():
        return
    for path in paths_of(given):
        if path.is_dir():
            _check_run(os.fspath(out), target, path)
        elif path.exists() and target.samefile(path):
            raise ValueError(f"{os.fspath(out)} is one of the files that are read; write to another name.")


def paths_of(given: Any) -> list[Path]:
    """All paths in sources of any form: one, several, or by name."""
    if given is None or isinstance(given, Predictions):
        return []
    if isinstance(given, str | os.PathLike):
        return [Path(given)]
    if isinstance(given, PredictionsFile):
        return [Path(given.path)]
    several: Iterable[Any] = given.values() if isinstance(given, Mapping) else given
    return [path for each in several for path in paths_of(each)]


def _check_folder(name: str, target: Path) -> None:
    if target.is_dir():
        raise ValueError(f"{name} is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise ValueError(f"{name} cannot be written: its folder does not exist; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: its folder is not open for writing; choose another.")


def _check_run(name: str, target: Path, run: Path) -> None:
    """A run's files may be links to files elsewhere, and files elsewhere links to them: both are looked for."""
    inside = target.is_relative_to(run.resolve()) and target.suffix.lower() != ".html"
    read = [*run.glob("predictions/*.safetensors"), run / "history.jsonl", run / "config.yaml"]
    if inside or any(path.exists() and target.samefile(path) for path in read):
        raise ValueError(f"{name} is a file of the run {run.name}; write to another name, which ends in .html.")
