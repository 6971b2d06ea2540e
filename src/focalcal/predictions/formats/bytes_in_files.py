"""Arrays that lie in a file as plain bytes, read a few samples at a time into memory of their own.

Plain reads and no memory map: the process holds one block, whatever the size of the file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import torch

from focalcal.predictions.formats.sources import StoredArray, Take

# Decompressing more in one call makes zipfile copy what it has again and again.
_PIECE = 2**18
# An array in Fortran order has to be read whole to get at one sample; up to here that is no harm.
_FORTRAN_LIMIT = 64 * 2**20


class Readable(Protocol):
    """A file, or a member of an archive."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer, or less of it, and say how much; 0 at the end."""


@dataclass(frozen=True)
class ArrayLayout:
    """How the bytes of an array are meant."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    torch_dtype: torch.dtype | None = None  # for types that numpy does not have, read as integers of the same size
    fortran: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the whole array."""
        return prod(self.shape) * self.dtype.itemsize


def take_from(file: Readable, layout: ArrayLayout) -> Take:
    """Return a function that reads the next n samples of the array that starts at the file's position."""
    if layout.fortran and len(layout.shape) > 1:
        return _take_from_fortran(file, layout)
    sample_shape = layout.shape[1:]

    def take(count: int) -> Any:
        array = np.empty((count, *sample_shape), layout.dtype)
        _fill(file, array)
        return array if layout.torch_dtype is None else torch.from_numpy(array).view(layout.torch_dtype)

    return take


@dataclass(frozen=True)
class FileArray(StoredArray):
    """An array at an offset in a file that is not compressed."""

    path: str | os.PathLike[str]
    offset: int
    layout: ArrayLayout

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return self.layout.shape

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset)
            yield take_from(file, self.layout)


def _fill(file: Readable, array: np.ndarray) -> None:
    if array.nbytes == 0:
        return
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = file.readinto(view[done : done + _PIECE])
        if not count:
            raise EOFError("the file ends inside an array")
        done += count


def _take_from_fortran(file: Readable, layout: ArrayLayout) -> Take:
    remaining: list[np.ndarray] = []

    def take(count: int) -> Any:
        if not remaining:
            if count < layout.shape[0] and layout.nbytes > _FORTRAN_LIMIT:
                raise ValueError(
                    "it holds a large array in Fortran order, which cannot be read in blocks; "
                    "save it again after numpy.ascontiguousarray."
                )
            turned = np.empty(layout.shape[::-1], layout.dtype)
            _fill(file, turned)
            remaining.append(turned.T)
        rows, remaining[0] = remaining[0][:count], remaining[0][count:]
        return np.ascontiguousarray(rows)

    return take
