"""Texts as word numbers: split at punctuation, numbered, the most frequent words kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

PADDING, UNKNOWN = 0, 1  # the first rows of every embedding; the words follow
FIRST_WORD = 2
# The characters that Keras' Tokenizer takes for spaces; the apostrophe is not among them.
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, split at white space and punctuation other than the apostrophe.

    Examples:
        >>> split_words("Don't panic, it's e-mail!")
        ["don't", 'panic', "it's", 'e', 'mail']
    """
    return text.lower().translate(_SEPARATORS).split()


@dataclass(frozen=True)
class NumberedTexts:
    """N texts as numbers, one after the other.

    Attributes:
        numbers: the numbers of all words of all texts.
        starts: (N + 1,) where each text begins.
    """

    numbers: Integers
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Integers:
        """(N,) how many numbers each text has."""
        return np.diff(self.starts)

    def select(self, positions: Integers) -> "NumberedTexts":
        """The texts at these positions."""
        lengths = self.lengths[positions]
        firsts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(self.starts[positions] - firsts, lengths)
        return NumberedTexts(self.numbers[places], np.concatenate([[0], np.cumsum(lengths)]))

    def last(self, tokens: int) -> "NumberedTexts":
        """The same texts, of each no more than its last tokens."""
        lengths = self.lengths
        from_end = np.repeat(self.starts[1:], lengths) - np.arange(len(self.numbers))
        starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, tokens))])
        return NumberedTexts(self.numbers[from_end <= tokens], starts)


def number_texts(texts: Iterable[str]) -> tuple[NumberedTexts, list[str]]:
    """Number all words in the order in which they first occur.

    Returns:
        The texts, and the words that the numbers stand for.

    Examples:
        >>> texts, words = number_texts(["to be or", "not to be"])
        >>> texts.numbers, texts.starts, words
        (array([0, 1, 2, 3, 0, 1]), array([0, 3, 6]), ['to', 'be', 'or', 'not'])
    """
    known: dict[str, int] = {}
    parts, lengths = [np.empty(0, dtype=np.int64)], [0]
    for text in texts:
        numbers = [known.setdefault(word, len(known)) for word in split_words(text)]
        parts.append(np.array(numbers, dtype=np.int64))
        lengths.append(len(numbers))
    return NumberedTexts(np.concatenate(parts), np.cumsum(lengths)), list(known)


def frequent_words(texts: NumberedTexts, most: int) -> Integers:
    """The numbers of the most frequent words, the first of all first; among equals the one that came first.

    Examples:
        >>> texts, words = number_texts(["to be or", "not to be"])
        >>> [words[number] for number in frequent_words(texts, 3)]
        ['to', 'be', 'or']
    """
    counts = np.bincount(texts.numbers)
    order = np.argsort(-counts, kind="stable")[:most]
    return order[counts[order] > 0]


def keep_words(texts: NumberedTexts, kept: Sequence[int] | Integers, different: int) -> NumberedTexts:
    """Rows of an embedding in place of numbers: kept[i] becomes the row i + 2, and other words are left out.

    A text with nothing left becomes one unknown word, row 1.

    Args:
        texts: numbers below ``different``.
        kept: the numbers of the words that have a row.
        different: how many different words were numbered.

    Examples:
        >>> texts, words = number_texts(["to be or", "not", ""])
        >>> kept = keep_words(texts, [1, 0], len(words))
        >>> kept.numbers, kept.starts
        (array([3, 2, 1, 1]), array([0, 2, 3, 4]))
    """
    rows = np.zeros(different, dtype=np.int64)
    rows[np.asarray(kept, dtype=np.int64)] = np.arange(FIRST_WORD, FIRST_WORD + len(kept))
    numbers = rows[texts.numbers]
    starts = np.concatenate([[0], np.cumsum(numbers > 0)])[texts.starts]
    empty = np.diff(starts) == 0
    filled = np.insert(numbers[numbers > 0], starts[:-1][empty], UNKNOWN)
    return NumberedTexts(filled, starts + np.concatenate([[0], np.cumsum(empty)]))
