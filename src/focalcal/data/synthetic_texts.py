"""Random texts in the shape of real ones, to try a recipe out without a file."""

import numpy as np
import torch

from focalcal.data.samples import DataSet
from focalcal.data.splits import split_hash
from focalcal.data.text_tokens import FIRST_WORD, NumberedTexts
from focalcal.data.token_samples import TokenSamples

_WORDS, _DIMENSION = 50, 8


def synthetic_texts(
    name: str, class_names: tuple[str, ...], count: int, *, tokens: int, trim: bool, seed: int
) -> DataSet:
    """Random word numbers and labels, as many texts in each split, with small random word vectors.

    Examples:
        >>> data = synthetic_texts("newsgroups", ("a", "b"), 8, tokens=200, trim=True, seed=0)
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
        "split_sha256": {split: split_hash(some.ids) for split, some in samples.items()},
    }
    train = samples.pop("train")
    needs = {"num_classes": len(class_names), "embeddings": torch.from_numpy(vectors)}
    return DataSet(name, class_names, train, samples, needs, facts)
