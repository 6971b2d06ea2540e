"""Any labelled texts as a data set, from csv or parquet files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from focalcal.data.documents import Documents, TextOptions, text_data_set
from focalcal.data.files import file_hash
from focalcal.data.samples import DataSet
from focalcal.data.synthetic_texts import synthetic_texts
from focalcal.data.text_tables import TextTable, read_text_table
from focalcal.data.text_tokens import number_texts
from focalcal.data.vector_files import obtained_vectors

_HELD_OUT = 0.1  # of the first file, for each of validation and test that has no file of its own


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
    """Texts and labels of a user's own files.

    Labels are names or whole numbers; the classes are their different values in order. A text without a word that the
    training texts have is one unknown word, and such texts are counted in ``facts``.

    Args:
        seed: of the split, and of random word vectors.
        root: has no meaning here, as the files are named.
        path: a .csv or .parquet file to learn from. A tenth of it is held out for validation, and a tenth for test,
            where no file is named for that.
        val_path: a file to validate with.
        test_path: a file to test with.
        text_column: the column of texts.
        label_column: the column of labels.
        tokens: the last so many tokens of a text count; shorter ones are padded at the front.
        words: so many words of the training texts are known, the most frequent ones; the others are left out.
        glove: a file or folder of word vectors; without it they are random, and should be trained (``freeze: false``).
        dimension: of the word vectors.
        trim: whether a batch leaves out padding that makes no difference.
        synthetic: this many random texts in each split in place of files.

    Raises:
        ValueError: one sentence on what is wrong with which file, and in which line or row.
    """
    options = TextOptions(tokens=tokens, words=words, dimension=dimension, trim=trim)
    if synthetic is not None:
        return synthetic_texts("text", ("no", "yes"), synthetic, tokens=tokens, trim=trim, seed=seed)
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
    vectors = None if glove is None else obtained_vectors(glove, root, dimension)
    hashes = {f"{split}: {file.name}": file_hash(file) for split, file in files.items()}
    facts = {"split_seed": seed, "files": hashes, "notes": []}
    return text_data_set("text", class_names, documents, splits, options, vectors=vectors, seed=seed, facts=facts)


def _classes(labels: Sequence[str], file: Path) -> tuple[str, ...]:
    different = sorted(set(labels), key=_order)
    if len(different) < 2:
        raise ValueError(f"{file.name} holds {len(different)} different label(s); at least 2 are needed to learn from.")
    return tuple(different)


def _order(label: str) -> tuple[int, int, str]:
    """Whole numbers by their value, before names by the alphabet."""
    digits = label.removeprefix("-")
    return (0, int(label), label) if digits.isascii() and digits.isdigit() else (1, 0, label)


def _labels(tables: Mapping[str, TextTable], files: Mapping[str, Path], names: tuple[str, ...]) -> Tensor:
    numbers = {name: number for number, name in enumerate(names)}
    for split, table in tables.items():
        for row, label in enumerate(table.labels, start=1):
            if label not in numbers:
                raise ValueError(
                    f"{files[split].name}, row {row}: the label {label!r} does not occur in {files['train'].name}; "
                    "correct it, or give training texts with this label."
                )
    return torch.tensor([numbers[label] for table in tables.values() for label in table.labels])


def _splits(sizes: Mapping[str, int], labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Positions in the files, one after the other, of train, val and test; no class is held out whole."""
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
