"""Batch, Samples and DataSet: what a data set holds, and what the training loop may ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Some samples, as a network takes them.

    Attributes:
        inputs: Argument of the network: a tensor, or an object of the data's own, on the device.
        targets: (M,) int64, one for each row of the network's output. M is the number of samples, or larger where
            one sample has several outputs (the nodes of a tree); −100 where an output is not supervised.
    """

    inputs: Any
    targets: Tensor


class Samples(Protocol):
    """N samples in a fixed order.

    Attributes:
        labels: (N,) int64, what predictions are compared with; one for each sample.
        ids: (N,) int64 on the CPU, unique within the data set that they come from: the row in the official file.
    """

    labels: Tensor
    ids: Tensor

    def __len__(self) -> int: ...

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Return the samples at these positions, in their order.

        Args:
            positions: (B,) int64 on the CPU, each in [0, N).
            device: Device for the inputs and targets.
            generator: Source of every random choice (crop, flip), on the CPU; None where nothing is random, as in
                evaluation. The same state gives the same batch.
        """
        ...


@dataclass(frozen=True)
class DataSet:
    """Everything of a data set that a run uses.

    Attributes:
        name: Name in recipes.
        class_names: K names; empty where classes have none.
        train: Training samples; augmented where ``batch`` gets a generator.
        evaluation: Splits that predictions are made for, by name: ``val``, ``test`` and others (``svhn``). The
            labels of out-of-distribution sets are those of their own classes, clipped into [0, K): they say nothing.
        model_options: Options of the network by the data: ``num_classes`` and, for images, ``in_channels`` and
            ``image_size``; for texts, ``embeddings``.
        facts: Facts for the records of a run: sizes, hashes of the splits, notes; JSON values only.
    """

    name: str
    class_names: tuple[str, ...]
    train: Samples
    evaluation: Mapping[str, Samples]
    model_options: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
