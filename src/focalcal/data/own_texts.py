"""Labelled texts of the user's own, from csv or parquet files, as a data set."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor

from focalcal.base.files import read_bytes, regular_file
from focalcal.data.data_files import hash_file
from focalcal.data.data_types import DataSet
from focalcal.data.glove import obtain_vectors
from focalcal.data.label_names import number_labels, sort_names
from focalcal.data.parquet_columns import BROKEN_PARQUET, read_columns
from focalcal.data.text_sets import Documents, TextOptions, build_text_data_set, make_synthetic_texts
from focalcal.data.text_tokens import number_texts

_HELD_OUT = 0.1  # of the first file, for each of validation and test that has no file of its own
_LONGEST_LABEL = 1000
_LARGEST = 4 * 2**30  # of a csv, which is read whole


@dataclass(frozen=True)
class TextTable:
    """N rows of a file.

    Attributes:
        texts: N texts; "" if there is none.
        labels: N labels as written.
    """

    texts: list[str]
    labels: list[str]


def load_texts(
    *,
    seed: int = 0,
    root: Path | None = None,
    path: Path | str | None = None,
    val_path: Path | str | None = None,
    test_path: Path | str | None = None,
    text_column: str = "text",
    label_column: str = "label",
    tokens: int = 1000,
    words: int = 20_000,
    glove: Path | str | None = None,
    dimension: int = 100,
    trim: bool = True,
    synthetic: int | None = None,
) -> DataSet:
    """Load texts and labels from a user's own files.

    Labels are names or whole numbers; the classes are their different values in order. A text without a word that the
    training texts have is one unknown word, and such texts are counted in ``facts``.

    Args:
        seed: Seed for the split and for random word vectors.
        root: Not used here, as the files are named.
        path: A .csv or .parquet file to learn from. A tenth of it is held out for validation, and a tenth for test,
            where no file is named for that.
        val_path: A file to validate with.
        test_path: A file to test with.
        text_column: Name of the column of texts.
        label_column: Name of the column of labels.
        tokens: Number of tokens, the last of a text; shorter ones are padded at the front.
        words: Number of known words, the most frequent ones of the training texts; the others are left out.
        glove: A file or folder of word vectors; without it they are random, and should be trained (``freeze: false``).
        dimension: Dimension of the word vectors.
        trim: Whether a batch leaves out padding that makes no difference.
        synthetic: Number of random texts in each split, instead of files.

    Raises:
        ValueError: One sentence on what is wrong with which file, and in which line or row.
    """
    options = TextOptions(tokens=tokens, words=words, dimension=dimension, trim=trim)
    if synthetic is not None:
        return make_synthetic_texts("text", ("no", "yes"), synthetic, tokens=tokens, trim=trim, seed=seed)
    if path is None:
        raise ValueError("The data set text needs path, a .csv or .parquet file with the columns text and label.")
    for name, column in (("text_column", text_column), ("label_column", label_column)):
        if not isinstance(column, str):
            raise TypeError(f"{name} must be the name of a column, not {column!r}.")
    if text_column == label_column:
        raise ValueError(f"The column {text_column!r} cannot hold both texts and labels; name two columns.")
    paths = {"train": path, "val": val_path, "test": test_path}
    files = {split: Path(given).expanduser() for split, given in paths.items() if given is not None}
    tables = {split: read_text_table(file, text_column, label_column) for split, file in files.items()}
    class_names = _classes(tables["train"].labels, files["train"])
    texts, known_words = number_texts(text for table in tables.values() for text in table.texts)
    documents = Documents(texts, known_words, _labels(tables, files, class_names))
    splits = _splits({split: len(table.texts) for split, table in tables.items()}, documents.labels, seed)
    vectors = None if glove is None else obtain_vectors(glove, root, dimension)
    hashes = {f"{split}: {file.name}": hash_file(file) for split, file in files.items()}
    facts = {"split_seed": seed, "files": hashes, "notes": []}
    return build_text_data_set("text", class_names, documents, splits, options, vectors=vectors, seed=seed, facts=facts)


def _classes(labels: Sequence[str], file: Path) -> tuple[str, ...]:
    different = sort_names(labels)
    if len(different) < 2:
        raise ValueError(f"{file.name} holds {len(different)} different label(s); at least 2 are needed to learn from.")
    return different


def _labels(tables: Mapping[str, TextTable], files: Mapping[str, Path], names: tuple[str, ...]) -> Tensor:
    learnt = files["train"].name
    return torch.cat([number_labels(table.labels, names, files[split].name, learnt) for split, table in tables.items()])


def _splits(sizes: Mapping[str, int], labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Choose positions of train, val and test in the files, one after the other; no class is held out whole."""
    missing = [split for split in ("val", "test") if split not in sizes]
    held = max(1, round(_HELD_OUT * sizes["train"]))
    shuffled = torch.randperm(sizes["train"], generator=torch.Generator().manual_seed(seed))
    # The first of each class is for training, so it comes last among those to be held out.
    firsts = torch.from_numpy(np.unique(labels[shuffled].numpy(), return_index=True)[1])
    stays = torch.zeros(len(shuffled), dtype=torch.bool).index_fill(0, firsts, True)
    shuffled = torch.cat([shuffled[~stays], shuffled[stays]])
    if missing and len(shuffled) - len(firsts) < held * len(missing):
        raise ValueError(
            f"The texts to learn from are {sizes['train']} of {len(firsts)} classes, too few to hold out "
            f"{held * len(missing)} of them and to learn every class; give more, or val_path and test_path."
        )
    splits, first = {"train": shuffled[held * len(missing) :].sort().values}, sizes["train"]
    for split in ("val", "test"):
        if split in missing:
            number = missing.index(split)
            splits[split] = shuffled[number * held : (number + 1) * held].sort().values
        else:
            splits[split] = torch.arange(first, first + sizes[split])
            first += sizes[split]
    return splits


def read_text_table(path: Path, text_column: str, label_column: str) -> TextTable:
    r"""Read both columns of a .csv or .parquet file, csv in UTF-8 with a line of column names.

    Raises:
        ValueError: One sentence on what is wrong with which file, and in which line or row.

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
    if not path.exists():
        raise ValueError(f"There is no file {path}; set the path of the data to a .csv or .parquet file.")
    try:
        read = _read_csv if path.suffix.lower() == ".csv" else _read_parquet
        table = read(path, text_column, label_column)
    except BROKEN_PARQUET as error:
        raise ValueError(f"{path.name} cannot be read ({_reason(error)}); correct the file.") from None
    if not table.num_rows:
        raise ValueError(f"{path.name} has no rows; give texts and their labels.")
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
    """Return the reader's message, with rows counted as everywhere: without the line of column names."""
    text = " ".join(str(error).split())
    return re.sub(r"Row #(\d+)", lambda found: f"row {int(found.group(1)) - 1}", text)


def _read_csv(path: Path, *columns: str) -> pa.Table:
    content = read_bytes(path, _LARGEST)
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
    schema = pyarrow.parquet.read_schema(regular_file(path))
    _check_columns(path.name, schema.names, columns)
    text, label = (_values_type(schema.field(name).type) for name in columns)
    if not _is_text(text):
        raise ValueError(f"{path.name}: the column {columns[0]!r} holds {text}, not texts; name the column of texts.")
    if not (_is_text(label) or pa.types.is_integer(label) or pa.types.is_boolean(label)):
        raise ValueError(
            f"{path.name}: the column {columns[1]!r} holds {label}, not names or whole numbers; convert it to one of "
            "these."
        )
    return read_columns(path, columns)


def _values_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, also where a column holds numbers that stand for them."""
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
