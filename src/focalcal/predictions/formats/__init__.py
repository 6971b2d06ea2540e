"""File formats by their endings."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from focalcal.base.files import atomic_writer
from focalcal.predictions.container import Predictions

if TYPE_CHECKING:
    from types import ModuleType

    from focalcal.predictions.formats.safetensors import Compact
    from focalcal.predictions.formats.sources import Source
    from focalcal.predictions.read_options import Choices

Path = str | os.PathLike[str]


class Format(NamedTuple):
    """A module of this package with ``BROKEN``, the errors of a damaged file, and the names of its functions."""

    module: str
    opener: str = "open_source"
    writer: str | None = "write"

    def load(self) -> "ModuleType":
        """Import the module; only when it is used, since pyarrow takes its time."""
        return import_module(f"focalcal.predictions.formats.{self.module}")

    def broken(self) -> tuple[type[Exception], ...]:
        """Return the errors by which the readers of this format show that a file is damaged."""
        errors: tuple[type[Exception], ...] = self.load().BROKEN
        return errors

    def open(self, path: Path, choices: "Choices") -> "Source":
        """Open a file, which reads its header."""
        source: Source = getattr(self.load(), self.opener)(path, choices)
        return source


_FORMATS = {
    ".safetensors": Format("safetensors"),
    ".npz": Format("npz", "open_npz"),
    ".npy": Format("npz", "open_npy_values", writer=None),
    ".parquet": Format("parquet"),
    ".csv": Format("csv"),
    ".tsv": Format("csv", writer=None),
    ".jsonl": Format("jsonl", writer=None),
    ".csv.gz": Format("csv", writer="write_compressed"),
    ".tsv.gz": Format("csv", writer=None),
    ".jsonl.gz": Format("jsonl", writer=None),
}


def find_format(path: Path) -> Format:
    """Return the format that the ending of a file's name says."""
    name = os.fspath(path)
    stem, ending = os.path.splitext(name.lower())
    if ending == ".gz":
        ending = os.path.splitext(stem)[1] + ending
    if ending not in _FORMATS:
        raise ValueError(f"{name} ends in none of {', '.join(_FORMATS)}; predictions are in one of these formats.")
    return _FORMATS[ending]


def save_predictions(preds: Predictions, path: Path, compact: "Compact | None" = None) -> None:
    """Write predictions in the format that the ending says, or in the compact form that safetensors has."""
    chosen = find_format(path)
    if chosen.writer is None:
        raise ValueError(f"{os.fspath(path)} cannot be written: such files are only read; save to .npz or .csv.")
    options: dict[str, Any] = {}
    if compact is not None:
        if chosen.module != "safetensors":
            raise ValueError(f"{os.fspath(path)} cannot be compact: only .safetensors has that form.")
        options = {"compact": compact}
    write = getattr(chosen.load(), chosen.writer)
    with atomic_writer(path) as file:
        write(preds, file, **options)
