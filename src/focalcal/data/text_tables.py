"""A user's own texts: a csv or parquet file with a column of texts and one of labels."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

_LONGEST_LABEL = 1000


@dataclass(frozen=True)
class TextTable:
    """N rows of a file.

    Attributes:
        texts: N texts; "" where there is none.
        labels: N labels as they are written.
    """

    texts: list[str]
    labels: list[str]


def read_text_table(path: Path, text_column: str, label_column: str) -> TextTable:
    r"""Both columns of a .csv or .parquet file, csv in UTF-8 with a line of column names.

    Raises:
        ValueError: one sentence on what is wrong with which file, and in which line or row.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "some.csv")
        ...     _ = file.write_text("text,label\ngood fun,yes\ntoo long,no\n")
        ...     read_text_table(file, "text", "label")
        TextTable(texts=['good fun', 'too long'], labels=['yes', 'no'])
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{path} is neither .csv nor .parquet; give a file of one of these.")
    if not path.is_file():
        raise ValueError(f"There is no file {path}; set the path of the data to a .csv or .parquet file.")
    try:
        read = _read_csv if path.suffix.lower() == ".csv" else _read_parquet
        table = read(path, text_column, label_column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read ({_reason(error)}); correct the file.") from None
    if not table.num_rows:
        raise ValueError(f"{path.name} has no row; give texts and their labels.")
    texts, labels = (_values(table.column(name), name, path) for name in (text_column, label_column))
    for row, label in enumerate(labels, start=1):
        if label is None or not str(label).strip():
            raise ValueError(f"{path.name}, row {row} has no {label_column}; give one, or leave the row out.")
        if "\0" in str(label):
            raise ValueError(f"{path.name}, row {row} has a NUL character in its {label_column}; correct the file.")
        if len(str(label)) > _LONGEST_LABEL:
            raise ValueError(
                f"{path.name}, row {row} has a {label_column} of {len(str(label)):,} characters; name the column of "
                "labels with data.label_column."
            )
    return TextTable([text or "" for text in texts], [str(label).strip() for label in labels])


def _values(column: pa.ChunkedArray, name: str, path: Path) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # of a parquet file; a csv file has been looked at
        for row, value in enumerate(column, start=1):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path.name}, row {row}: the {name} is not UTF-8 ({error.reason}); save the file as UTF-8."
                ) from None
        raise
    return found


def _reason(error: Exception) -> str:
    """What the reader says, with rows counted as everywhere: without the line of column names."""
    text = " ".join(str(error).split())
    return re.sub(r"Row #(\d+)", lambda found: f"row {int(found.group(1)) - 1}", text)


def _read_csv(path: Path, *columns: str) -> pa.Table:
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path.name}, line {line} is not UTF-8 ({error.reason}); save the file as UTF-8.") from None
    if not content.strip(b"\xef\xbb\xbf \t\r\n"):
        raise ValueError(f"{path.name} is empty; give a file with the columns {' and '.join(columns)}.")
    size = min(max(2**20, len(content) + 1), 2**31 - 1)  # one block, as a field may be of any size
    table = pyarrow.csv.read_csv(
        io.BytesIO(content + b"\n"),  # a file that ends in its column names would count as empty
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=size),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
    )
    _check_columns(f"{path.name}, line 1", table.column_names, columns)
    return table


def _read_parquet(path: Path, *columns: str) -> pa.Table:
    schema = pyarrow.parquet.read_schema(path)
    _check_columns(path.name, schema.names, columns)
    text, label = (_values_type(schema.field(name).type) for name in columns)
    if not _is_text(text):
        raise ValueError(f"{path.name}: the column {columns[0]!r} holds {text}, not texts; name the column of texts.")
    if not (_is_text(label) or pa.types.is_integer(label) or pa.types.is_boolean(label)):
        raise ValueError(
            f"{path.name}: the column {columns[1]!r} holds {label}, not names or whole numbers; convert it to one of "
            "these."
        )
    return pyarrow.parquet.read_table(path, columns=list(columns))


def _values_type(kind: pa.DataType) -> pa.DataType:
    """Of the values themselves, where a column holds numbers of them."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_columns(where: str, present: list[str], wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if present.count(name) != 1:
            found = "more than one column" if name in present else "no column"
            raise ValueError(
                f"{where}: there is {found} {name!r} among {', '.join(present)}; name the columns with "
                "data.text_column and data.label_column."
            )
