"""Where the word vectors of the text data sets are found."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from focalcal.data.catalogue import GLOVE
from focalcal.data.folders import data_folders
from focalcal.data.glove import find_vectors


def obtained_vectors(given: Path | str | None, root: Path | None, dimension: int) -> Path:
    """The file of word vectors: the given one, else one in the folder ``glove`` of a data folder, else a download.

    Raises:
        ValueError: it is nowhere; one sentence that says where to put it.
    """
    if given is not None:
        return find_vectors(Path(given).expanduser(), dimension)
    for folder in data_folders(root):
        if (folder / "glove").is_dir():
            return find_vectors(folder / "glove", dimension)
    return GLOVE.obtained(root)


def about_vectors(path: Path | None) -> dict[str, Any] | None:
    """What a run records of the file: its name and size (hashing the published one would take seconds)."""
    return None if path is None else {"file": path.name, "bytes": path.stat().st_size}


def words_hash(words: Iterable[str]) -> str:
    """The SHA-256 of words in their order: which row of an embedding stands for which word."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def coverage(found: int, words: int, path: Path | None, *, others: str = "begin at random") -> str:
    """How many words have a vector, and what of the others, as a sentence.

    Examples:
        >>> coverage(16_568, 20_000, Path("glove.6B.zip"))
        '16,568 of 20,000 words have a vector in glove.6B.zip; the others begin at random.'
        >>> coverage(0, 300, None)
        'The vectors of 300 words begin at random.'
    """
    if path is None:
        return f"The vectors of {words:,} words {others}."
    return f"{found:,} of {words:,} words have a vector in {path.name}; the others {others}."
