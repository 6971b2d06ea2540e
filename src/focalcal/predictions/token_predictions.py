"""Predictions of tokens: what the last layer was given and the layer itself, from which logits are computed in blocks.

A vocabulary of 10,000 subwords has 10,000 logits per token, and a test set tens of thousands of tokens; the inputs of
the last layer are a hundredth of that, and give the same logits whenever they are asked for.
"""

import json
import os
from dataclasses import dataclass

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from focalcal.base.files import atomic_writer, parse_json, regular_file

TOKENS_KEY = "focalcal_tokens"
TOKENS_VERSION = 1


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
        """(n, K) logits of some tokens."""
        return functional.linear(self.features[rows], self.weight)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all."""
        tensors = {name: getattr(self, name).contiguous() for name in _TENSORS}
        if self.frequencies is not None:
            tensors["frequencies"] = self.frequencies.contiguous()
        # One entry, because the library orders several differently from run to run.
        about = json.dumps({"version": TOKENS_VERSION, "split": self.split})
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
                about = parse_json((file.metadata() or {}).get(TOKENS_KEY, "{}"))
                if about.get("version") != TOKENS_VERSION:
                    raise ValueError("it holds no predictions of tokens")
                there = list(file.keys())
                tensors = {name: file.get_tensor(name) for name in (*_TENSORS, *({"frequencies"} & set(there)))}
            return cls(**tensors, split=about["split"])
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} cannot be read: {error}.") from error


def holds_tokens(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds predictions of tokens; False for anything that is not such a file."""
    try:
        with safe_open(regular_file(path), framework="pt") as file:
            return TOKENS_KEY in (file.metadata() or {})
    except (OSError, SafetensorError, ValueError):
        return False


_TENSORS = ("features", "weight", "labels", "sentences", "positions")
