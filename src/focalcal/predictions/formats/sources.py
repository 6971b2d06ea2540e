"""Sources: opened files of any format, with a header, and the samples in raw blocks, one after another.

Arrays that are stored as plain bytes are read a few samples at a time into memory of their own. Plain reads instead of
a memory map: the process holds one block, whatever the size of the file.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import chunks
from focalcal.base.files import regular_file
from focalcal.predictions.formats.parts import GROUPS, Metadata, find_parts
from focalcal.predictions.groups import GroupColumn
from focalcal.predictions.read_options import Choices, Key
from focalcal.predictions.rows import Kind

# Gives the next n samples of an array, as numpy or torch has them; only forwards.
Take = Callable[[int], Any]
# Some consecutive samples as they stand in the file, by the names of the parts that the source has.
RawBlock = dict[str, Any]
_IDS_AT_ONCE = 2**13
# Decompressing more in one call makes zipfile copy what it has again and again.
_PIECE = 2**18
# An array in Fortran order has to be read whole to get at one sample; up to here that does no harm.
_FORTRAN_LIMIT = 64 * 2**20


class Source(ABC):
    """An opened file of predictions; each call of ``read_blocks`` reads it again from the start."""

    kind: Kind
    sample_shape: tuple[int, ...]  # of the values of one sample: (K,), (K, d1, ...), or () for one column
    metadata: Metadata
    parts: Collection[str]  # that it has: "values", and if there are any "labels", "weights", "ids", "groups:NAME" ...
    names: list[Key]  # of everything in the file, for messages
    dropped: int = 0  # rows without a value that the last pass has left out

    @property
    @abstractmethod
    def num_samples(self) -> int:
        """Samples in the file."""

    @abstractmethod
    def read_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Read blocks of at most ``samples`` samples."""

    @abstractmethod
    def read_part(self, part: str) -> Iterator[Any]:
        """Read one part alone, in blocks."""


class StoredArray(ABC):
    """An array in a file, of which samples (entries of the first dimension) can be read in order."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Take]:
        """Start at the first sample."""

    def read_all(self) -> Any:
        """Read all of it."""
        with self.reader() as take:
            return take(self.shape[0] if self.shape else 1)


@dataclass(frozen=True)
class MemoryArray(StoredArray):
    """An array in memory, read like one in a file; an array of numpy's where it is text."""

    tensor: Tensor | np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return tuple(self.tensor.shape)

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        rest = self.tensor

        def take(count: int) -> Tensor | np.ndarray:
            nonlocal rest
            taken, rest = rest[:count], rest[count:]
            return taken

        yield take


@dataclass(frozen=True)
class GroupArray(StoredArray):
    """Groups as numbers, whose names are elsewhere."""

    codes: StoredArray
    name: str
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """(N,)."""
        return self.codes.shape

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with self.codes.reader() as take_codes:

            def take(count: int) -> GroupColumn:
                codes = torch.from_numpy(np.asarray(take_codes(count)).astype(np.int64).reshape(-1))
                if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.names):
                    raise ValueError(f"its groups {self.name!r} are corrupt: they have numbers without a name.")
                return GroupColumn(codes, self.names)

            yield take


class ArraySource(Source):
    """A file of named arrays with one entry per sample."""

    def __init__(self, arrays: dict[str, StoredArray], metadata: Metadata, choices: Choices) -> None:
        self.kind, names = find_parts(arrays, choices)
        self.names = list(arrays)
        self.metadata = metadata
        self._arrays = {part: arrays[name] for part, name in names.items() if isinstance(name, str)}
        for name, groups in metadata.group_names.items():
            if (part := GROUPS + name) in self._arrays:
                self._arrays[part] = GroupArray(self._arrays[part], name, groups)
        self.parts = self._arrays.keys()
        self._num_samples, *sample_shape = self._arrays["values"].shape or (0,)
        self.sample_shape = tuple(sample_shape)
        self._drops = choices.drop_missing
        self._check_lengths()

    def _without_missing(self, block: RawBlock, rows: int) -> RawBlock:
        """Leave out samples with a NaN in any part."""
        kept = np.ones(rows, np.bool_)
        for part in block.values():
            if isinstance(part, np.ndarray) and part.dtype.kind == "f":
                kept &= ~np.isnan(part.reshape(rows, -1)).any(axis=1)
        self.dropped += int((~kept).sum())
        index = np.flatnonzero(kept)
        return {"rows": index, **{name: _pick(part, index) for name, part in block.items()}}

    def _check_lengths(self) -> None:
        for part, array in self._arrays.items():
            if array.shape[:1] != (self._num_samples,):
                raise ValueError(f"its {part} have shape {array.shape}, but there are {self._num_samples} samples.")

    @property
    def num_samples(self) -> int:
        """Samples in the file."""
        return self._num_samples

    def read_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Read blocks of ``samples`` samples."""
        with ExitStack() as stack:
            takes = {part: stack.enter_context(array.reader()) for part, array in self._arrays.items()}
            self.dropped = 0
            for block in chunks(self._num_samples, budget=samples):
                raw = {part: take(block.stop - block.start) for part, take in takes.items()}
                yield self._without_missing(raw, block.stop - block.start) if self._drops else raw

    def read_part(self, part: str) -> Iterator[Any]:
        """Read one part alone, in blocks."""
        with self._arrays[part].reader() as take:
            for block in chunks(self._num_samples, budget=_IDS_AT_ONCE):
                yield take(block.stop - block.start)


def _pick(part: Any, index: np.ndarray) -> Any:
    if isinstance(part, list):
        return [part[row] for row in index.tolist()]
    return part[index] if isinstance(part, np.ndarray) else part[torch.from_numpy(index)]


class Readable(Protocol):
    """A file, or a member of an archive."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer, or less of it, and return how much; 0 at the end."""


@dataclass(frozen=True)
class ArrayLayout:
    """The meaning of the bytes of an array."""

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
        _check_unicode(array)
        return array if layout.torch_dtype is None else torch.from_numpy(array).view(layout.torch_dtype)

    return take


@dataclass(frozen=True)
class LaidOutArray(StoredArray):
    """An array in a file whose header says how its bytes are laid out."""

    path: str | os.PathLike[str]
    layout: ArrayLayout

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return self.layout.shape


@dataclass(frozen=True)
class FileArray(LaidOutArray):
    """An array at an offset in a file that is not compressed."""

    offset: int

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with open(regular_file(self.path), "rb", buffering=0) as file:
            file.seek(self.offset)
            yield take_from(file, self.layout)


def _check_unicode(array: np.ndarray) -> None:
    """Refuse text of which Python would make broken strings: numpy does not look at it."""
    if array.dtype.kind == "U" and array.nbytes:
        codes = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if int(codes.max()) > sys.maxunicode:
            raise ValueError("it is corrupt: it holds text that is not Unicode.")


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
