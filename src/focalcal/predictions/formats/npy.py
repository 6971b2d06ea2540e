"""Logits or probabilities alone in an npy: the caller says which, and where the labels are. Nothing is unpickled."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO

import numpy as np

from focalcal.predictions.formats.bytes_in_files import ArrayLayout, FileArray
from focalcal.predictions.formats.sources import ArraySource, Metadata, StoredArray, Take
from focalcal.predictions.options import Choices

BROKEN = (EOFError, OverflowError, MemoryError)


def open_source(path: str | os.PathLike[str], choices: Choices) -> ArraySource:
    """Take an npy as the values that ``choices.kind`` says they are."""
    if choices.kind is None:
        raise ValueError("an npy does not say what it holds; pass kind='logits' or kind='probs'.")
    if choices.labels is None:
        raise ValueError("an npy has no labels; pass labels=, an array or the path of another npy.")
    return ArraySource({choices.kind: open_npy(path)}, Metadata(), choices)


def open_npy(path: str | os.PathLike[str]) -> StoredArray:
    """Read the header of an npy."""
    with open(path, "rb") as file:
        layout = npy_layout(file, os.path.getsize(path), "array")
        if layout.dtype.hasobject:
            return PickledArray("array")
        return FileArray(path, file.tell(), layout)


@dataclass(frozen=True)
class PickledArray(StoredArray):
    """An array of Python objects: it may be in a file, but not be one of the parts of predictions."""

    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Never known."""
        raise ValueError(self._sentence())

    def reader(self) -> AbstractContextManager[Take]:
        """Never made."""
        raise ValueError(self._sentence())

    def _sentence(self) -> str:
        return (
            f"its {self.name} holds Python objects, which focalcal never unpickles; save it as plain numbers or text."
        )


def npy_layout(file: IO[bytes], size: int, name: str) -> ArrayLayout:
    """Read the header of an npy and leave the file at the first byte of the array."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise ValueError(f"its {name} is corrupt, or no array as numpy writes it.") from error
    layout = ArrayLayout(tuple(shape), dtype, fortran=fortran)
    if not dtype.hasobject and file.tell() + layout.nbytes != size:
        raise ValueError(f"its {name} is truncated or corrupt: shape {layout.shape} does not fit its size.")
    return layout
