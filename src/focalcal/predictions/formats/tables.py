"""Predictions in a table: what parquet and csv have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from focalcal.predictions.formats.columns import Field, find_fields
from focalcal.predictions.formats.sources import Metadata, RawBlock, Source
from focalcal.predictions.options import Choices, Key, find_roles

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_VALUES_AT_ONCE = 2**20
_PARTS = ("values", "labels", "weights", "ids")


@dataclass(frozen=True)
class Constant:
    """A column that must have the same text in every row."""

    column: int
    text: str


class Table(ABC):
    """A file with columns, read in batches."""

    names: list[str]
    metadata: Metadata
    constants: list[Constant]
    declared_rows: int | None  # what the file itself says, where it does

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows in the file."""

    @abstractmethod
    def batches(self, columns: Sequence[int], fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        """Read these columns, at most ``rows`` rows at a time; ``fields`` says which of them have which part."""


class TableSource(Source):
    """Predictions of which each part is one or more columns."""

    def __init__(self, table: Table, choices: Choices) -> None:
        found = find_fields(table.names, choices)
        names: list[Key] = [*found, *(name for name in dict.fromkeys(table.names) if name not in found)]
        roles = find_roles(names, choices)
        self.kind = roles.kind
        self._table = table
        keys = {part: getattr(roles, part) for part in _PARTS}
        self._fields = {part: found[key] for part, key in keys.items() if key is not None}
        self.has_weights, self.has_ids = "weights" in self._fields, "ids" in self._fields
        self.metadata = _with_class_names(table.metadata, self._fields)
        self.sample_shape = ()  # until the first row is seen
        self.sample_shape = self._sample_shape()

    @property
    def num_samples(self) -> int:
        """Rows in the table."""
        return self._table.num_rows

    def raw_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Give blocks of at most ``samples`` rows."""
        start = 0
        for batch in self._batches(
            self._fields, min(samples, max(1, _VALUES_AT_ONCE // max(1, prod(self.sample_shape))))
        ):
            count = len(next(iter(batch.values())))
            for constant in self._table.constants:
                _check_constant(batch[constant.column], constant, self._table.names)
            parts = {part: self._part(part, batch, start) for part in self._fields}
            del batch  # it may keep a long stretch of the file in memory while the next one is read
            yield RawBlock(*(parts.get(part) for part in _PARTS))
            start += count
        if self._table.declared_rows not in (None, start):
            raise ValueError(
                f"it has {start} rows but says that it had {self._table.declared_rows} when it was written: it is "
                "truncated or edited (remove the column 'focalcal:rows' if that was on purpose)."
            )

    def id_blocks(self) -> Iterator[Sequence[object]]:
        """Give the ids alone, in blocks."""
        fields = {"ids": self._fields["ids"]}
        start = 0
        for batch in self._batches(fields, 2**16):
            yield self._part("ids", batch, start)
            start += len(batch[fields["ids"].columns[0]])

    def _batches(self, fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        columns = {column for field in fields.values() for column in field.columns}
        columns |= {constant.column for constant in self._table.constants}
        return self._table.batches(sorted(columns), fields, rows)

    def _part(self, part: str, batch: dict[int, pa.Array], start: int) -> Any:
        field = self._fields[part]
        columns = [batch[column] for column in field.columns]
        for position, column in zip(field.columns, columns, strict=True):
            _check_present(column, self._table.names[position], start)
        if part == "ids":
            return columns[0].to_pylist()
        if not field.single:
            return _stacked(columns)
        # Only the values' length has been seen before this block.
        length = self.sample_shape[0] if part == "values" and self.sample_shape else None
        return _numbers_or_lists(columns[0], self._table.names[field.columns[0]], start, length)

    def _sample_shape(self) -> tuple[int, ...]:
        """Of a list column only the first row says how many classes there are."""
        field = self._fields["values"]
        if not field.single:
            return (len(field.columns),)
        for batch in self._batches({"values": field}, 1):
            shape: tuple[int, ...] = self._part("values", batch, 0).shape[1:]
            return shape
        return ()


def _with_class_names(metadata: Metadata, fields: dict[str, Field]) -> Metadata:
    """Take the names from the columns, and refuse soft labels whose columns name other classes than the values'."""
    names = fields["values"].class_names
    label_names = fields["labels"].class_names if "labels" in fields else None
    if label_names is not None and names is not None and label_names != names:
        raise ValueError("its columns of labels name other classes, or in another order, than its columns of values.")
    return metadata if names is None else replace(metadata, class_names=names)


def _check_present(column: pa.Array, name: str, start: int) -> None:
    if column.null_count:
        row = start + pc.index(column.is_null(), True).as_py()
        raise ValueError(f"its column {name!r} has no value in row {row}; fill it or remove the row.")


def _check_constant(column: pa.Array, constant: Constant, names: list[str]) -> None:
    texts = pc.unique(column.cast(pa.string())).to_pylist()
    other = [text for text in texts if text != constant.text]
    if other:
        raise ValueError(
            f"its column {names[constant.column]!r} has both {constant.text!r} and {other[0]!r}; "
            "save the rows of each to a file of their own."
        )


def _stacked(columns: list[pa.Array]) -> np.ndarray:
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns]
    matrix = np.empty((len(arrays[0]), len(arrays)), np.result_type(*arrays))
    for index, array in enumerate(arrays):
        matrix[:, index] = array
    return matrix


def _numbers_or_lists(column: pa.Array, name: str, start: int, length: int | None) -> np.ndarray:
    """A column of numbers to (n,), a column of lists to (n, K); K is ``length``, or that of the first list."""
    if not any(is_lists(column.type) for is_lists in _LISTS):
        numbers: np.ndarray = column.to_numpy(zero_copy_only=False)
        return numbers
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    expected = int(lengths[0]) if length is None else length
    wrong = np.flatnonzero(lengths != expected)
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"its column {name!r} has {lengths[row]} values in row {start + row} and {expected} before.")
    flat = column.flatten()
    if flat.null_count:
        row = start + pc.index(flat.is_null(), True).as_py() // expected
        raise ValueError(f"its column {name!r} lacks a number in row {row}; fill it or remove the row.")
    matrix: np.ndarray = flat.to_numpy(zero_copy_only=False).reshape(len(column), expected)
    return matrix
