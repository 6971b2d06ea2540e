"""Predictions in csv (UTF-8, a header line), also compressed by gzip.

Written: one row per sample, one column per class, ``logits:NAME`` with class names or ``logits_0 ...`` without (also
for ``probs``), ``labels`` or the columns of soft labels, ``weights``, ``ids``; then columns with the same text in every
row: ``split``, ``provenance:KEY``, and ``focalcal:masked_classes`` (a JSON list), ``focalcal:row_sum_tolerance``,
``focalcal:dtype``, ``focalcal:header`` (a checksum of the column names, by which a lost column is recognised) and
``focalcal:rows``, by which a truncated file is recognised. Numbers have as many digits as it
takes to read the same number again.
Read: also one column of JSON lists (``[0.1, 0.9]``) instead of one column per class; semicolons and tabs instead of
commas (what the header line has most of outside of quotes), and with semicolons decimal commas.
"""

import csv
import gzip
import io
import os
import re
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from focalcal.base.files import DAMAGE, open_bytes, parse_json, regular_file
from focalcal.base.suggestions import nearest_name
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.contents import name_checksum
from focalcal.predictions.formats.parts import (
    COLUMNS,
    FACTS,
    GROUPS,
    LABEL_NAMES,
    TEXT_COLUMNS,
    VALUE_NAMES,
    Metadata,
    PartArray,
    json_text,
    part_arrays,
    read_text,
    write_text,
)
from focalcal.predictions.formats.tabular import Constant, Field, Table, TableSource, plain_column
from focalcal.predictions.read_options import Choices

BROKEN = (*DAMAGE, pa.ArrowException, csv.Error, gzip.BadGzipFile)

_OURS, _PROVENANCE = "focalcal:", "provenance:"
_DTYPE, _HEADER, _ROWS = f"{_OURS}dtype", f"{_OURS}header", f"{_OURS}rows"
# Facts about all samples that have columns of their own, by the names of these columns.
_FACT_COLUMNS = {
    name: name if name == "split" else _OURS + name
    for name in FACTS
    if name not in ("class_names", "provenance", "group_names")
}
_NAMES = (LABEL_NAMES, *VALUE_NAMES.values(), *(one.names for one in COLUMNS), (GROUPS.rstrip(":"),))
_ROOTS = {name for names in _NAMES for name in names}
_NUMBERED = re.compile(r"_\d+$")
_SMALLEST_BLOCK = 2**20
_LONGEST_ROW = 2**28
# Cells without a value, as tables have them.
_NOTHING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
# A name in quotes, or the beginning of one that goes on in the next line.
_QUOTED = re.compile(r'"[^"]*(?:"|$)')
_SPECIAL = re.compile(r'[,;\t"\r\n]')
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
_WHOLE = re.compile(r"[+-]?\d+")
_MOST_DIGITS = 15  # of a number of rows
_WRONG_CELL = re.compile(
    r"column #(?P<column>\d+): Row #(?P<row>\d+): CSV conversion error to (?P<type>\w+): invalid value '(?P<text>.*)'",
    re.DOTALL,
)


def write(preds: Predictions, file: BinaryIO) -> None:
    """Write the header, then the rows in blocks."""
    names, constants = _names(preds), _constants(preds)
    constants[_HEADER] = name_checksum(filter(_is_ours, [*names, *constants]))
    file.write(header_line([*names, *constants]).encode())
    first = _columns(next(preds.blocks(1)), constants)
    schema = pa.schema([(str(position), column.type) for position, column in enumerate(first)])
    options = pyarrow.csv.WriteOptions(include_header=False)
    with pyarrow.csv.CSVWriter(file, schema, write_options=options) as writer:
        for block in preds.blocks():
            writer.write_batch(pa.record_batch(_columns(block, constants), schema=schema))


def open_source(path: str | os.PathLike[str], choices: Choices) -> TableSource:
    """Read the header and the first row."""
    return TableSource(CsvTable(path, drop_missing=choices.drop_missing), choices)


def write_compressed(preds: Predictions, file: BinaryIO) -> None:
    """Write the same, compressed, without date or name."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        write(preds, cast(BinaryIO, packed))


class CsvTable(Table):
    """A csv file. Columns are addressed as f0, f1, ...: names in a csv may be equal."""

    def __init__(self, path: str | os.PathLike[str], *, drop_missing: bool = False) -> None:
        self._path = path
        self._drops = drop_missing
        self._block_size = _block_size(path)
        with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            line = text.readline(_LONGEST_ROW)
            self.delimiter = max(",;\t", key=_QUOTED.sub("", line).count)
            # A compressed file does not go back; a name with a line break in it goes on in the lines that follow.
            self.names = next(csv.reader(chain([line], text), strict=True, delimiter=self.delimiter), [])
        self.decimal_point = "."
        first_row = self._first_row()
        if self.delimiter == ";" and any(_DECIMAL_COMMA.fullmatch(cell) for cell in first_row.values()):
            self.decimal_point = ","
        about_all = {name: first_row[i] for i, name in enumerate(self.names) if i in first_row and _is_constant(name)}
        self.constants = [Constant(self.names.index(name), text) for name, text in about_all.items()]
        self.metadata = _metadata(about_all)
        _check_header(self.names, about_all.get(_HEADER))
        self.declared_rows = _parse_rows(about_all.get(_ROWS))
        self.is_ours = self.declared_rows is not None
        self._float = pa.float32() if about_all.get(_DTYPE) == "float32" else pa.float64()
        self._lists = {i for i, text in first_row.items() if text.lstrip().startswith("[")}
        self._first_texts = first_row

    @cached_property
    def num_rows(self) -> int:
        """Rows in the file: the number that it states, or else counted."""
        if self.declared_rows is not None:
            return self.declared_rows
        return sum(batch.num_rows for batch in self._read({0: pa.string()}))

    def batches(self, columns: Sequence[int], fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        """Read these columns, at most ``rows`` rows at a time."""
        types = dict.fromkeys(columns, pa.string())
        for part, field in fields.items():
            types |= {column: self._type(part, field, column, fields) for column in field.columns}
        for part in ("values", "labels", "correct", "weights"):
            for column in fields[part].columns if part in fields else ():
                if types[column] != self._type(part, fields[part], column, fields):
                    raise ValueError(
                        f"its column {self.names[column]!r} is read for {part}, as numbers, and as text too; copy it "
                        "under another name to group by it."
                    )
        for batch in self._read(types):
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                yield {column: self._column(part, column, types[column], fields) for column in columns}

    def rows(self) -> Iterator[list[str]]:
        """Read every row as text, the header first."""
        with open_bytes(self._path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            yield from csv.reader(text, strict=True, delimiter=self.delimiter)

    def _type(self, part: str, field: Field, column: int, parts: Container[str]) -> pa.DataType:
        if part in TEXT_COLUMNS or part.startswith(GROUPS) or (field.single and column in self._lists):
            return pa.string()
        if part in ("predicted", "clusters") or (part == "labels" and "predicted" in parts):
            return pa.string()
        if part in ("labels", "correct") and field.single:
            return _label_type(self._first_texts.get(column, ""))
        return self._float if part == "values" else pa.float64()

    def _column(self, batch: pa.RecordBatch, column: int, dtype: pa.DataType, fields: dict[str, Field]) -> pa.Array:
        array = batch.column(f"f{column}")
        listed = [fields[part] for part in ("values", "labels") if part in fields and fields[part].single]
        if column in self._lists and any(column in field.columns for field in listed):
            return pa.array([_numbers(text, self.names[column]) for text in array.to_pylist()], pa.list_(pa.float64()))
        return array

    def _first_row(self) -> dict[int, str]:
        for batch in self._read({i: pa.string() for i in range(len(self.names))}):
            if batch.num_rows:
                return {i: batch.column(f"f{i}")[0].as_py() or "" for i in range(len(self.names))}
        return {}

    def _read(self, types: dict[int, pa.DataType]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._arrow_batches({f"f{column}": dtype for column, dtype in types.items()})
        except pa.ArrowInvalid as error:
            cell = _WRONG_CELL.search(str(error))
            if cell is None:
                raise
            kind = "whole number" if cell["type"] == "int64" else "number"
            name, row = self.names[int(cell["column"])], int(cell["row"]) - 2  # Arrow counts from 1, with the header
            hint = " (rows without a value are left out with drop_missing=True)" if cell["text"] in _NOTHING else ""
            raise ValueError(
                f"its column {name!r} has {cell['text']!r} in row {row}, which is not a {kind}{hint}."
            ) from error

    def _arrow_batches(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        with pyarrow.csv.open_csv(
            open_bytes(self._path) if os.fspath(self._path).lower().endswith(".gz") else regular_file(self._path),
            pyarrow.csv.ReadOptions(
                use_threads=False,
                block_size=self._block_size,
                autogenerate_column_names=True,
                skip_rows_after_names=1,  # the header line, for names that are generated
            ),
            pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=self.delimiter),
            # An empty cell is an error in a number and empty text in a text, never nothing, unless it is dropped.
            pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=_NOTHING if self._drops else [],
                strings_can_be_null=self._drops,
                decimal_point=self.decimal_point,
            ),
        ) as batches:
            yield from batches


def _numbers(text: str, name: str) -> list[float]:
    try:
        return [float(number) for number in parse_json(text)]
    except (ValueError, TypeError):
        raise ValueError(f"its column {name!r} has {text[:40]!r}, which is not a JSON list of numbers.") from None


def _label_type(first: str) -> pa.DataType:
    """Choose the type of a column of labels by the first of them: whole numbers, numbers, or text."""
    if not first or _WHOLE.fullmatch(first):
        return pa.int64()
    try:
        float(first)
    except ValueError:
        return pa.string()
    return pa.float64()


def _block_size(path: str | os.PathLike[str]) -> int:
    """Choose a block for many rows: Arrow cannot parse a row that is longer than a block."""
    with open_bytes(path) as file:
        longest = max(len(file.readline(_LONGEST_ROW)) for _ in range(2))
    return max(_SMALLEST_BLOCK, min(16 * longest, _LONGEST_ROW))


def _check_header(names: list[str], stated: str | None) -> None:
    """Refuse a table of ours of which a column was lost or renamed; columns of others may have been added."""
    known = [_DTYPE, _HEADER, _ROWS, *(name for name in _FACT_COLUMNS.values() if name.startswith(_OURS))]
    spoilt = [name for name in names if name.startswith(_OURS[:3]) and not _is_ours(name) and nearest_name(name, known)]
    if spoilt or (stated is not None and stated != name_checksum(filter(_is_ours, names))):
        raise ValueError(
            "the names of its columns are not those that it was written with: it is damaged or edited "
            f"(remove the column {_HEADER!r} if that was on purpose)."
        )


def _parse_rows(text: str | None) -> int | None:
    if text is None or (text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None if text is None else int(text)
    raise ValueError(f"its column {_ROWS!r} has {text!r}, which is not a number of rows: it is truncated or edited.")


def _is_ours(name: str) -> bool:
    return _is_constant(name) or _NUMBERED.sub("", name).partition(":")[0] in _ROOTS


def _is_constant(name: str) -> bool:
    return name in (*_FACT_COLUMNS.values(), _DTYPE, _HEADER, _ROWS) or name.startswith(_PROVENANCE)


def _metadata(about_all: dict[str, str]) -> Metadata:
    provenance = {
        name.removeprefix(_PROVENANCE): text for name, text in about_all.items() if name.startswith(_PROVENANCE)
    }
    facts = {name: about_all[column] for name, column in _FACT_COLUMNS.items() if column in about_all}
    return read_text({**facts, "provenance": json_text(provenance)})


def _constants(preds: Predictions) -> dict[str, str]:
    text = write_text(preds)
    constants = {"split": text["split"]} if "split" in text else {}
    constants |= {_PROVENANCE + key: value for key, value in preds.provenance.items()}
    constants |= {column: text[name] for name, column in _FACT_COLUMNS.items() if name in text}
    constants[_DTYPE] = preds.values.numpy().dtype.name
    constants[_HEADER] = ""  # known when all names are
    constants[_ROWS] = str(len(preds))  # last: cut anywhere, the file no longer ends with it
    return constants


def _names(preds: Predictions) -> list[str]:
    names: list[str] = []
    for name, part in part_arrays(next(preds.blocks(1))).items():
        names += _names_by_class(name, preds) if _is_matrix(part) else [name]
    return names


def _names_by_class(prefix: str, preds: Predictions) -> list[str]:
    if preds.class_names is None:
        return [f"{prefix}_{index}" for index in range(preds.num_classes)]
    return [f"{prefix}:{name}" for name in preds.class_names]


def header_line(names: Sequence[str], delimiter: str = ",") -> str:
    """Write names as the first line, in quotes where they hold any of the separators that tables are read with."""
    return delimiter.join(map(_quoted, names)) + "\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if _SPECIAL.search(name) else name


def _is_matrix(part: PartArray) -> bool:
    return isinstance(part, np.ndarray) and part.ndim == 2


def _columns(preds: Predictions, constants: dict[str, str]) -> list[pa.Array]:
    columns: list[pa.Array] = []
    for part in part_arrays(preds).values():
        if isinstance(part, np.ndarray) and part.ndim == 2:
            columns += [pa.array(column) for column in part.T]
        else:
            columns.append(plain_column(part))
    return columns + [pa.repeat(pa.scalar(text, pa.string()), len(preds)) for text in constants.values()]
