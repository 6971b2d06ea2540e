"""Shards: predictions of one model in several files, here or on remote storage."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from focalcal.base.remote import find_remote, is_remote
from focalcal.predictions.container import Predictions, concatenate
from focalcal.predictions.predictions_file import PredictionsFile, open_predictions
from focalcal.predictions.read_options import ReadOptions

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Shard:
    """Facts that must be known of a file before it is read.

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
    for path in (os.fspath(one) for one in given):
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


class ShardedFile(PredictionsFile):
    """Several files of predictions, read one after another like a single one.

    Args:
        path: The pattern, for messages.
        files: The opened files, which go together.
    """

    def __init__(self, path: str, files: Sequence[PredictionsFile]) -> None:
        vars(self).update(vars(files[0]))  # what is the same for all
        self.path, self.files = path, tuple(files)
        splits = {file.split for file in files}
        self.split = splits.pop() if len(splits) == 1 else None

    @property
    def num_samples(self) -> int:
        """Rows of all files."""
        return sum(file.num_samples for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def check_labels(self) -> None:
        """Refuse files without labels."""
        for file in self.files:
            file.check_labels()

    def blocks(self, rows: int | None = None, *, is_part: bool = False) -> Iterator[Predictions]:
        """Read one file after another."""
        empty = True
        for file in self.files:
            for block in file.blocks(rows, is_part=True):
                empty = False
                yield replace(block, split=self.split)
        if empty and not is_part:
            raise ValueError(f"{self.path}: the shards have no samples (or every label is ignore_index).")

    def read(self) -> Predictions:
        """Read all of it into memory."""
        return concatenate(list(self.blocks()))


def open_sharded(pattern: str, options: ReadOptions) -> ShardedFile:
    """Open all files that match a pattern, and check that they go together."""
    if options.get("labels") is not None:
        raise ValueError("Labels in a file of their own belong to one file of predictions, and these are several.")
    files = [open_predictions(path, **options) for path in find_shards(pattern)]
    check_alike([Shard.of(file) for file in files])
    return ShardedFile(pattern, files)


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
