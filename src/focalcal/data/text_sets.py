"""Text data sets: documents with a vocabulary and word vectors, random texts, and new texts for a trained network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.data.data_files import cache_folder
from focalcal.data.data_types import DataSet
from focalcal.data.glove import WordVectors, describe_coverage, describe_vectors, hash_words, read_vectors
from focalcal.data.splits import hash_split
from focalcal.data.text_tokens import (
    FIRST_WORD,
    NumberedTexts,
    TextBatch,
    TokenSamples,
    find_frequent_words,
    keep_words,
    number_texts,
)

_WORDS, _DIMENSION = 50, 8


@dataclass(frozen=True)
class Documents:
    """N labelled texts.

    Attributes:
        texts: The texts as numbers of words.
        words: The words that the numbers stand for.
        labels: (N,) int64.
    """

    texts: NumberedTexts
    words: list[str]
    labels: Tensor


@dataclass(frozen=True)
class TextOptions:
    """Options for turning texts into samples.

    Attributes:
        tokens: Number of tokens, the last of a text; shorter ones are padded at the front.
        words: Number of known words, the most frequent ones of the training split.
        dimension: Dimension of the word vectors.
        trim: Whether a batch leaves out padding that makes no difference (see :class:`TokenSamples`).
        vocabulary: Texts in which words are counted: the ``training`` texts, or ``all`` texts.
        missing_vectors: Vectors of words without one: ``random`` numbers, or ``zeros``.
    """

    tokens: int = 1000
    words: int = 20_000
    dimension: int = 100
    trim: bool = True
    vocabulary: str = "training"
    missing_vectors: str = "random"

    def __post_init__(self) -> None:
        for name in ("tokens", "words", "dimension"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1 and is {value!r}.")
        if not isinstance(self.trim, bool):
            raise TypeError(f"trim must be true or false and is {self.trim!r}.")
        for name, known in (("vocabulary", ("training", "all")), ("missing_vectors", ("random", "zeros"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(known)} and is {getattr(self, name)!r}.")


def build_text_data_set(
    name: str,
    class_names: tuple[str, ...],
    documents: Documents,
    splits: Mapping[str, Tensor],
    options: TextOptions,
    *,
    vectors: Path | None,
    seed: int,
    facts: Mapping[str, Any],
) -> DataSet:
    """Build a data set from documents.

    Args:
        name: Name of the set.
        class_names: K names.
        documents: All documents.
        splits: Positions of train, val and test.
        options: Tokens, words, ...
        vectors: A file of word vectors, or None for random ones.
        seed: Seed for the random vectors.
        facts: Further facts for the records of a run.
    """
    counted = documents.texts if options.vocabulary == "all" else documents.texts.select(splits["train"].numpy())
    kept = find_frequent_words(counted, options.words)
    if not len(kept):
        raise ValueError(f"The training texts of {name} contain no words; give texts with words in them.")
    rows = keep_words(documents.texts, kept, len(documents.words))
    vocabulary = [documents.words[number] for number in kept]
    samples = {
        split: TokenSamples(
            rows.select(positions.numpy()),
            documents.labels[positions],
            positions,
            options.tokens,
            options.trim,
            vocabulary,
        )
        for split, positions in splits.items()
    }
    embeddings, about_words = build_embedding(
        vocabulary, vectors, options.dimension, None if options.missing_vectors == "zeros" else seed
    )
    left_empty = _left_empty(documents.texts, kept, len(documents.words))
    about = {
        **facts,
        "glove": describe_vectors(vectors),
        **about_words,
        "coverage": " ".join([about_words["coverage"], *_about_empty(left_empty, len(documents.labels))]),
        **left_empty,
        "tokens": options.tokens,
        "sizes": {split: len(some) for split, some in samples.items()},
        "split_sha256": {split: hash_split(some.ids) for split, some in samples.items()},
    }
    train = samples.pop("train")
    needs = {"num_classes": len(class_names), "embeddings": embeddings}
    return DataSet(name, class_names, train, samples, needs, about)


def build_embedding(
    words: list[str], source: Path | None, dimension: int, seed: int | None
) -> tuple[Tensor, dict[str, Any]]:
    """Build ((W + 2), E) vectors: zeros for padding, one for unknown words, then those of the words; and facts.

    What has no vector gets a random one, or zeros where there is no seed.
    """
    if source is None:
        known = WordVectors(torch.zeros(len(words), dimension), torch.zeros(len(words), dtype=torch.bool))
    else:
        known = read_vectors(source, words, dimension=dimension, cache=cache_folder())
    unknown = torch.zeros(1, dimension), torch.tensor([False])
    given = WordVectors(torch.cat([unknown[0], known.vectors]), torch.cat([unknown[1], known.found]))
    filled = given.vectors if seed is None else given.fill_missing(seed)
    found = int(known.found.sum())
    facts = {
        "vocabulary": len(words),
        "vocabulary_sha256": hash_words(words),
        "vocabulary_in_glove": found,
        "coverage": describe_coverage(
            found, len(words), source, others="begin at random" if seed is not None else "are zeros"
        ),
    }
    return torch.cat([torch.zeros(FIRST_WORD - 1, dimension), filled]), facts


def _left_empty(texts: NumberedTexts, kept: np.ndarray[Any, np.dtype[np.int64]], different: int) -> dict[str, int]:
    """Count the texts that became one unknown word, because they have no word or none that is known."""
    known = np.zeros(different, dtype=np.int64)
    known[kept] = 1
    sums = np.concatenate([[0], np.cumsum(known[texts.numbers])])
    without_known = sums[texts.starts[1:]] == sums[texts.starts[:-1]]
    empty = texts.lengths == 0
    return {"empty_texts": int(empty.sum()), "texts_without_known_word": int((without_known & ~empty).sum())}


def _about_empty(left_empty: Mapping[str, int], texts: int) -> list[str]:
    """Say how many texts became one unknown word, if any did."""
    empty, unknown = left_empty.values()
    if not empty and not unknown:
        return []
    return [f"Of {texts:,} texts {empty:,} have no word and {unknown:,} none that is known: each is one unknown word."]


def make_synthetic_texts(
    name: str, class_names: tuple[str, ...], count: int, *, tokens: int, trim: bool, seed: int
) -> DataSet:
    """Make random word numbers and labels, as many texts in each split, with small random word vectors.

    Examples:
        >>> data = make_synthetic_texts("newsgroups", ("a", "b"), 8, tokens=200, trim=True, seed=0)
        >>> len(data.train), sorted(data.evaluation), data.model_options["embeddings"].shape
        (8, ['test', 'val'], torch.Size([52, 8]))
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"synthetic is the number of random texts in each split, at least 1; got {count}.")
    generator = np.random.default_rng(seed)
    samples = {}
    for number, split in enumerate(("train", "val", "test")):
        lengths = generator.integers(1, min(tokens, 60) + 1, size=count)
        numbers = generator.integers(FIRST_WORD, FIRST_WORD + _WORDS, size=lengths.sum())
        texts = NumberedTexts(numbers, np.concatenate([[0], np.cumsum(lengths)]))
        labels = torch.from_numpy(generator.integers(len(class_names), size=count))
        ids = torch.arange(number * count, (number + 1) * count)
        samples[split] = TokenSamples(texts, labels, ids, tokens, trim)
    vectors = generator.normal(0.0, 0.4, (FIRST_WORD + _WORDS, _DIMENSION)).astype(np.float32)
    vectors[0] = 0.0
    facts = {
        "split_seed": seed,
        "files": {},
        "notes": ["The texts and vectors are random: no file was read."],
        "sizes": dict.fromkeys(samples, count),
        "split_sha256": {split: hash_split(some.ids) for split, some in samples.items()},
    }
    train = samples.pop("train")
    needs = {"num_classes": len(class_names), "embeddings": torch.from_numpy(vectors)}
    return DataSet(name, class_names, train, samples, needs, facts)


def encode_texts(texts: Sequence[str], data: DataSet) -> TextBatch:
    """Encode texts for a network that was trained on a data set; unknown words are left out.

    Args:
        texts: N texts; one without a known word is one unknown word.
        data: ``text`` or ``newsgroups`` as it was trained with: the same file, split seed and options.

    Examples:
        >>> from focalcal.data import load_data
        >>> data = load_data("text", path="my.csv")  # doctest: +SKIP
        >>> logits = network(encode_texts(["What a film"], data))  # doctest: +SKIP
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("texts must be a list of strings, such as ['What a film'].")
    if not len(texts):
        raise ValueError("There are no texts to encode; give at least one.")
    samples = data.train
    if not isinstance(samples, TokenSamples) or not samples.vocabulary:
        raise ValueError(f"{data.name} has no vocabulary of words in a row; texts are for newsgroups and text.")
    numbered, words = number_texts(texts)
    place = {word: number for number, word in enumerate(words)}
    # Each known word gets the number that it has in the data set; those that do not occur here need none.
    known = [(row, place[word]) for row, word in enumerate(samples.vocabulary) if word in place]
    kept = keep_words(numbered, [number for _, number in known], len(words))
    rows = np.array([0, 1, *(row + 2 for row, _ in known)], dtype=np.int64)
    numbers = type(numbered)(rows[kept.numbers], kept.starts)
    every = torch.arange(len(texts))
    own = TokenSamples(numbers, torch.zeros_like(every), every, samples.tokens, samples.trim)
    batch: TextBatch = own.batch(every, device=torch.device("cpu"), generator=None).inputs
    return batch
