"""From texts and labels to a data set: vocabulary, word vectors, samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.data.folders import cache_folder
from focalcal.data.glove import WordVectors, read_vectors
from focalcal.data.samples import DataSet
from focalcal.data.splits import split_hash
from focalcal.data.text_tokens import FIRST_WORD, NumberedTexts, frequent_words, keep_words
from focalcal.data.token_samples import TokenSamples
from focalcal.data.vector_files import about_vectors, coverage, words_hash


@dataclass(frozen=True)
class Documents:
    """N labelled texts.

    Attributes:
        texts: the texts as numbers of words.
        words: the words that the numbers stand for.
        labels: (N,) int64.
    """

    texts: NumberedTexts
    words: list[str]
    labels: Tensor


@dataclass(frozen=True)
class TextOptions:
    """How texts become samples.

    Attributes:
        tokens: the last so many tokens of a text count, and shorter ones are padded at the front.
        words: so many words of the training split are known, the most frequent ones.
        dimension: of the word vectors.
        trim: whether a batch leaves out padding that makes no difference (see :class:`TokenSamples`).
        vocabulary: where the words are counted: in the ``training`` texts, or in ``all`` texts.
        missing_vectors: what stands for a word without a vector: ``random`` numbers, or ``zeros``.
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


def text_data_set(
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
    """A data set of the documents.

    Args:
        name: of the set.
        class_names: K names.
        documents: all of them.
        splits: the positions of train, val and test.
        options: tokens, words, ...
        vectors: a file of word vectors, or None for random ones.
        seed: of the random vectors.
        facts: what else is to be recorded.
    """
    counted = documents.texts if options.vocabulary == "all" else documents.texts.select(splits["train"].numpy())
    kept = frequent_words(counted, options.words)
    if not len(kept):
        raise ValueError(f"The training texts of {name} hold no word; give texts with words in them.")
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
    embeddings, about_words = embedding(
        vocabulary, vectors, options.dimension, None if options.missing_vectors == "zeros" else seed
    )
    left_empty = _left_empty(documents.texts, kept, len(documents.words))
    about = {
        **facts,
        "glove": about_vectors(vectors),
        **about_words,
        "coverage": " ".join([about_words["coverage"], *_about_empty(left_empty, len(documents.labels))]),
        **left_empty,
        "tokens": options.tokens,
        "sizes": {split: len(some) for split, some in samples.items()},
        "split_sha256": {split: split_hash(some.ids) for split, some in samples.items()},
    }
    train = samples.pop("train")
    needs = {"num_classes": len(class_names), "embeddings": embeddings}
    return DataSet(name, class_names, train, samples, needs, about)


def embedding(words: list[str], source: Path | None, dimension: int, seed: int | None) -> tuple[Tensor, dict[str, Any]]:
    """((W + 2), E) vectors: zeros for padding, one for unknown words, then those of the words; and facts.

    What has no vector gets a random one, or zeros where there is no seed.
    """
    if source is None:
        known = WordVectors(torch.zeros(len(words), dimension), torch.zeros(len(words), dtype=torch.bool))
    else:
        known = read_vectors(source, words, dimension=dimension, cache=cache_folder())
    unknown = torch.zeros(1, dimension), torch.tensor([False])
    given = WordVectors(torch.cat([unknown[0], known.vectors]), torch.cat([unknown[1], known.found]))
    filled = given.vectors if seed is None else given.filled(seed)
    found = int(known.found.sum())
    facts = {
        "vocabulary": len(words),
        "vocabulary_sha256": words_hash(words),
        "vocabulary_in_glove": found,
        "coverage": coverage(found, len(words), source, others="begin at random" if seed is not None else "are zeros"),
    }
    return torch.cat([torch.zeros(FIRST_WORD - 1, dimension), filled]), facts


def _left_empty(texts: NumberedTexts, kept: np.ndarray[Any, np.dtype[np.int64]], different: int) -> dict[str, int]:
    """How many texts became one unknown word, because they have no word or none that is known."""
    known = np.zeros(different, dtype=np.int64)
    known[kept] = 1
    sums = np.concatenate([[0], np.cumsum(known[texts.numbers])])
    without_known = sums[texts.starts[1:]] == sums[texts.starts[:-1]]
    empty = texts.lengths == 0
    return {"empty_texts": int(empty.sum()), "texts_without_known_word": int((without_known & ~empty).sum())}


def _about_empty(left_empty: Mapping[str, int], texts: int) -> list[str]:
    """A sentence on texts that became one unknown word, where there are any."""
    empty, unknown = left_empty.values()
    if not empty and not unknown:
        return []
    return [f"Of {texts:,} texts {empty:,} have no word and {unknown:,} none that is known: each is one unknown word."]
