"""The Stanford Sentiment Treebank: binary trees with labelled phrases; trained on nodes, evaluated on roots."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import regular_file
from focalcal.base.suggestions import shorten
from focalcal.data.data_files import BROKEN_ARCHIVE, cache_folder, hash_file, largest_unpacked
from focalcal.data.data_sets import SST
from focalcal.data.data_types import Batch, DataSet
from focalcal.data.glove import (
    WordVectors,
    describe_coverage,
    describe_vectors,
    hash_words,
    obtain_vectors,
    read_vectors,
    spell,
)
from focalcal.data.splits import hash_split
from focalcal.data.trees import Trees, random_trees, read_trees, replace_words, to_device

_FILES = {"train": "trees/train.txt", "val": "trees/dev.txt", "test": "trees/test.txt"}
# The classes of the labels 0 (very negative) to 4 (very positive); −100 is not supervised.
_CLASSES = {2: np.array([0, 0, -100, 1, 1]), 3: np.array([0, 0, 1, 2, 2])}
_CLASS_NAMES = {2: ("negative", "positive"), 3: ("negative", "neutral", "positive")}
_SYNTHETIC_WORDS = 50


@dataclass
class TreeSamples:
    """N sentences as trees.

    Attributes:
        trees: Sentences, whose words are rows of the embedding.
        targets: One class per node of all trees, −100 where it is not supervised.
        labels: (N,) int64, the classes of the roots.
        ids: (N,) int64, the tree's place in the official files, train, dev and test one after the other.
        by_node: Whether every supervised node of a tree has a target (to learn from), or its root alone.
        lengths: (N,) int64, the number of words of each sentence.
    """

    trees: Trees
    targets: np.ndarray[Any, np.dtype[np.int64]]
    labels: Tensor
    ids: Tensor
    by_node: bool

    def __post_init__(self) -> None:
        self._wanted = self.targets >= 0
        if not self.by_node:
            self._wanted = np.zeros(len(self.targets), dtype=bool)
            self._wanted[self.trees.roots] = True

    def __len__(self) -> int:
        return len(self.trees)

    @property
    def lengths(self) -> Tensor:
        """(N,) the number of words of each sentence: a binary tree of n nodes has (n + 1) / 2 leaves."""
        return torch.from_numpy((np.diff(self.trees.starts) + 1) // 2)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Return trees in one schedule by height, and the targets of their supervised nodes, or of their roots."""
        del generator  # nothing here is random
        inputs, places = self.trees.batch(positions.numpy(), self._wanted)
        return Batch(to_device(inputs, device), torch.from_numpy(self.targets[places]).to(device))

    def for_evaluation(self) -> "TreeSamples":
        """Return the same sentences with targets for their roots only."""
        return TreeSamples(self.trees, self.targets, self.labels, self.ids, by_node=False)


def load_sst(
    *,
    seed: int = 0,
    root: Path | None = None,
    classes: int = 2,
    glove: Path | str | None = None,
    dimension: int = 100,
    synthetic: int | None = None,
) -> DataSet:
    """Load the binary task: 6,920 / 872 / 1,821 sentences whose root is not neutral.

    Args:
        seed: Seed for the vectors of words that GloVe lacks (the split is the official one).
        root: Folder with ``sst/`` and ``glove/``.
        classes: 2: neutral nodes are not supervised. 3: they are, as the class in the middle; no sentence to be judged
            is neutral, so that class is masked (``facts["masked_classes"]``).
        glove: File or folder of word vectors, instead of the root's.
        dimension: Dimension of the word vectors.
        synthetic: Number of random trees in each split, with small random vectors, instead of files.

    Raises:
        ValueError: One sentence that says which file is missing, or which line of it is wrong.
    """
    if classes not in _CLASSES:
        raise ValueError(
            f"The Sentiment Treebank is trained with 2 or 3 classes, not {classes!r}; set classes to 2 or 3."
        )
    if synthetic is not None:
        splits, embeddings, facts = _synthetic_splits(synthetic, seed)
    else:
        splits, embeddings, facts = _real_splits(root, glove, dimension, seed)
    samples = _samples(splits, classes)
    facts["masked_classes"] = [1] if classes == 3 else []
    facts["supervised_nodes"] = int((samples["train"].targets >= 0).sum())
    facts["sizes"] = {name: len(some) for name, some in samples.items()}
    facts["split_sha256"] = {name: hash_split(some.ids) for name, some in samples.items()}
    train = samples.pop("train")
    options = {"num_classes": classes, "embeddings": embeddings}
    return DataSet("sst", _CLASS_NAMES[classes], train, samples, options, facts)


def read_sst(archive: Path) -> dict[str, tuple[Trees, list[str]]]:
    """Read the trees and words of train, val and test from the zip file, which is not extracted.

    Raises:
        ValueError: The zip lacks a file, or holds a line that is not a tree.
    """
    try:
        with zipfile.ZipFile(regular_file(archive)) as opened:
            return {split: _read_member(opened, member, archive) for split, member in _FILES.items()}
    except BROKEN_ARCHIVE as error:
        raise ValueError(f"{archive} is not a whole zip file ({shorten(str(error))}); fetch it again.") from None


def _read_member(opened: zipfile.ZipFile, member: str, archive: Path) -> tuple[Trees, list[str]]:
    if member not in opened.namelist():
        raise ValueError(f"{archive.name} has no {member}; fetch the file with the PTB trees again.")
    source = f"{archive.name}/{member}"
    if opened.getinfo(member).file_size > largest_unpacked(archive):
        raise ValueError(f"{source} would take {opened.getinfo(member).file_size:,} bytes: it is not the original.")
    content = opened.read(member)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{source}, line {line} is not UTF-8 ({error.reason}); fetch the file again.") from None
    return read_trees(text.split("\n"), source)


def _real_splits(
    root: Path | None, glove: Path | str | None, dimension: int, seed: int
) -> tuple[dict[str, Trees], Tensor, dict[str, Any]]:
    archive, vectors = SST.obtain(root), obtain_vectors(glove, root, dimension)
    read = read_sst(archive)
    spelled = {split: [spell(word) for word in words] for split, (_, words) in read.items()}
    learnt = dict.fromkeys(spelled["train"])
    everything = list(dict.fromkeys([*learnt, *spelled["val"], *spelled["test"]]))
    known = read_vectors(vectors, everything, dimension=dimension, cache=cache_folder())
    rows, embeddings = _vocabulary(everything, len(learnt), known, seed)
    splits = {
        split: replace_words(trees, [rows.get(word, 0) for word in spelled[split]])
        for split, (trees, _) in read.items()
    }
    leaves = splits["train"].words[splits["train"].words >= 0]
    found = np.concatenate([[False], known.found.numpy()[: len(learnt)]])
    about: dict[str, Any] = {
        "split_seed": None,  # the split is the official one
        "files": {SST.path: hash_file(archive)},
        "notes": [],
        "glove": describe_vectors(vectors),
        "vocabulary": len(embeddings),
        "vocabulary_sha256": hash_words(rows),
        "training_words": len(learnt),
        "training_words_in_glove": int(found.sum()),
        "coverage": describe_coverage(int(found.sum()), len(learnt), vectors),
        "training_tokens_in_glove": round(float(found[leaves].mean()), 4),
    }
    return splits, embeddings, about


def _vocabulary(words: list[str], learnt: int, known: WordVectors, seed: int) -> tuple[dict[str, int], Tensor]:
    """Number the words: 0 for unknown ones, then those of the training split, then the others that GloVe knows."""
    kept = known.found.clone()
    kept[:learnt] = True
    vectors = WordVectors(known.vectors[kept], known.found[kept])
    blank = WordVectors(
        torch.cat([torch.zeros(1, vectors.vectors.shape[1]), vectors.vectors]),
        torch.cat([torch.tensor([False]), vectors.found]),
    )
    chosen = (word for word, keep in zip(words, kept.tolist(), strict=True) if keep)
    return {word: row for row, word in enumerate(chosen, start=1)}, blank.fill_missing(seed)


def _samples(splits: Mapping[str, Trees], classes: int) -> dict[str, TreeSamples]:
    samples, first = {}, 0
    for split, trees in splits.items():
        kept = np.flatnonzero(trees.labels[trees.roots] != 2)
        if not len(kept):
            raise ValueError(f"The {split} trees of the Sentiment Treebank are all neutral; give some that are not.")
        chosen = trees.select(kept)
        targets = _CLASSES[classes][chosen.labels]
        labels, ids = torch.from_numpy(targets[chosen.roots]), torch.from_numpy(kept + first)
        samples[split] = TreeSamples(chosen, targets, labels, ids, by_node=split == "train")
        first += len(trees)
    return samples


def _synthetic_splits(count: int, seed: int) -> tuple[dict[str, Trees], Tensor, dict[str, Any]]:
    if count < 1:
        raise ValueError(f"synthetic is the number of random trees in each split, at least 1; got {count}.")
    generator = np.random.default_rng(seed)
    splits = {}
    for split in _FILES:
        trees = random_trees(count, words=_SYNTHETIC_WORDS, longest=12, generator=generator)
        neutral = trees.labels[trees.roots] == 2
        trees.labels[trees.roots[neutral]] = generator.choice([1, 3], size=int(neutral.sum()))
        splits[split] = trees
    vectors = generator.normal(0.0, 0.4, (_SYNTHETIC_WORDS, 8))
    facts = {"split_seed": seed, "files": {}, "notes": ["The trees and vectors are random: no file was read."]}
    return splits, torch.from_numpy(vectors.astype(np.float32)), facts
