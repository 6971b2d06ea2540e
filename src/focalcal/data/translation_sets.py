"""Parallel text as data sets: Multi30k, WMT14, and files of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focalcal.data.data_files import hash_file
from focalcal.data.data_sets import MULTI30K, WMT14
from focalcal.data.data_types import DataSet
from focalcal.data.parallel_text import ParallelText, read_parallel
from focalcal.data.sentence_pairs import SentencePairs, add_ends
from focalcal.data.splits import hash_split
from focalcal.data.subwords import UNKNOWN, Kind, SubwordVocabulary, learn_vocabulary

Paths = str | Path | Sequence[str | Path]
_SYNTHETIC_SUBWORDS = 48


@dataclass(frozen=True)
class PairOptions:
    """Options for making samples of sentence pairs.

    Attributes:
        vocabulary: Subwords of the joint vocabulary, learnt from the training split.
        subwords: Byte-pair encoding ("bpe") or a unigram language model ("unigram").
        max_tokens: Pairs with more subwords than this on a side are left out and counted.
        source: The language that is read, as files call it.
        target: The language that is written.
    """

    vocabulary: int
    subwords: Kind
    max_tokens: int
    source: str
    target: str

    def __post_init__(self) -> None:
        for name in ("vocabulary", "max_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 5:
                raise ValueError(f"{name} must be a whole number of at least 5 and is {value!r}.")
        if self.subwords not in ("bpe", "unigram"):
            raise ValueError(f"subwords must be bpe or unigram and is {self.subwords!r}.")


def load_multi30k(
    *,
    seed: int = 0,
    root: Path | None = None,
    vocabulary: int = 10_000,
    subwords: Kind = "bpe",
    max_tokens: int = 256,
    source: str = "en",
    target: str = "de",
    synthetic: int | None = None,
) -> DataSet:
    """Load captions of photographs: 29,000 pairs to learn from, 1,014 for validation, the tests of 2016 and 2017.

    Args:
        seed: Seed for synthetic sentences; the splits are the official ones.
        root: The folder with ``multi30k/``.
        vocabulary: Subwords of the joint vocabulary.
        subwords: "bpe" or "unigram".
        max_tokens: Longest sentence in subwords.
        source: "en" or "de", the language that is read.
        target: The other one.
        synthetic: This many random pairs in each split, without reading a file.
    """
    options = PairOptions(vocabulary, subwords, max_tokens, source, target)
    if sorted((source, target)) != ["de", "en"]:
        raise ValueError(
            f"Multi30k is used in the languages en and de, one of them each way, not {source} to {target}."
        )
    if synthetic is not None:
        return make_synthetic_pairs("multi30k", synthetic, options, seed)
    files = {split: [MULTI30K[split][language].obtain(root) for language in (source, target)] for split in MULTI30K}
    return build_pairs("multi30k", files, options)


def load_wmt14(
    *,
    seed: int = 0,
    root: Path | None = None,
    vocabulary: int = 32_000,
    subwords: Kind = "bpe",
    max_tokens: int = 256,
    source: str = "en",
    target: str = "de",
    synthetic: int | None = None,
) -> DataSet:
    """Load news, debates and web pages, English and German: 4.5 million pairs, newstest2013 and newstest2014.

    The arguments are those of ``load_multi30k``.
    """
    options = PairOptions(vocabulary, subwords, max_tokens, source, target)
    if synthetic is not None:
        return make_synthetic_pairs("wmt14", synthetic, options, seed)
    files = {split: [file.obtain(root) for file in shards] for split, shards in WMT14.items()}
    return build_pairs("wmt14", files, options)


def load_parallel(
    *,
    seed: int = 0,
    root: Path | None = None,
    train: Paths | None = None,
    val: Paths | None = None,
    test: Paths | None = None,
    vocabulary: int = 10_000,
    subwords: Kind = "bpe",
    max_tokens: int = 256,
    source: str = "en",
    target: str = "de",
    synthetic: int | None = None,
) -> DataSet:
    """Load parallel text of one's own.

    Args:
        seed: Seed for synthetic sentences.
        root: Has no meaning here, as the files are named.
        train: Two files of lines (plain or .gz), the source first, or a parquet file with a column ``translation``.
        val: The same for validation.
        test: The same for testing; may be left out.
        vocabulary: Subwords of the joint vocabulary.
        subwords: "bpe" or "unigram".
        max_tokens: Longest sentence in subwords.
        source: The language that is read, as a parquet file calls it.
        target: The language that is written.
        synthetic: This many random pairs in each split, without reading a file.
    """
    del root
    options = PairOptions(vocabulary, subwords, max_tokens, source, target)
    if synthetic is not None:
        return make_synthetic_pairs("parallel", synthetic, options, seed)
    for name, given in (("train", train), ("val", val)):
        if given is None:
            raise ValueError(f"The data set parallel needs {name}: two files of lines, or a parquet file.")
    named = {"train": train, "val": val, "test": test}
    return build_pairs("parallel", {s: _as_paths(paths) for s, paths in named.items() if paths}, options)


def _as_paths(given: Paths) -> list[Path]:
    return [Path(path).expanduser() for path in ([given] if isinstance(given, str | Path) else given)]


def build_pairs(name: str, files: Mapping[str, Sequence[Path]], options: PairOptions) -> DataSet:
    """Read the files of each split, learn a vocabulary from the training split, and number all sentences."""
    texts = {split: read_parallel(paths, (options.source, options.target)) for split, paths in files.items()}
    hashes = {f"{split}: {path.name}": hash_file(path) for split, paths in files.items() for path in paths}
    learnt_from, _ = texts["train"].without_empty()
    vocabulary = learn_vocabulary([*learnt_from.source, *learnt_from.target], options.vocabulary, kind=options.subwords)
    return _number_texts(name, texts, vocabulary, options, {"files": hashes})


def make_synthetic_pairs(name: str, count: int, options: PairOptions, seed: int) -> DataSet:
    """Make random sentences of an invented language, whose translation has the words in reverse order.

    Examples:
        >>> data = make_synthetic_pairs("multi30k", 20, PairOptions(100, "bpe", 64, "en", "de"), seed=0)
        >>> len(data.train), sorted(data.evaluation), data.model_options["num_classes"]
        (20, ['test', 'val'], 48)
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"synthetic is the number of random pairs in each split, at least 1; got {count}.")
    generator = np.random.default_rng(seed)
    words = [first + second for first in "bdfgklmn" for second in ("a", "e", "i", "o", "u")]
    texts = {}
    for split in ("train", "val", "test"):
        drawn = [generator.choice(words, size=length).tolist() for length in generator.integers(1, 9, size=count)]
        texts[split] = ParallelText([" ".join(row) for row in drawn], [" ".join(row[::-1]) for row in drawn])
    vocabulary = learn_vocabulary([" ".join(words)] * 10, _SYNTHETIC_SUBWORDS)
    notes = ["The sentences are random: no file was read."]
    return _number_texts(name, texts, vocabulary, options, {"files": {}, "notes": notes})


def _number_texts(
    name: str,
    texts: Mapping[str, ParallelText],
    vocabulary: SubwordVocabulary,
    options: PairOptions,
    facts: Mapping[str, Any],
) -> DataSet:
    samples, left_out, unknown, first = {}, {}, {}, 0
    for split, text in texts.items():
        samples[split], left_out[split] = number_pairs(text, vocabulary, options.max_tokens, first)
        first += len(text)
        unknown[split] = int((samples[split].source.numbers == UNKNOWN).sum())
        if not len(samples[split]):
            raise ValueError(f"The split {split} of {name} has no pair of at most {options.max_tokens} subwords.")
    about = {
        "vocabulary": len(vocabulary),
        "vocabulary_sha256": vocabulary.sha256,
        "left_out": left_out,
        "unknown_subwords": unknown,
        **facts,
        "notes": [*facts.get("notes", []), *_notes(left_out, unknown, options.max_tokens)],
        "sizes": {split: len(some) for split, some in samples.items()},
        "split_sha256": {split: hash_split(some.ids) for split, some in samples.items()},
    }
    train = samples.pop("train")
    needs = {"num_classes": len(vocabulary), "max_length": options.max_tokens}
    return DataSet(name, (), train, samples, needs, about)


def number_pairs(
    text: ParallelText, vocabulary: SubwordVocabulary, max_tokens: int, first: int
) -> tuple[SentencePairs, dict[str, int]]:
    """Number the pairs of a split; those with an empty or too long side are left out and counted.

    Ids are the lines, counted from ``first``, so that no id is in two splits.
    """
    filled, places = text.without_empty()
    source, target = add_ends(vocabulary.encode(filled.source)), add_ends(vocabulary.encode(filled.target))
    fits = np.flatnonzero((source.lengths <= max_tokens) & (target.lengths <= max_tokens))
    pairs = SentencePairs(
        source.select(fits),
        target.select(fits),
        first + torch.tensor(places, dtype=torch.int64)[torch.from_numpy(fits)],
        vocabulary,
        [filled.source[place] for place in fits],
        [filled.target[place] for place in fits],
    )
    return pairs, {"empty": len(text) - len(filled), "too_long": len(filled) - len(pairs)}


def _notes(left_out: Mapping[str, Mapping[str, int]], unknown: Mapping[str, int], max_tokens: int) -> list[str]:
    notes = []
    for split, counts in left_out.items():
        if any(counts.values()):
            empty, too_long = counts["empty"], counts["too_long"]
            notes.append(
                f"{split}: {empty:,} pairs with an empty line and {too_long:,} of more than {max_tokens} subwords were "
                "left out."
            )
    notes += [f"{split}: {n:,} subwords of the source are unknown." for split, n in unknown.items() if n]
    return notes
