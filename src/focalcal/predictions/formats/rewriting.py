"""Tables with calibrated values: the columns of logits or probabilities are replaced, and everything else stays.

A table that others wrote keeps its kind, the names and order of its columns, and the text of its other cells.
"""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from focalcal.base.files import atomic_writer, regular_file
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats import find_format
from focalcal.predictions.formats.csv import CsvTable, header_line
from focalcal.predictions.formats.jsonl import JsonlTable
from focalcal.predictions.formats.tabular import Field, TableSource
from focalcal.predictions.predictions_file import PredictionsFile, reading

Path = str | os.PathLike[str]


def save_like(file: PredictionsFile, preds: Predictions, out: Path) -> bool:
    """Write a table like the one that predictions were read from, with their values; or just the predictions.

    Args:
        file: The file that was read.
        preds: Its samples, all of them and in its order, with new values.
        out: The file to write.

    Returns:
        Whether all columns of the table were kept: it was a table of others, and ``out`` is of the same kind.
    """
    source = file.source
    kinds = [find_format(path).module for path in (file.path, out)]
    if not isinstance(source, TableSource) or not has_other_columns(file) or kinds[0] != kinds[1]:
        preds.save(out)
        return False
    if len(preds) != file.num_samples:
        left = file.num_samples - len(preds)
        raise ValueError(
            f"{os.fspath(file.path)}: {left:,} rows were left out, so that the table cannot be written with all of "
            "its rows; write to .safetensors or .npz instead."
        )
    columns = _value_columns(file, preds, source.value_field)
    write = {"csv": _write_csv, "parquet": _write_parquet, "jsonl": _write_jsonl}[kinds[0]]
    with reading(file.path, find_format(file.path).broken()), atomic_writer(out) as target:
        packed = os.fspath(out).lower().endswith(".gz")
        if packed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as inside:
                write(file.local_path, source, columns, cast(BinaryIO, inside))
        else:
            write(file.local_path, source, columns, target)
    return True


def has_other_columns(file: PredictionsFile) -> bool:
    """Return whether a file is a table of others, or one with columns that are no parts of predictions."""
    return isinstance(file.source, TableSource) and file.source.has_other_columns


def _value_columns(file: PredictionsFile, preds: Predictions, field: Field) -> list[np.ndarray]:
    """Return the new values as the table has them: (N,) per column, or one (N, K) for a column of lists."""
    values = (preds.probs() if file.kind == "probs" else preds.logits()).double()
    if file.exchanged:
        values = values.flip(1)
    if field.single and not file.source.sample_shape:
        one = values[:, 1] if file.kind == "probs" else values[:, 1] - values[:, 0]
        return [one.numpy()]
    return [values.numpy()] if field.single else list(values.numpy().T)


def _write_parquet(path: Path, source: TableSource, columns: list[np.ndarray], file: BinaryIO) -> None:
    table = pq.read_table(regular_file(path), partitioning=None)
    for position, values in zip(source.value_field.columns, columns, strict=True):
        old = table.schema.field(position)
        if values.ndim == 1:
            new = pa.array(values).cast(old.type)
        else:
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
            new = lists.cast(old.type)
        table = table.set_column(position, old, new)
    pq.write_table(table, file)


def _write_csv(path: Path, source: TableSource, columns: list[np.ndarray], file: BinaryIO) -> None:
    table = cast(CsvTable, source.table)
    new = dict(
        zip(source.value_field.columns, (_texts(values, table.decimal_point) for values in columns), strict=True)
    )
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=table.delimiter, lineterminator="\n")
    header, *rows = (row for row in table.rows() if row)
    text.write(header_line(header, table.delimiter))
    for row, *cells in zip(rows, *new.values(), strict=True):
        for place, cell in zip(new, cells, strict=True):
            row[place] = cell
        writer.writerow(row)
    text.detach()


def _texts(values: np.ndarray, decimal_point: str) -> list[str]:
    texts = [repr(number) if isinstance(number, float) else json.dumps(number) for number in values.tolist()]
    return texts if decimal_point == "." else [text.replace(".", decimal_point) for text in texts]


def _write_jsonl(path: Path, source: TableSource, columns: list[np.ndarray], file: BinaryIO) -> None:
    table = cast(JsonlTable, source.table)
    names = [table.names[place] for place in source.value_field.columns]
    for item, *values in _zip(table.objects(), columns):
        line = json.dumps({**item, **dict(zip(names, values, strict=True))}, ensure_ascii=False)
        file.write(line.encode() + b"\n")


def _zip(objects: Iterable[dict[str, Any]], columns: list[np.ndarray]) -> Iterator[tuple[Any, ...]]:
    return zip(objects, *(values.tolist() for values in columns), strict=True)
