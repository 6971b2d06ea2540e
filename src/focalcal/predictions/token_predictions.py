"""Predictions of tokens: what the last layer was given and the layer itself, from which logits are computed in blocks.

A vocabulary of 10,000 subwords has 10,000 logits per token, and a test set tens of thousands of tokens; the inputs of
the last layer are a hundredth of that, and give the same logits whenever they are asked for.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from focalcal.base.files import DAMAGE, atomic_writer, parse_json, regular_file
from focalcal.predictions.formats.contents import check_contents, state_contents
from focalcal.predictions.formats.parts import GROUPS, Metadata
from focalcal.predictions.formats.sources import MemoryArray, StoredArray, Take

TOKENS_KEY = "focalcal_tokens"
TOKENS_VERSION = 1
_TENSORS = ("features", "weight", "labels", "sentences", "positions")
# A few numbers stand for many logits: up to here, and up to this many times their own number, that is not a bomb.
_PLAUSIBLE_LOGITS, _PLAUSIBLE_RATIO = 2**28, 2000

# Places in a sentence, counted from 1, and occurrences in the training set: the first of each range.
_PLACES = (1, 2, 5, 10, 20, 40)
_OCCURRENCES = (0, 1, 10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class TokenPredictions:
    """M tokens of N sentences, in the order of the sentences; sliced, they give logits.

    Attributes:
        features: (M, D) float32, what the last layer was given.
        weight: (K, D) float32 of the last layer.
        labels: (M,) int64, the tokens that were asked for.
        sentences: (M,) int64, the id of each token's sentence: tokens of one sentence are no independent samples.
        positions: (M,) int64, each token's place in its sentence, counted from 0.
        split: Its name.
        frequencies: (K,) int64, how often each token stands in the training set; None where that is not known.

    Examples:
        >>> import torch
        >>> tokens = TokenPredictions(torch.eye(2), torch.eye(3, 2), *torch.zeros(3, 2, dtype=torch.int64), "test")
        >>> tokens.shape, tokens[:1]
        ((2, 3), tensor([[1., 0., 0.]]))
    """

    features: Tensor
    weight: Tensor
    labels: Tensor
    sentences: Tensor
    positions: Tensor
    split: str
    frequencies: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """M and K, as of the matrix of all logits."""
        return len(self.features), len(self.weight)

    def __getitem__(self, rows: slice) -> Tensor:
        """Return (n, K) logits of some tokens."""
        return functional.linear(self.features[rows], self.weight)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all."""
        tensors = {name: getattr(self, name).contiguous() for name in _TENSORS}
        if self.frequencies is not None:
            tensors["frequencies"] = self.frequencies.contiguous()
        # One entry, because the library orders several differently from run to run.
        about = json.dumps(
            {"version": TOKENS_VERSION, "split": self.split, "contents": state_contents(tensors, {"split": self.split})}
        )
        with atomic_writer(path) as file:
            file.write(save(tensors, {TOKENS_KEY: about}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TokenPredictions":
        """Read what `save` has written.

        Raises:
            ValueError: The file is missing, damaged, or of another kind.
        """
        try:
            with safe_open(regular_file(path), framework="pt") as file:
                metadata = file.metadata() or {}
                if TOKENS_KEY not in metadata:
                    raise ValueError("it holds no predictions of tokens.")
                there = set(file.keys())
                about = read_about(metadata[TOKENS_KEY], there)
                named = [name for name in (*_TENSORS, "frequencies") if name in there]
                tensors = {name: file.get_tensor(name) for name in named}
            check_shapes({name: tuple(tensor.shape) for name, tensor in tensors.items()})
            _check_types(tensors)
            return cls(**tensors, split=about.get("split", ""))
        except (*DAMAGE, OSError, SafetensorError, ValueError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"{os.fspath(path)} cannot be read: {reason}.") from error


def holds_tokens(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds predictions of tokens; False for anything that is not such a file."""
    try:
        with safe_open(regular_file(path), framework="pt") as file:
            return TOKENS_KEY in (file.metadata() or {})
    except (OSError, SafetensorError, ValueError):
        return False


def _check_types(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        wanted = torch.float32 if name in ("features", "weight") else torch.int64
        if tensor.dtype != wanted:
            raise ValueError(f"it is corrupt: its {name} are {tensor.dtype}, where {wanted} is expected.")


def read_about(text: str, there: Collection[str]) -> Mapping[str, Any]:
    """Read what the metadata of a file say about its tokens.

    Args:
        text: The metadata.
        there: Names of the parts that the file has.

    Raises:
        ValueError: It is damaged, from a later version, or names a part that is not there.
    """
    about = parse_json(text)
    if not isinstance(about, dict) or not isinstance(about.get("split", ""), str):
        raise ValueError("it is corrupt: its metadata do not describe tokens.")
    if about.get("version") != TOKENS_VERSION:
        raise ValueError("its tokens were written by a later focalcal; update focalcal to read it.")
    contents = about.get("contents")  # older files have no statement of them
    if about.keys() - {"version", "split", "contents"} or not isinstance(contents, str | None):
        raise ValueError("it is corrupt: its metadata do not describe tokens.")
    if contents is not None:
        check_contents(contents, there, {name: about[name] for name in ("split",) if name in about})
    return about


def check_shapes(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse parts that are missing or do not fit, and those that stand for more logits than anybody saves.

    Args:
        shapes: Shape of each part, by its name.

    Raises:
        ValueError: One sentence on what is wrong.
    """
    missing = [name for name in _TENSORS if name not in shapes]
    if missing:
        raise ValueError(f"it is corrupt: its tokens have no {missing[0]}.")
    features, weight = shapes["features"], shapes["weight"]
    if len(features) != 2 or len(weight) != 2 or features[1] != weight[1] or not features[1]:
        raise ValueError(f"it is corrupt: features {features} do not fit the weight {weight}.")
    lengths = dict.fromkeys(("labels", "sentences", "positions"), features[0]) | {"frequencies": weight[0]}
    for name, length in lengths.items():
        if name in shapes and shapes[name] != (length,):
            raise ValueError(f"it is corrupt: its {name} have shape {shapes[name]}, where ({length},) is expected.")
    logits, stored = features[0] * weight[0], (features[0] + weight[0]) * features[1]
    if logits > max(_PLAUSIBLE_LOGITS, _PLAUSIBLE_RATIO * stored):
        raise ValueError(
            f"its {stored:,} numbers stand for {logits:,} logits, more than {_PLAUSIBLE_LOGITS:,} and "
            f"{_PLAUSIBLE_RATIO:,} times their number; if you trust it, save the logits."
        )


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
