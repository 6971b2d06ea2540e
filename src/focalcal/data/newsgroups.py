"""20 Newsgroups: 19,997 messages of 20 groups, split at random, as the authors' code does it, or by date."""

import gzip
import re
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import regular_file
from focalcal.data.data_files import cache_folder, hash_file, is_offline, largest_unpacked
from focalcal.data.data_sets import NEWSGROUPS
from focalcal.data.data_types import DataSet
from focalcal.data.glove import obtain_vectors
from focalcal.data.text_sets import Documents, TextOptions, build_text_data_set, make_synthetic_texts
from focalcal.data.text_tokens import number_texts

_ALL, _VALIDATION, _TEST = 19_997, 900, 3_999
_LARGEST_MESSAGE = 16 * 2**20  # bytes; the largest of the collection has 161,040
_NUMBER = re.compile("[0-9]{1,18}")  # of a message
_BLANK_LINE = re.compile(r"(?:\A|\r?\n)\r?\n")
_GROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)


def load_newsgroups(
    *,
    seed: int = 0,
    root: Path | None = None,
    tokens: int = 1000,
    words: int = 20_000,
    glove: Path | str | None = None,
    dimension: int = 100,
    trim: bool = True,
    by_date: bool = False,
    split: str = "random",
    vocabulary: str = "training",
    missing_vectors: str = "random",
    synthetic: int | None = None,
) -> DataSet:
    """Load the original collection without its headers: 15,098 / 900 / 3,999 messages, split at random.

    Args:
        seed: Seed for the split, and for the vectors of words that GloVe lacks.
        root: Folder with ``newsgroups/`` and ``glove/``.
        tokens: Number of tokens, the last of a message; shorter ones are padded at the front.
        words: Number of known words, the most frequent ones; the others are left out.
        glove: File or folder of word vectors, instead of the root's.
        dimension: Dimension of the word vectors.
        trim: Whether a batch leaves out padding that makes no difference.
        by_date: The split by date that scikit-learn fetches (11,314 / 7,532), of whose training part 900 validate.
        split: ``random``, by the seed; ``authors``, the very split of the code that the paper's authors published. The
            ids of messages are then their places in the order of group and file *name* (10000 before 9999), which that
            split is made of, and not in that of group and number.
        vocabulary: Texts in which words are counted: the ``training`` split, or ``all`` messages.
        missing_vectors: Vectors of words that GloVe lacks: ``random`` numbers, or ``zeros``.
        synthetic: Number of random messages in each split, with small random vectors, instead of files.

    Raises:
        ValueError: One sentence that says which file is missing or damaged.
    """
    options = TextOptions(tokens, words, dimension, trim, vocabulary, missing_vectors)
    _check_split(split, by_date)
    if synthetic is not None:
        return make_synthetic_texts("newsgroups", _GROUPS, synthetic, tokens=tokens, trim=trim, seed=seed)
    vectors = obtain_vectors(glove, root, dimension)
    if by_date:
        documents, names, splits = _by_date(seed)
        facts: dict[str, Any] = {"split_seed": seed, "files": {}, "notes": ["The split is by date."]}
    else:
        archive = NEWSGROUPS.obtain(root)
        by_authors = split == "authors"
        documents, names = read_newsgroups(archive, by_name=by_authors)
        count = len(documents.labels)
        splits = make_authors_splits(count) if by_authors else _random_splits(count, seed)
        notes = [] if len(names) == len(_GROUPS) else [f"The archive holds {len(names)} of the 20 groups."]
        files = {NEWSGROUPS.path: hash_file(archive)}
        facts = {"split_seed": None if by_authors else seed, "files": files, "notes": notes}
    return build_text_data_set("newsgroups", names, documents, splits, options, vectors=vectors, seed=seed, facts=facts)


def _check_split(split: str, by_date: bool) -> None:
    if split not in ("random", "authors"):
        raise ValueError(f"split must be random or authors and is {split!r}.")
    if by_date and split != "random":
        raise ValueError("by_date and split=authors are two different splits; leave one of them out.")


def read_newsgroups(archive: Path, *, by_name: bool = False) -> tuple[Documents, tuple[str, ...]]:
    """Read all messages in the order of group and number, and the names of the groups.

    Args:
        archive: The tar.gz file.
        by_name: Whether a group's messages come in the order of their names as texts, 10000 before 9999.

    Raises:
        ValueError: The file is not a tar.gz, or holds no messages.
    """
    try:
        messages = sorted(_messages(archive), key=lambda message: (message[0], str(message[1])) if by_name else message)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{archive} is not a whole tar.gz file ({error}); fetch it again.") from None
    names = tuple(sorted({group for group, _, _ in messages}))
    if len(names) < 2:
        raise ValueError(f"{archive} holds no messages in folders of at least two of the 20 groups; fetch it again.")
    numbers = {name: number for number, name in enumerate(names)}
    labels = torch.tensor([numbers[group] for group, _, _ in messages])
    texts, words = number_texts(drop_header(text) for _, _, text in messages)
    return Documents(texts, words, labels), names


def _messages(archive: Path) -> Iterator[tuple[str, int, str]]:
    """Read group, number and text of each message; files that are not group/number of the 20 groups are left out.

    Nothing is extracted.
    """
    with gzip.open(regular_file(archive)) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as opened:
            for member in opened:
                *_, group, number = ("", "", *member.name.split("/"))
                is_message = member.isfile() and group in _GROUPS and _NUMBER.fullmatch(number)
                if is_message and member.size > _LARGEST_MESSAGE:
                    raise tarfile.TarError(f"{member.name} has {member.size:,} bytes, more than any message")
                content = opened.extractfile(member) if is_message else None
                if content is not None:
                    yield group, int(number), content.read().decode("latin-1")
        _read_to_the_end(stream, archive)


def _read_to_the_end(stream: gzip.GzipFile, archive: Path) -> None:
    """Read what follows the last message: at its end gzip finds out whether anything was lost."""
    most = largest_unpacked(archive)
    while stream.read(2**20):
        if stream.tell() > most:
            raise tarfile.TarError(f"it unpacks to more than {most:,} bytes, which no text of its size does")


def drop_header(message: str) -> str:
    r"""Return what follows the first blank line, or the whole message if it has none.

    Examples:
        >>> drop_header("From: me\nSubject: hello\n\nDear all,\n\nbye")
        'Dear all,\n\nbye'
    """
    blank = _BLANK_LINE.search(message)
    return message[blank.end() :] if blank else message


def _random_splits(count: int, seed: int) -> dict[str, Tensor]:
    held = _VALIDATION + _TEST
    if count <= held:
        raise ValueError(f"The archive holds {count} messages, too few to hold out {held}; fetch the file again.")
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    sizes = {"train": count - held, "val": _VALIDATION, "test": _TEST}
    parts = shuffled.split(list(sizes.values()))  # type: ignore[no-untyped-call]
    return {name: part.sort().values for name, part in zip(sizes, parts, strict=True)}


def make_authors_splits(count: int) -> dict[str, Tensor]:
    """Compute the positions of the authors' split, in the order of group and file name: NumPy's legacy shuffle, seed 1.

    Raises:
        ValueError: There are not 19,997 messages, so it would be another split.
    """
    if count != _ALL:
        raise ValueError(f"The authors split {_ALL:,} messages, and there are {count:,}; fetch the file again.")
    shuffled = np.arange(count)
    np.random.RandomState(1).shuffle(shuffled)
    parts = np.split(shuffled, [count - _VALIDATION - _TEST, count - _TEST])
    return {name: torch.from_numpy(np.sort(part)) for name, part in zip(("train", "val", "test"), parts, strict=True)}


def _by_date(seed: int) -> tuple[Documents, tuple[str, ...], dict[str, Tensor]]:
    from sklearn.datasets import fetch_20newsgroups

    home = cache_folder() / "scikit-learn"
    options: dict[str, Any] = {"remove": ("headers",), "shuffle": False, "data_home": str(home)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every attempt to reach the network; the last one is told below
            train, test = (
                fetch_20newsgroups(subset=subset, download_if_missing=not is_offline(), **options)
                for subset in ("train", "test")
            )
    except OSError as error:
        for folder in (home / "20news_home", home):
            with suppress(OSError):  # scikit-learn leaves its folders empty; one with something in it stays
                folder.rmdir()
        reason = "downloads are switched off by FOCALCAL_OFFLINE" if is_offline() else str(error)
        raise ValueError(
            f"scikit-learn could not fetch 20 Newsgroups by date ({reason}); "
            "connect to the network, or leave by_date out."
        ) from error
    texts, words = number_texts([*train.data, *test.data])
    labels = torch.tensor([*train.target.tolist(), *test.target.tolist()])
    shuffled = torch.randperm(len(train.data), generator=torch.Generator().manual_seed(seed))
    splits = {
        "train": shuffled[_VALIDATION:].sort().values,
        "val": shuffled[:_VALIDATION].sort().values,
        "test": torch.arange(len(train.data), len(labels)),
    }
    return Documents(texts, words, labels), tuple(train.target_names), splits
