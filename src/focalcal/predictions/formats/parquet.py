"""Predictions in parquet.

Written: one row per sample; ``logits`` or ``probs`` a list column, ``labels`` a column of integers or a list column,
``weights``, ``ids``; the rest in the schema's metadata (parts.py). Read: also one column per class (tables.py).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from focalcal.base.chunks import chunk_rows
from focalcal.base.files import DAMAGE, check_unpacked, regular_file
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.contents import KEY, STATEMENT, check_stated, state_contents
from focalcal.predictions.formats.parts import PartArray, part_arrays, read_marked_text, write_marked_text
from focalcal.predictions.formats.tabular import Constant, Field, Table, TableSource, plain_column
from focalcal.predictions.read_options import Choices

BROKEN = (*DAMAGE, pa.ArrowException)

_VALUES_IN_A_ROW_GROUP = 2**21
_READ_BUFFER = 2**16  # bytes per column; without it a whole column chunk is read at once
_COLUMNS_AT_ONCE = 4
_ROWS_AT_ONCE = 2**16
_STRETCH_BYTES = 96 * 2**20  # if numbers have 8 bytes; half of it for float32
_STRETCHES = 12  # at most, in a row group
_NUMBER_BYTES = 8
_TRAILER = 8  # bytes after the footer: its length, and PAR1
_SMALLEST_ROW = 3 * _NUMBER_BYTES  # in memory: two classes and a label


def write(preds: Predictions, file: BinaryIO) -> None:
    """Write row groups of some megabytes, so that a reader never needs more than that."""
    schema = _make_schema(preds)
    rows = chunk_rows(preds.num_classes, _VALUES_IN_A_ROW_GROUP)
    # Almost all floats differ, so that a dictionary of them is only overhead; checksums reveal a damaged page.
    with pq.ParquetWriter(file, schema, use_dictionary=False, write_page_checksum=True) as writer:
        for block in preds.blocks(rows):
            writer.write_batch(pa.record_batch([_column(part) for part in part_arrays(block).values()], schema=schema))


def open_source(path: str | os.PathLike[str], choices: Choices) -> TableSource:
    """Read the footer."""
    return TableSource(ParquetTable(path), choices)


class ParquetTable(Table):
    """A parquet file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        with self._open() as file:
            self.names = list(file.schema_arrow.names)
            self._types = list(file.schema_arrow.types)
            text = _text(file.schema_arrow.metadata)
            _check_whole(self._path, file.schema_arrow.metadata)
            check_stated(self.names, text)
            self.metadata = read_marked_text(text)
            self.is_ours = bool(text)
            self._num_rows = file.metadata.num_rows
            packed = os.path.getsize(self._path)
            largest = max((file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), default=0)
            check_unpacked("largest row group", largest, packed)
            check_unpacked("rows", _SMALLEST_ROW * self._num_rows, packed)
        self.declared_rows = self._num_rows
        self.constants = self._find_split_column()

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return int(self._num_rows)

    def list_length(self, column: int) -> int | None:
        """Return the length of all lists of a column of such a type, as our own files have."""
        kind = self._types[column]
        return kind.list_size if pa.types.is_fixed_size_list(kind) and self._num_rows else None

    def batches(self, columns: Sequence[int], fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        """Read these columns, at most ``rows`` rows at a time."""
        names = [self.names[column] for column in columns]
        for name in names:
            if self.names.count(name) > 1:
                raise ValueError(f"it has several columns {name!r}; rename all but one.")
        with self._open() as file:
            read = _read_rows_together if len(columns) <= _COLUMNS_AT_ONCE else _read_columns_in_turn
            yield from read(file, dict(zip(columns, names, strict=True)), rows)

    def _open(self) -> Any:
        return pq.ParquetFile(
            regular_file(self._path), buffer_size=_READ_BUFFER, pre_buffer=False, page_checksum_verification=True
        )

    def _find_split_column(self) -> list[Constant]:
        """Look for a column with the split, which tables of others may have."""
        if self.metadata.split is not None or "split" not in self.names:
            return []
        column = self.names.index("split")
        for batch in self.batches([column], {}, 1):
            text = batch[column][0].as_py()
            if isinstance(text, str):
                self.metadata = replace(self.metadata, split=text)
                return [Constant(column, text)]
        return []


def _read_rows_together(file: Any, names: dict[int, str], rows: int) -> Iterator[dict[int, pa.Array]]:
    for batch in file.iter_batches(rows, columns=list(names.values()), use_threads=False):
        yield {column: batch.column(name) for column, name in names.items()}


def _read_columns_in_turn(file: Any, names: dict[int, str], rows: int) -> Iterator[dict[int, pa.Array]]:
    """Read a stretch of rows a few columns at a time.

    A column that is being read keeps its dictionary and a page, megabytes by default: with a thousand columns at once
    that is more than the file. A stretch inside a row group is found by reading over what comes before it, which costs
    time; hence stretches grow with the row group.
    """
    for group in range(file.num_row_groups):
        group_rows = file.metadata.row_group(group).num_rows
        stretch_bytes = max(_STRETCH_BYTES, group_rows * len(names) * _NUMBER_BYTES // _STRETCHES)
        stretch = max(rows, stretch_bytes // (len(names) * _NUMBER_BYTES))
        for start in range(0, group_rows, stretch):
            stop = min(start + stretch, group_rows)
            arrays: dict[str, pa.Array] = {}
            for first in range(0, len(names), _COLUMNS_AT_ONCE):
                few = list(names.values())[first : first + _COLUMNS_AT_ONCE]
                arrays |= _read_stretch(file, group, few, start, stop)
            for row in range(0, stop - start, rows):
                yield {column: arrays[name].slice(row, rows) for column, name in names.items()}
            del arrays  # before the next stretch is read


def _read_stretch(file: Any, group: int, names: list[str], start: int, stop: int) -> dict[str, pa.Array]:
    """Read rows ``start`` to ``stop`` of a row group."""
    pieces: dict[str, list[pa.Array]] = {name: [] for name in names}
    row = 0
    for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=names, use_threads=False):
        low, high = max(start - row, 0), min(stop - row, batch.num_rows)
        if low < high:
            for name in names:
                pieces[name].append(batch.column(name).slice(low, high - low))
        row += batch.num_rows
        if row >= stop:
            break
    return {name: pa.concat_arrays(arrays) for name, arrays in pieces.items()}


def _make_schema(preds: Predictions) -> pa.Schema:
    first = {name: _column(part) for name, part in part_arrays(next(preds.blocks(1))).items()}
    fields = [pa.field(name, column.type, nullable=False) for name, column in first.items()]
    about = write_marked_text(preds)
    return pa.schema(fields, metadata={**about, KEY: state_contents(first, about)})


def _column(part: PartArray) -> pa.Array:
    if not isinstance(part, np.ndarray) or part.ndim == 1:
        return plain_column(part)
    return pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), part.shape[1])


def _check_whole(path: str | os.PathLike[str], metadata: dict[bytes, bytes] | None) -> None:
    """Refuse a footer that has our metadata, and by damage in front of it hides that from a reader."""
    if metadata and KEY.encode() in metadata:
        return
    with open(regular_file(path), "rb") as file:
        file.seek(-_TRAILER, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-min(length + _TRAILER, os.path.getsize(path)), os.SEEK_END)
        if STATEMENT in file.read(length):
            raise ValueError("its footer is corrupt: the metadata that it was written with cannot be read.")


def _text(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    """Return only what is ours: others may put bytes there that are not text."""
    if not metadata or not {b"focalcal", KEY.encode()} & metadata.keys():
        return {}
    return {key.decode(): value.decode() for key, value in metadata.items() if key != b"ARROW:schema"}
