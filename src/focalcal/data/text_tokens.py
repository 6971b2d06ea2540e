"""Texts as word numbers, and as samples: split at punctuation, numbered, the most frequent words kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalcal.data.data_types import Batch

Integers = NDArray[np.int64]

PADDING, UNKNOWN = 0, 1  # the first rows of every embedding; the words follow
FIRST_WORD = 2
# The characters that Keras' Tokenizer takes for spaces; the apostrophe is not among them.
_SEPARATORS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case, at white space and punctuation other than the apostrophe.

    Examples:
        >>> split_words("Don't panic, it's e-mail!")
        ["don't", 'panic', "it's", 'e', 'mail']
    """
    return text.lower().translate(_SEPARATORS).split()


@dataclass(frozen=True)
class NumberedTexts:
    """N texts as numbers, one after the other.

    Attributes:
        numbers: The numbers of all words of all texts.
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
        """Return the texts at these positions."""
        lengths = self.lengths[positions]
        firsts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(self.starts[positions] - firsts, lengths)
        return NumberedTexts(self.numbers[places], np.concatenate([[0], np.cumsum(lengths)]))

    def last(self, tokens: int) -> "NumberedTexts":
        """Cut each text to its last tokens."""
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


def find_frequent_words(texts: NumberedTexts, most: int) -> Integers:
    """Find the numbers of the most frequent words, the most frequent first; among equals the one that came first.

    Examples:
        >>> texts, words = number_texts(["to be or", "not to be"])
        >>> [words[number] for number in find_frequent_words(texts, 3)]
        ['to', 'be', 'or']
    """
    counts = np.bincount(texts.numbers)
    order = np.argsort(-counts, kind="stable")[:most]
    return order[counts[order] > 0]


def keep_words(texts: NumberedTexts, kept: Sequence[int] | Integers, different: int) -> NumberedTexts:
    """Replace numbers by rows of an embedding: kept[i] becomes the row i + 2, and other words are left out.

    A text with nothing left becomes one unknown word, row 1.

    Args:
        texts: Numbers below ``different``.
        kept: Numbers of the words that have a row.
        different: Number of different words.

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


class TextBatch(NamedTuple):
    """Texts as a network takes them.

    Attributes:
        words: (B, W) int64 rows of the embedding, padded at the front.
        left_out: Number of further positions of padding in front of every text, which the network adds as it needs.
    """

    words: Tensor
    left_out: int


@dataclass
class TokenSamples:
    """N texts of at most a number of tokens.

    Padding takes part in convolution and pooling, so the result of a batch that is cut to its longest text would
    depend on the other texts. But what convolution makes of nothing but padding is the same everywhere: the batch says
    how many positions were left out, and the network, which knows how far its windows reach, puts in what its maps
    would have there. The logits are those of padding to all tokens.

    Attributes:
        texts: Rows of the embedding, the last ``tokens`` of each text.
        labels: (N,) int64.
        ids: (N,) int64.
        tokens: Number of positions that a text is padded to.
        trim: Whether padding is left out.
        vocabulary: Words that the rows of the embedding from the third on stand for; empty where they are random.
    """

    texts: NumberedTexts
    labels: Tensor
    ids: Tensor
    tokens: int
    trim: bool = True
    vocabulary: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.texts = self.texts.last(self.tokens)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def lengths(self) -> Tensor:
        """(N,) the number of tokens of each text."""
        return torch.from_numpy(self.texts.lengths)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Pad the texts at the front to all tokens, or to the longest text where ``trim`` is set; and (B,) labels."""
        del generator  # nothing here is random
        chosen = self.texts.select(positions.numpy())
        lengths = chosen.lengths
        width = int(lengths.max(initial=0)) if self.trim else self.tokens
        rows = np.full((len(chosen), width), PADDING, dtype=np.int64)
        rows[np.arange(width) >= width - lengths[:, None]] = chosen.numbers
        inputs = TextBatch(torch.from_numpy(rows).to(device), self.tokens - width)
        return Batch(inputs, self.labels[positions].to(device))
