"""A user's own texts: a csv or parquet file with a column of texts and one of labels."""

import io
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


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
        raise ValueError(f"{path} cannot be read ({' '.join(str(error).split())}); correct the file.") from None
    texts, labels = (table.column(name).to_pylist() for name in (text_column, label_column))
    for row, label in enumerate(labels, start=1):
        if label is None or not str(label).strip():
            raise ValueError(f"{path.name}, row {row} has no {label_column}; give one, or leave the row out.")
    return TextTable([text or "" for text in texts], [str(label).strip() for label in labels])


def _read_csv(path: Path, *columns: str) -> pa.Table:
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path.name}, line {line} is not UTF-8 ({error.reason}); save the file as UTF-8.") from None
    if not content.strip():
        raise ValueError(f"{path.name} is empty; give a file with the columns {' and '.join(columns)}.")
    table = pyarrow.csv.read_csv(
        io.BytesIO(content),
        read_options=pyarrow.csv.ReadOptions(use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
    )
    _check_columns(path, table.column_names, columns)
    return table


def _read_parquet(path: Path, *columns: str) -> pa.Table:
    schema = pyarrow.parquet.read_schema(path)
    _check_columns(path, schema.names, columns)
    kind = schema.field(columns[0]).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"{path.name}: the column {columns[0]!r} holds {kind}, not texts; name the column of texts.")
    return pyarrow.parquet.read_table(path, columns=list(columns))


def _check_columns(path: Path, present: list[str], wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if present.count(name) != 1:
            found = "more than one column" if name in present else "no column"
            raise ValueError(
                f"{path.name}, line 1: there is {found} {name!r} among {', '.join(present)}; "
                "name the columns with text_column and label_column."
            )
