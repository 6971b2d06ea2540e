"""Token predictions read like any file of logits: computed block by block from what the last layer was given.

The sentence of a token is its cluster; its position in the sentence, and how often it stands in the training set, are
columns of groups.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from focalcal.predictions.formats.parts import GROUPS, Metadata
from focalcal.predictions.formats.sources import MemoryArray, StoredArray, Take
from focalcal.predictions.token_predictions import TOKENS_KEY, check_shapes, read_about

# Places in a sentence, counted from 1, and occurrences in the training set: the first of each range.
_PLACES = (1, 2, 5, 10, 20, 40)
_OCCURRENCES = (0, 1, 10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class TokenLogits(StoredArray):
    """(M, K) logits that are computed when they are read."""

    features: StoredArray
    weight: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """M and K."""
        return (*self.features.shape[:1], len(self.weight))

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first token."""
        with self.features.reader() as take_features:

            def take(count: int) -> Tensor:
                return functional.linear(torch.as_tensor(take_features(count)).float(), self.weight)

            yield take


def is_tokens(text: Mapping[str, str]) -> bool:
    """Return whether the metadata of a safetensors file are those of token predictions."""
    return TOKENS_KEY in text


def token_arrays(arrays: Mapping[str, StoredArray], text: Mapping[str, str]) -> tuple[dict[str, StoredArray], Metadata]:
    """Return the parts of predictions that token predictions stand for, and what is said about all of them.

    Raises:
        ValueError: Something is missing or does not fit.
    """
    about = read_about(text[TOKENS_KEY], arrays)
    check_shapes({name: array.shape for name, array in arrays.items()})
    features, weight = arrays["features"], arrays["weight"]
    found: dict[str, StoredArray] = {
        "logits": TokenLogits(features, torch.as_tensor(weight.read_all()).float()),
        "labels": arrays["labels"],
        "clusters": arrays["sentences"],
    }
    columns = {"position": (_numbers(arrays["positions"]) + 1, _PLACES)}
    if "frequencies" in arrays:
        columns["frequency"] = (_frequencies(arrays["frequencies"], arrays["labels"]), _OCCURRENCES)
    names = {}
    for name, (values, firsts) in columns.items():
        names[name] = range_names(firsts)
        codes = torch.from_numpy(np.searchsorted(firsts, values, side="right") - 1)
        found[GROUPS + name] = MemoryArray(codes)
    return found, Metadata(split=about.get("split"), group_names=names)


def range_names(firsts: tuple[int, ...]) -> tuple[str, ...]:
    """Name ranges of whole numbers by their first and last one.

    Examples:
        >>> range_names((0, 1, 10, 1000))
        ('0', '1–9', '10–999', '1,000+')
    """
    ends = [*(first - 1 for first in firsts[1:]), None]
    return tuple(
        f"{first:,}+" if last is None else f"{first:,}" if first == last else f"{first:,}–{last:,}"
        for first, last in zip(firsts, ends, strict=True)
    )


def _numbers(array: StoredArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(array.read_all()).astype(np.int64).reshape(-1)


def _frequencies(counts: StoredArray, labels: StoredArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    known: np.ndarray[Any, np.dtype[np.int64]] = _numbers(counts)
    tokens = _numbers(labels)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < len(known):
        raise ValueError("it is corrupt: it has tokens without a frequency.")
    found: np.ndarray[Any, np.dtype[np.int64]] = known[tokens]
    return found
