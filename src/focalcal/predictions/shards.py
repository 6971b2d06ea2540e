"""Shards: predictions of one model in several files, here or on remote storage."""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from focalcal.base.remote import find_remote, is_remote
from focalcal.predictions.predictions_file import PredictionsFile, open_predictions
from focalcal.predictions.read_options import ReadOptions

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Shard:
    """What must be known of a file before it is read.

    Attributes:
        path: The file.
        rows: The number of rows, those that are dropped for their label included.
        facts: What all shards have in common: kind, number of classes, their names, masked classes, what calibration
            is measured of.
        split: The name of the set, or None.
    """

    path: str
    rows: int
    facts: tuple[tuple[str, Any], ...]
    split: str | None

    @classmethod
    def of(cls, file: PredictionsFile) -> "Shard":
        """Describe an opened file."""
        names = ("kind", "num_classes", "class_names", "masked_classes", "of")
        facts = tuple((name, getattr(file, name, None)) for name in names)
        return cls(os.fspath(file.path), file.num_samples, facts, file.split)


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pattern of several files: ``preds/*.parquet``.

    Examples:
        >>> is_pattern("preds/*.parquet"), is_pattern("test.parquet")
        (True, False)
    """
    return glob.has_magic(os.fspath(path)) and (is_remote(path) or not os.path.exists(path))


def find_shards(paths: Paths) -> list[str]:
    """Find files by their names and by patterns; those of a pattern come in the order of their names.

    Raises:
        ValueError: A pattern matches nothing, or a file is named twice.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[str] = []
    for path in map(os.fspath, given):
        if not is_pattern(path):
            found.append(path)
            continue
        matching = find_remote(path) if is_remote(path) else sorted(glob.glob(path, recursive=True))
        if not matching:
            raise ValueError(f"No file matches {path}; check the folder, and quote the pattern in a shell.")
        found += matching
    if not found:
        raise ValueError("There is no shard to read; name at least one file.")
    repeated = next((path for path in found if found.count(path) > 1), None) if len(set(found)) < len(found) else None
    if repeated is not None:
        raise ValueError(f"{repeated} is named twice; its samples would count twice.")
    return found


def describe_shard(path: str, options: ReadOptions, *, needs_labels: bool = True) -> Shard:
    """Open a file and describe it."""
    file = open_predictions(path, **options)
    if needs_labels:
        file.check_labels()
    return Shard.of(file)


def check_alike(shards: Iterable[Shard]) -> None:
    """Refuse shards that are not predictions of one model: other classes or columns, logits beside probabilities."""
    first, *others = shards
    for shard in others:
        for (name, expected), (_, found) in zip(first.facts, shard.facts, strict=True):
            if found != expected:
                raise ValueError(
                    f"{shard.path} does not go with {first.path}: its {_WORDS[name]} {_show(found)}, and there "
                    f"{_show(expected)}; evaluate them one by one."
                )


_WORDS = {
    "kind": "outputs are",
    "num_classes": "number of classes is",
    "class_names": "class names are",
    "masked_classes": "masked classes are",
    "of": "calibration is measured of",
}


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value[:5])) + (", …" if len(value) > 5 else "") if value else "none"
    return str(value)
