"""Word vectors in GloVe's text format: only the words that are needed, read once and kept in a cache."""

import gzip
import hashlib
import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import torch
from torch import Tensor

from focalcal.base.files import regular_file
from focalcal.base.suggestions import shorten
from focalcal.data.data_files import BROKEN_ARCHIVE, bounded_lines, data_folders
from focalcal.data.data_sets import GLOVE
from focalcal.data.tensor_cache import load_or_make

# Treebanks write brackets as words; GloVe has the brackets themselves.
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
# Each takes some megabytes, and whoever edits their own texts makes a new one with every edit.
_KEPT_VOCABULARIES = 20
_CACHE_VERSION = 1  # part of the name, to be raised when what is stored changes


@dataclass(frozen=True)
class WordVectors:
    """Vectors of W words.

    Attributes:
        vectors: (W, E) float32; zero where a word was not found.
        found: (W,) whether each word was found.
    """

    vectors: Tensor
    found: Tensor

    def fill_missing(self, seed: int) -> Tensor:
        """Return (W, E) vectors, with a normal random vector of the found ones' spread for each missing word.

        Examples:
            >>> some = WordVectors(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([True, False]))
            >>> filled = some.fill_missing(seed=0)
            >>> filled[0], bool((filled[1] != 0).all()), torch.equal(filled, some.fill_missing(seed=0))
            (tensor([1., 3.]), True, True)
        """
        known = self.vectors[self.found].numpy()
        spread = float(known.std()) if known.size else 0.4  # GloVe's own spread is near 0.4
        missing = (int((~self.found).sum()), self.vectors.shape[1])
        filled = self.vectors.clone()
        drawn = np.random.default_rng(seed).normal(0.0, spread, missing)
        filled[~self.found] = torch.from_numpy(drawn.astype(np.float32))
        return filled


def spell(word: str) -> str:
    r"""Spell a word of a treebank as GloVe does: in lower case, with brackets and without backslashes.

    Examples:
        >>> spell("-LRB-"), spell("Writer\\/director")
        ('(', 'writer/director')
    """
    lowered = word.lower().replace("\\/", "/").replace("\\*", "*")
    return _BRACKETS.get(lowered, lowered)


def read_vectors(source: Path, words: Sequence[str], *, dimension: int = 100, cache: Path | None = None) -> WordVectors:
    """Read the vectors of some words from a text file, a .gz or .zip of it, or a folder with one of these.

    Args:
        source: File or folder; of several files the one whose name ends in ``<dimension>d.txt``.
        words: W different words, spelled as in the file.
        dimension: E.
        cache: Folder that keeps what was read, by the file's size and time and the words; None keeps nothing.

    Raises:
        ValueError: One sentence with file and line where a wanted line does not hold E numbers; or that the file is
            damaged, has vectors of another dimension, or none of the words.
    """
    path = find_vectors(source, dimension)
    if cache is None:
        return _read(path, words, dimension)
    place = cache / f"glove-{_key(path, words, dimension)}-v{_CACHE_VERSION}.safetensors"
    return WordVectors(**load_or_make(place, lambda: vars(_read(path, words, dimension)), at_most=_KEPT_VOCABULARIES))


def find_vectors(source: Path, dimension: int) -> Path:
    """Find the file of vectors in a folder; a file is returned itself.

    Raises:
        ValueError: Nothing there; one sentence that says what was looked for.
    """
    if source.exists() and not source.is_dir():
        return regular_file(source)
    files = sorted(path for path in source.glob("*") if path.is_file())
    for ending in ("txt", r"txt\.gz", "zip"):
        for path in files:
            if re.search(rf"(?<!\d){dimension}d\.{ending}$", path.name):
                return path
    zips = [path for path in files if path.suffix == ".zip"]
    for path in sorted(zips, key=lambda path: not _has_dimension(path, dimension)):
        return path
    raise ValueError(
        f"There are no word vectors at {source}: neither a file nor a folder with one whose name ends in "
        f"{dimension}d.txt or {dimension}d.txt.gz, or a .zip; "
        "download glove.6B.zip from nlp.stanford.edu/projects/glove and put it there."
    )


def _read(path: Path, words: Sequence[str], dimension: int) -> WordVectors:
    rows = {word.encode(): row for row, word in enumerate(words)}
    found, lines = list[int](), dict[int, bytes]()
    try:
        with open_vectors(path, dimension) as stream:
            _find(stream, rows, dimension, path, found, lines)
    except BROKEN_ARCHIVE as error:
        raise ValueError(
            f"{path.name} is damaged or cannot be read ({shorten(str(error))}); fetch the file again."
        ) from None
    if words and not found:
        raise ValueError(
            f"{path.name} has none of the {len(words):,} words that are looked for; give a file of word vectors in "
            "GloVe's text format, in the language of the texts."
        )
    vectors = torch.zeros(len(words), dimension)
    mask = torch.zeros(len(words), dtype=torch.bool)
    mask[found] = True
    if found:
        vectors[found] = torch.from_numpy(_numbers(lines, dimension, path))
    return WordVectors(vectors, mask)


def _find(
    stream: IO[bytes], rows: dict[bytes, int], dimension: int, path: Path, found: list[int], lines: dict[int, bytes]
) -> None:
    """Fill in the rows of the words that a file has, and the numbers that follow them, by the number of the line."""
    for number, line in enumerate(bounded_lines(stream, path), start=1):
        space = line.find(b" ")
        if number == 1:
            _check_dimension(line, dimension, path)
        row = rows.get(line[:space])
        if row is None:
            continue
        numbers = line[space + 1 :].rstrip()
        separators = numbers.count(b" ")
        if separators >= dimension:
            continue  # a "word" with spaces in it, of which some files have a few
        if separators != dimension - 1:
            raise ValueError(_wrong_dimension(path, number, separators + 1, dimension))
        del rows[line[:space]]  # the first of several lines counts
        found.append(row)
        lines[number] = numbers


def _check_dimension(line: bytes, dimension: int, path: Path) -> None:
    """Refuse a file whose first line has another number of numbers: its words would all count as not found."""
    parts = line.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        # The number of words and the dimension, which some files begin with.
        if int(parts[1]) != dimension:
            raise ValueError(f"{path.name} has vectors of {int(parts[1])} numbers, not {dimension}; set the dimension.")
        return
    numbers = list(takewhile(lambda part: not math.isnan(_number(part)), reversed(parts[1:])))
    if len(numbers) != dimension:
        raise ValueError(_wrong_dimension(path, 1, len(numbers), dimension))


def _wrong_dimension(path: Path, line: int, has: int, dimension: int) -> str:
    return (
        f"{path.name}, line {line}: {has} numbers follow the word, not {dimension}; give the file's own dimension, or "
        "fetch the file again."
    )


def _numbers(lines: dict[int, bytes], dimension: int, path: Path) -> "np.ndarray[Any, np.dtype[np.float32]]":
    names = [str(column) for column in range(dimension)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(b"\n".join(lines.values())),
            read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()), null_values=[]),
        )
        vectors = np.stack([table.column(name).to_numpy() for name in names], axis=1)
    except pa.ArrowInvalid:
        vectors = np.array([[_number(part) for part in line.split(b" ")] for line in lines.values()], dtype=np.float32)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        number = list(lines)[wrong[0]]
        raise ValueError(f"{path.name}, line {number} holds a number that is not finite; fetch the file again.")
    return vectors


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


@contextmanager
def open_vectors(path: Path, dimension: int) -> Iterator[IO[bytes]]:
    """Open a file of vectors line by line, whether it is plain, in a gz or in a zip."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(regular_file(path)) as archive, archive.open(_member(archive, path, dimension)) as stream:
            # zipfile's own lines are made in Python, these are not
            yield io.BufferedReader(cast(io.RawIOBase, stream), 2**20)
    elif path.suffix.lower() == ".gz":
        with gzip.open(regular_file(path)) as unpacked:
            yield cast(IO[bytes], unpacked)
    else:
        with open(regular_file(path), "rb") as plain:
            yield plain


def _has_dimension(path: Path, dimension: int) -> bool:
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            return any(re.search(rf"(?<!\d){dimension}d\.txt$", name) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _member(archive: zipfile.ZipFile, path: Path, dimension: int) -> str:
    names = [name for name in archive.namelist() if name.endswith(".txt")]
    right = [name for name in names if re.search(rf"(?<!\d){dimension}d\.txt$", name)] or names[: len(names) == 1]
    if not right:
        held = f"only {', '.join(names)}" if names else "and no .txt at all"
        raise ValueError(f"{path.name} holds no file of {dimension}-dimensional vectors, {held}.")
    return right[0]


def _key(path: Path, words: Iterable[str], dimension: int) -> str:
    about = path.stat()
    digest = hashlib.sha256(f"{about.st_size} {about.st_mtime_ns} {dimension}\n".encode())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()[:32]


def obtain_vectors(given: Path | str | None, root: Path | None, dimension: int) -> Path:
    """Find the word vectors: the given file, else one in the folder ``glove`` of a data folder, else a download.

    Raises:
        ValueError: It is nowhere; one sentence that says where to put it.
    """
    if given is not None:
        return find_vectors(Path(given).expanduser(), dimension)
    for folder in data_folders(root):
        if (folder / "glove").is_dir():
            return find_vectors(folder / "glove", dimension)
    return GLOVE.obtain(root)


def describe_vectors(path: Path | None) -> dict[str, Any] | None:
    """Describe the file for a run's records: name and size (hashing the published one would take seconds)."""
    return None if path is None else {"file": path.name, "bytes": path.stat().st_size}


def hash_words(words: Iterable[str]) -> str:
    """Compute the SHA-256 of words in their order, which says which row of an embedding stands for which word."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def describe_coverage(found: int, words: int, path: Path | None, *, others: str = "begin at random") -> str:
    """Say how many words have a vector, and what the others get.

    Examples:
        >>> describe_coverage(16_568, 20_000, Path("glove.6B.zip"))
        '16,568 of 20,000 words have a vector in glove.6B.zip; the others begin at random.'
        >>> describe_coverage(0, 300, None)
        'The vectors of 300 words begin at random.'
    """
    if path is None:
        return f"The vectors of {words:,} words {others}."
    return f"{found:,} of {words:,} words have a vector in {path.name}; the others {others}."
