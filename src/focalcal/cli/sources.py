"""Which file is meant, and how it is read: the same arguments and options for every command that takes predictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.cli.packed_options import option

if TYPE_CHECKING:
    from focalcal.predictions import PredictionsFile

_PANEL = "How the file is read"

READ_OPTIONS = [
    option("logits_key", str | None, "The array or column(s) with logits, if not called logits.", panel=_PANEL),
    option("probs_key", str | None, "Those with probabilities, if not called probs or predictions.", panel=_PANEL),
    option("labels_key", str | None, "Those with labels, if not called labels, label or ground_truth.", panel=_PANEL),
    option("weights_key", str | None, "The one with weights, if not called weights or weight.", panel=_PANEL),
    option("ids_key", str | None, "The one with ids, if not called ids or id.", panel=_PANEL),
    option("kind", str | None, "logits or probs: which to read of a file with both, or of an npy.", panel=_PANEL),
    option("labels", Path | None, "An npy of labels in place of the file's own.", panel=_PANEL),
    option("split", str | None, "The name of the split, in place of the file's own.", panel=_PANEL),
    option("ignore_index", int | None, "Samples with this label are left out; -100 by default.", panel=_PANEL),
    option("tolerance", float | None, "How far from 1 a row of probabilities may sum.", panel=_PANEL),
    option("allow_duplicate_ids", bool, "Accept an id that occurs more than once.", panel=_PANEL),
]


def check_exist(*paths: Path | None) -> None:
    """Refuse what is not there: as the library does, but before it has been imported, which takes seconds."""
    for path in paths:
        if path is not None and not path.exists():
            raise FileNotFoundError(f"There is no file {path}.")


def predictions_file(path: Path, split: str = "test") -> Path:
    """The file itself, or the predictions of a split in a run directory."""
    if not path.is_dir():
        return path
    inside = path / "predictions" / f"{split}.safetensors"
    if not inside.is_file():
        raise ValueError(
            f"{path} is a folder without predictions/{split}.safetensors; give a predictions file or a run directory."
        )
    return inside


def opened(path: Path, reading: Mapping[str, Any], split: str = "test") -> PredictionsFile:
    """Open a file, or the predictions of a split in a run directory."""
    from focalcal.predictions import open_predictions

    return open_predictions(predictions_file(path, split), **reading)


def shown_names(first: Path, second: Path) -> tuple[str, str]:
    """What to call two files: their names, with the folder's where those are equal.

    Examples:
        >>> shown_names(Path("runs/a/test.npz"), Path("runs/b/test.npz"))
        ('a/test.npz', 'b/test.npz')
    """
    a, b = first.resolve(), second.resolve()
    names = (a.name, b.name) if a.name != b.name else (f"{a.parent.name}/{a.name}", f"{b.parent.name}/{b.name}")
    return names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")
