"""Predictions in a table, parquet or csv: ``logits``, or ``logits_0``, ``logits_1`` ..., or ``logits:cat`` ...."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from focalcal.base.chunks import chunk_rows
from focalcal.predictions.formats.parts import (
    COLUMNS,
    GROUPS,
    LABEL_NAMES,
    TEXT_COLUMNS,
    VALUE_NAMES,
    Metadata,
    find_parts,
)
from focalcal.predictions.formats.sources import RawBlock, Source
from focalcal.predictions.groups import GroupColumn, number_texts
from focalcal.predictions.read_options import Choices, Key

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_VALUES_AT_ONCE = 2**20
# Parts of which empty text is nothing.
_NEVER_EMPTY = {"labels", "correct", "predicted", "clusters"}
_MOST_DIGITS = 10  # of the number of a class that are looked at: more are another number than that of any class
_NUMBERED = re.compile(r"_\d+$")
_PART_NAMES = {*LABEL_NAMES, *chain(*VALUE_NAMES.values()), *chain(*(column.names for column in COLUMNS))}


@dataclass(frozen=True)
class Field:
    """Columns that are one part of predictions.

    Attributes:
        columns: Their positions in the table, in the order of the classes.
        class_names: Names of the classes, where the columns' names say them.
        single: Whether it is one column that stands by itself: a number or a list in each row.
    """

    columns: tuple[int, ...]
    class_names: tuple[str, ...] | None = None
    single: bool = False


def find_fields(names: Sequence[str], choices: Choices) -> dict[Key, Field]:
    """Group the columns by the names that the parts of predictions may go by."""
    fields: dict[Key, Field] = {}
    groups = [name for name in names if name.startswith(GROUPS)]
    pairs = [key for key in (choices.confidence_key, choices.correct_key, choices.predicted_key) if key is not None]
    for key in [*_column_keys(choices), *pairs, *choices.groups_key, *groups]:
        if key in names:
            fields[key] = _find_single(names, key)
    for matrix_key in _matrix_keys(choices):
        field = _find_prefixed(names, matrix_key) if isinstance(matrix_key, str) else _find_listed(names, matrix_key)
        if field is not None:
            fields[matrix_key] = field
    for passed in (choices.logits_key, choices.probs_key, choices.labels_key):
        if isinstance(passed, str) and passed not in fields and (field := _find_loosely(names, passed)) is not None:
            fields[passed] = field
    return fields


def _find_loosely(names: Sequence[str], key: str) -> Field | None:
    """Find columns that a user names in one text: ``cat,dog,eel``, or the common beginning of several."""
    if "," in key:
        return _find_listed(names, [name.strip() for name in key.split(",")])
    found = [position for position, name in enumerate(names) if name.startswith(key)]
    classes = tuple(names[position].removeprefix(key).lstrip("_.:- ") for position in found)
    return Field(tuple(found), classes) if len(found) > 1 else None


def _column_keys(choices: Choices) -> list[str]:
    """List the names that the parts of one column may go by."""
    passed = [key for column in COLUMNS if isinstance(key := choices.key(column.name), str)]
    return passed + [name for column in COLUMNS for name in column.names]


def _matrix_keys(choices: Choices) -> list[Key]:
    """List the names that values or labels may go by, which may be several columns."""
    passed = [key for part in (*VALUE_NAMES, "labels") if (key := choices.key(part)) is not None]
    return passed + [name for names in (*VALUE_NAMES.values(), LABEL_NAMES) for name in names]


def _find_prefixed(names: Sequence[str], key: str) -> Field | None:
    pattern = re.compile(re.escape(key) + r"_(\d+)")
    matches = {position: match for position, name in enumerate(names) if (match := pattern.fullmatch(name))}
    numbered = {position: int(match[1][:_MOST_DIGITS]) for position, match in matches.items()}
    named = [position for position, name in enumerate(names) if name.startswith(f"{key}:")]
    if (key in names) + bool(numbered) + bool(named) > 1:
        raise ValueError(f"it has {key!r} in several layouts; keep one of {key}, {key}_0 ..., {key}:name ....")
    if key in names:
        return _find_single(names, key)
    if numbered:
        return _order_numbered(numbered, key)
    if named:
        return Field(tuple(named), tuple(names[position].removeprefix(f"{key}:") for position in named))
    return None


def _check_names(names: Sequence[str], found: dict[Key, Field]) -> None:
    """Refuse ``" weights"``, as a header with a space behind each comma has it: it would be left out in silence."""
    read = {column for field in found.values() for column in field.columns}
    for position, name in enumerate(names):
        meant = "".join(filter(str.isprintable, name)).strip()
        if name != meant and position not in read and _NUMBERED.sub("", meant) in _PART_NAMES:
            raise ValueError(
                f"its column {name!r} has white space or an invisible character in its name; call it {meant!r}."
            )


def _find_single(names: Sequence[str], name: str) -> Field:
    if list(names).count(name) > 1:
        raise ValueError(f"it has several columns {name!r}; rename all but one.")
    return Field((list(names).index(name),), single=True)


def _order_numbered(numbers: dict[int, int], key: str) -> Field:
    order = sorted(numbers, key=lambda position: numbers[position])
    if [numbers[position] for position in order] != list(range(len(order))):
        raise ValueError(f"its columns {key}_... are not numbered 0 to {len(order) - 1}; number them so.")
    return Field(tuple(order))


def _find_listed(names: Sequence[str], key: Sequence[str]) -> Field | None:
    """Find columns that were named one by one; their names are those of the classes."""
    if not all(name in names for name in key):
        return None
    columns = tuple(_find_single(names, name).columns[0] for name in key)
    return Field(columns, tuple(key))


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
    declared_rows: int | None  # number that the file itself states, if it does
    is_ours: bool = False  # whether focalcal wrote it

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows in the file."""

    def list_length(self, column: int) -> int | None:
        """Return the length of all lists of a column, where that is known without reading it."""
        return None

    @abstractmethod
    def batches(self, columns: Sequence[int], fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        """Read these columns, at most ``rows`` rows at a time; ``fields`` says which of them have which part."""


class TableSource(Source):
    """Predictions of which each part is one or more columns."""

    def __init__(self, table: Table, choices: Choices) -> None:
        found = find_fields(table.names, choices)
        _check_names(table.names, found)
        names: list[Key] = [*found, *(name for name in dict.fromkeys(table.names) if name not in found)]
        self.kind, keys = find_parts(names, choices)
        self.names = names
        self._choices = choices
        self.table = table
        self._fields = {part: found[key] for part, key in keys.items()}
        self.parts = self._fields.keys()
        self.metadata = _take_class_names(table.metadata, self._fields)
        self.sample_shape = ()  # until the first row is seen
        self.sample_shape = self._read_sample_shape()

    @property
    def num_samples(self) -> int:
        """Rows in the table."""
        return self.table.num_rows

    def read_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Read blocks of at most ``samples`` rows."""
        start = 0
        rows = min(samples, chunk_rows(prod(self.sample_shape), _VALUES_AT_ONCE))
        self.dropped = 0
        for batch in self._batches(self._fields, rows):
            count = len(next(iter(batch.values())))
            for constant in self.table.constants:
                _check_constant(batch[constant.column], constant, self.table.names)
            kept = {}
            if self._choices.drop_missing:
                kept["rows"], batch = _drop_missing(batch, self._used_columns)
                self.dropped += count - len(kept["rows"])
            parts = {**kept, **{part: self._read_part(part, batch, start) for part in self._fields}}
            del batch  # it may keep a long stretch of the file in memory while the next one is read
            yield parts
            start += count
        if self.table.declared_rows not in (None, start):
            raise ValueError(
                f"it has {start} rows but says that it had {self.table.declared_rows} when it was written: it is "
                "truncated or edited (remove the column 'focalcal:rows' if that was on purpose)."
            )

    def read_part(self, part: str) -> Iterator[Any]:
        """Read one part alone, in blocks."""
        fields = {part: self._fields[part]}
        start = 0
        for batch in self._batches(fields, 2**16):
            count = len(next(iter(batch.values())))
            present = _drop_missing(batch, fields[part].columns)[1] if self._choices.drop_missing else batch
            yield self._read_part(part, present, start)
            start += count

    @property
    def value_field(self) -> Field:
        """The columns with logits or probabilities."""
        return self._fields["values"]

    @property
    def has_other_columns(self) -> bool:
        """True if it is a table of others, or has columns that are no parts of predictions."""
        known = {*self._used_columns, *(constant.column for constant in self.table.constants)}
        return not self.table.is_ours or len(known) < len(self.table.names)

    @property
    def _used_columns(self) -> list[int]:
        return sorted({column for field in self._fields.values() for column in field.columns})

    def _batches(self, fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        columns = {column for field in fields.values() for column in field.columns}
        columns |= {constant.column for constant in self.table.constants}
        return self.table.batches(sorted(columns), fields, rows)

    def _read_part(self, part: str, batch: dict[int, pa.Array], start: int) -> Any:
        field = self._fields[part]
        columns = [batch[column] for column in field.columns]
        for position, column in zip(field.columns, columns, strict=True):
            _check_present(column, self.table.names[position], start, empty=self._means_nothing(part))
        if part in TEXT_COLUMNS:
            return columns[0].to_pylist()
        if part.startswith(GROUPS) or part == "predicted" or (part == "labels" and "predicted" in self._fields):
            return _read_groups(columns[0], part.removeprefix(GROUPS))
        if part == "clusters" and not pa.types.is_integer(columns[0].type):
            return _read_clusters(columns[0])
        if pa.types.is_dictionary(columns[0].type) and field.single:
            columns = [columns[0].dictionary_decode()]
        if not field.single:
            return _stack(columns)
        # Only the values' length has been seen before this block.
        length = self.sample_shape[0] if part == "values" and self.sample_shape else None
        return _read_numbers(columns[0], self.table.names[field.columns[0]], start, length)

    def _means_nothing(self, part: str) -> bool:
        """Return whether empty text is a missing value; our own files may have a group without a name."""
        return part in _NEVER_EMPTY or (part.startswith(GROUPS) and not self.table.is_ours)

    def _read_sample_shape(self) -> tuple[int, ...]:
        """Look at the first row: of a list column only that says how many classes there are."""
        field = self._fields["values"]
        if not field.single:
            return (len(field.columns),)
        length = self.table.list_length(field.columns[0])
        if length is not None:
            return (length,)
        for batch in self._batches({"values": field}, 1):
            if self._choices.drop_missing and not len(_drop_missing(batch, field.columns)[0]):
                continue
            shape: tuple[int, ...] = self._read_part("values", batch, 0).shape[1:]
            return shape
        return ()


def _take_class_names(metadata: Metadata, fields: dict[str, Field]) -> Metadata:
    """Take the names from the columns, and refuse soft labels whose columns name other classes than the values'."""
    names = fields["values"].class_names
    label_names = fields["labels"].class_names if "labels" in fields else None
    if label_names is not None and names is not None and label_names != names:
        raise ValueError("its columns of labels name other classes, or in another order, than its columns of values.")
    return metadata if names is None else replace(metadata, class_names=names)


def _drop_missing(batch: dict[int, pa.Array], columns: Sequence[int]) -> tuple[np.ndarray, dict[int, pa.Array]]:
    """Return the rows that have a value in every one of the columns, and only those rows."""
    kept = np.ones(len(next(iter(batch.values()))), np.bool_)
    for column in columns:
        kept &= ~_is_missing(batch[column])
    mask = pa.array(kept)
    return np.flatnonzero(kept), {column: array.filter(mask) for column, array in batch.items()}


def _is_missing(column: pa.Array) -> np.ndarray:
    """Return (n,) bool: no value, NaN, empty text, or a list with one of these in it."""
    missing: np.ndarray = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if any(is_lists(column.type) for is_lists in _LISTS):
        inside = column.flatten().is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        parents = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
        missing = missing.copy()
        missing[parents[inside]] = True
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing = missing | pc.fill_null(pc.equal(column, ""), True).to_numpy(zero_copy_only=False)
    return missing


def _check_present(column: pa.Array, name: str, start: int, *, empty: bool) -> None:
    missing = column.is_null()
    if empty and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        missing = pc.or_(missing, pc.fill_null(pc.equal(column, ""), True))
    if (row := pc.index(missing, True).as_py()) >= 0:
        row += start
        raise ValueError(f"its column {name!r} has no value in row {row}; fill it, or pass drop_missing=True.")


def _check_constant(column: pa.Array, constant: Constant, names: list[str]) -> None:
    texts = pc.unique(column.cast(pa.string())).to_pylist()
    other = [text for text in texts if text != constant.text]
    if other:
        raise ValueError(
            f"its column {names[constant.column]!r} has both {constant.text!r} and {other[0]!r}; "
            "save the rows of each to a file of their own."
        )


def plain_column(part: np.ndarray | tuple[str, ...] | GroupColumn) -> pa.Array:
    """Turn a part with one entry per sample into a column, groups into text."""
    if isinstance(part, GroupColumn):
        return pa.array(part.names, pa.string()).take(pa.array(part.codes.numpy()))
    return pa.array(part, pa.string()) if isinstance(part, tuple) else pa.array(part)


def _read_groups(column: pa.Array, name: str) -> GroupColumn:
    """Number the groups of a column without making a Python object of every entry."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    named = GroupColumn.from_values(encoded.dictionary.to_pylist(), name)
    codes = torch.from_numpy(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
    return GroupColumn(named.codes[codes], named.names)


def _read_clusters(column: pa.Array) -> np.ndarray:
    """Number named clusters, the same name alike in every block."""
    named = _read_groups(column, "clusters")
    numbers: np.ndarray = number_texts(named.names)[named.codes.numpy()]
    return numbers


def _stack(columns: list[pa.Array]) -> np.ndarray:
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns]
    matrix = np.empty((len(arrays[0]), len(arrays)), np.result_type(*arrays))
    for index, array in enumerate(arrays):
        matrix[:, index] = array
    return matrix


def _read_numbers(column: pa.Array, name: str, start: int, length: int | None) -> np.ndarray:
    """Turn a column of numbers into (n,), a column of lists into (n, K); K is ``length``, or that of the first list."""
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
        raise ValueError(f"its column {name!r} lacks a number in row {row}; fill it, or pass drop_missing=True.")
    matrix: np.ndarray = flat.to_numpy(zero_copy_only=False).reshape(len(column), expected)
    return matrix
