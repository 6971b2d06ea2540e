"""Predictions in JSON lines: one object per sample, such as ``{"probs": [0.9, 0.1], "label": 0}``. Read, not written.

The names of the first object are the columns; a later one that lacks a name lacks that value.
"""

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from focalcal.base.files import DAMAGE, REFUSED_JSON, open_bytes, parse_json
from focalcal.predictions.formats.parts import Metadata
from focalcal.predictions.formats.tabular import Constant, Field, Table, TableSource
from focalcal.predictions.read_options import Choices

BROKEN = (*DAMAGE, pa.ArrowException, gzip.BadGzipFile)

_LONGEST_LINE = 2**26  # JSON of 64 MB can take 2 GB of memory; an object with a million classes has 20 MB


def open_source(path: str | os.PathLike[str], choices: Choices) -> TableSource:
    """Read the first line."""
    return TableSource(JsonlTable(path), choices)


class JsonlTable(Table):
    """A file of JSON lines."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self.names = [str(name) for name in next(self.objects(), {})]
        self.metadata = Metadata()
        self.constants: list[Constant] = []
        self.declared_rows = None

    @cached_property
    def num_rows(self) -> int:
        """Rows in the file."""
        return sum(1 for _ in self.objects())

    def batches(self, columns: Sequence[int], fields: dict[str, Field], rows: int) -> Iterator[dict[int, pa.Array]]:
        """Read these columns, at most ``rows`` rows at a time."""
        names = [self.names[column] for column in columns]
        start, held = 0, []
        for item in self.objects():
            held.append([item.get(name) for name in names])  # what else is there may be of any size
            if len(held) == rows:
                yield self._columns(held, columns, start)
                start, held = start + len(held), []
        if held:
            yield self._columns(held, columns, start)

    def _columns(self, held: list[list[Any]], columns: Sequence[int], start: int) -> dict[int, pa.Array]:
        by_column = zip(columns, zip(*held, strict=True), strict=True)
        return {column: self._column(values, self.names[column], start) for column, values in by_column}

    def _column(self, values: Sequence[Any], name: str, start: int) -> pa.Array:
        try:
            return pa.array(values)
        except pa.ArrowException:
            last = f"{start} to {start + len(values) - 1}"
            raise ValueError(f"its {name!r} are of different types in rows {last}; write them alike.") from None

    def objects(self) -> Iterator[dict[str, Any]]:
        """Read one object after another."""
        with open_bytes(self._path) as file:
            row = 0
            while line := file.readline(_LONGEST_LINE):
                if not line.strip():
                    continue
                try:
                    item = parse_json(line)
                except json.JSONDecodeError as error:
                    if len(line) == _LONGEST_LINE:
                        raise ValueError(f"its row {row} has more than {_LONGEST_LINE:,} bytes.") from None
                    reason = f" ({error.msg})" if error.msg in REFUSED_JSON else ""
                    raise ValueError(f"its row {row} is not JSON{reason}; write one object per line.") from None
                if not isinstance(item, dict):
                    raise ValueError(f"its row {row} is not a JSON object; write one object per line.")
                yield item
                row += 1
