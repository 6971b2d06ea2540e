"""Predictions in npz, and values alone in npy, as numpy writes them; nothing is ever unpickled.

An npz has the arrays ``logits`` or ``probs``/``predictions``, ``labels``/``ground_truth``, and if there are any
``weights``, ``ids`` (text or integers), ``class_names``, ``masked_classes``, ``split``, ``provenance`` (JSON) and
``row_sum_tolerance``. Of an npy the caller says whether it holds logits or probabilities, and where the labels are.
"""

import lzma
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

import numpy as np

from focalcal.base.files import DAMAGE, check_unpacked, parse_json, regular_file
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.contents import check_contents, state_contents
from focalcal.predictions.formats.parts import (
    FACTS,
    Metadata,
    json_text,
    part_arrays,
    read_text,
    write_group_names,
    write_text,
)
from focalcal.predictions.formats.sources import (
    ArrayLayout,
    ArraySource,
    FileArray,
    LaidOutArray,
    StoredArray,
    Take,
    take_from,
)
from focalcal.predictions.groups import GroupColumn
from focalcal.predictions.read_options import Choices

BROKEN = (*DAMAGE, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError)

_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip knows
_COMMENT = b"focalcal contents "  # of the archive: numpy neither reads nor writes it
_LARGEST_FACT = 64 * 2**20  # bytes of class names, a split, provenance, …
_LONGEST_TEXT = 4096  # characters of an id
_END_RECORD = 22  # bytes of a zip's last record, without the comment that follows
_LONGEST_END = _END_RECORD + 2**16
_LISTS = ("class_names", "masked_classes")  # arrays with several entries; other facts are single values


def write(preds: Predictions, file: BinaryIO) -> None:
    """Write an uncompressed npz that does not depend on the time of day; what would not be read again is refused."""
    arrays = _all_arrays(preds)
    for name, array in arrays.items():
        try:
            _check_text_size(ArrayLayout(array.shape, array.dtype), name)
        except ValueError as error:
            raise ValueError(f"An .npz cannot hold this: {error} Save to .safetensors or .parquet instead.") from error
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = _COMMENT + state_contents(arrays).encode()
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", _NO_DATE)
            info.create_system = 3  # not the system that happens to run
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def open_npz(path: str | os.PathLike[str], choices: Choices) -> ArraySource:
    """Read the table of contents and the header of every array."""
    with zipfile.ZipFile(regular_file(path)) as archive:
        arrays: dict[str, StoredArray] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds two arrays {name!r}; save it again with one of them.")
            if name != info.filename:
                check_unpacked(name, info.file_size, info.compress_size)
                with archive.open(info) as member:
                    layout = _read_header(member, info.file_size, name)
                pickled = layout.dtype.hasobject
                arrays[name] = PickledArray(name) if pickled else ZipArray(path, layout, info.filename)
        _check_end(path)
        if b"focalcal" in archive.comment or b'"arrays"' in archive.comment:
            check_contents(archive.comment.removeprefix(_COMMENT).decode(), arrays)
    return ArraySource(arrays, _take_facts(arrays), choices)


def _check_end(path: str | os.PathLike[str]) -> None:
    """Refuse an archive whose comment is cut short, which zipfile does not mind: it says what should be there."""
    with open(regular_file(path), "rb") as file:
        file.seek(-min(_LONGEST_END, os.path.getsize(path)), os.SEEK_END)
        end = file.read()
    record = end[end.rfind(b"PK\x05\x06") :]
    if len(record) < _END_RECORD + int.from_bytes(record[_END_RECORD - 2 : _END_RECORD], "little"):
        raise zipfile.BadZipFile("the end of the archive is missing")


def open_npy_values(path: str | os.PathLike[str], choices: Choices) -> ArraySource:
    """Read an npy as the values that ``choices.kind`` says they are."""
    if choices.kind is None:
        raise ValueError("an npy does not say what it holds; pass kind='logits' or kind='probs'.")
    return ArraySource({choices.kind: open_npy(path)}, Metadata(), choices)


def open_npy(path: str | os.PathLike[str]) -> StoredArray:
    """Read the header of an npy."""
    with open(regular_file(path), "rb") as file:
        layout = _read_header(file, os.path.getsize(path), "array")
        if layout.dtype.hasobject:
            return PickledArray("array")
        return FileArray(path, layout, file.tell())


@dataclass(frozen=True)
class ZipArray(LaidOutArray):
    """An npy inside a zip archive, compressed or not."""

    member: str

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with zipfile.ZipFile(regular_file(self.path)) as archive, archive.open(self.member) as file:
            _read_header(file, archive.getinfo(self.member).file_size, self.member.removesuffix(".npy"))
            take, left = take_from(cast(zipfile.ZipExtFile, file), self.layout), self.shape[0] if self.shape else 1

            def take_and_verify(count: int) -> Any:
                nonlocal left
                samples, left = take(count), left - count
                if left == 0:
                    file.read(1)  # the end of the member: only here zipfile compares the checksum
                return samples

            yield take_and_verify


def _all_arrays(preds: Predictions) -> dict[str, np.ndarray]:
    facts = {name: text for name, text in write_text(preds).items() if (name, text) != ("provenance", "{}")}
    facts |= write_group_names(preds)
    arrays = {
        name: part.codes.numpy() if isinstance(part, GroupColumn) else np.asarray(part)
        for name, part in part_arrays(preds).items()
    }
    return arrays | {name: _fact_array(name, text) for name, text in facts.items()}


def _fact_array(name: str, text: str) -> np.ndarray:
    return np.array(parse_json(text) if name in (*_LISTS, "row_sum_tolerance") else text)


def _take_facts(arrays: dict[str, StoredArray]) -> Metadata:
    """Read and take out the arrays that describe all samples."""
    found = {name: arrays.pop(name).read_all().reshape(-1).tolist() for name in FACTS if name in arrays}
    return read_text({name: _fact_text(name, values) for name, values in found.items()})


def _fact_text(name: str, values: list[Any]) -> str:
    texts = [value.decode() if isinstance(value, bytes) else value for value in values]
    if name in _LISTS:
        return json_text(texts)
    if len(texts) != 1:
        raise ValueError(f"its {name} should be a single value; rename or remove that array.")
    return str(texts[0])


@dataclass(frozen=True)
class PickledArray(StoredArray):
    """An array of Python objects: it may be in a file, but not as a part of predictions."""

    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Raise: it is not known without unpickling."""
        raise ValueError(self._sentence())

    def reader(self) -> AbstractContextManager[Take]:
        """Raise: nothing is unpickled."""
        raise ValueError(self._sentence())

    def _sentence(self) -> str:
        return (
            f"its {self.name} holds Python objects, which focalcal never unpickles; save it as plain numbers or text."
        )


def _check_text_size(layout: ArrayLayout, name: str) -> None:
    """Refuse text that is too long to be an id, a name or a fact: each becomes a Python object many times as large."""
    if layout.dtype.kind not in "US":
        return
    longest = layout.dtype.itemsize // (4 if layout.dtype.kind == "U" else 1)
    if name in FACTS and layout.nbytes > _LARGEST_FACT:
        raise ValueError(f"its {name} takes {layout.nbytes:,} bytes, and at most {_LARGEST_FACT:,} are read.")
    if name not in FACTS and longest > _LONGEST_TEXT:
        raise ValueError(f"its {name} has entries of {longest:,} characters, and at most {_LONGEST_TEXT:,} are read.")


def _read_header(file: IO[bytes], size: int, name: str) -> ArrayLayout:
    """Read the header of an npy and leave the file at the first byte of the array."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about Python that a damaged header looks like
            shape, fortran, dtype = read(file)
    except (EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError):
        raise
    except Exception as error:  # numpy parses the header as Python: what damage makes it raise has no end
        raise ValueError(f"its {name} is corrupt, or not an array as numpy writes it.") from error
    layout = ArrayLayout(tuple(shape), dtype, fortran=fortran)
    _check_text_size(layout, name)
    if not dtype.hasobject and file.tell() + layout.nbytes != size:
        raise ValueError(f"its {name} is truncated or corrupt: shape {layout.shape} does not fit its size.")
    return layout
