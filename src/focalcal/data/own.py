"""Data of the user's own: tensors, arrays, data sets or loaders, as samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.data.samples import Batch, DataSet, Samples
from focalcal.data.splits import split_hash

Transform = Callable[[Tensor, torch.Generator], Tensor]


class TensorSamples:
    """N inputs in memory with their labels; a :class:`~focalcal.data.samples.Samples`.

    Args:
        inputs: (N, …), handed to the network as they are.
        labels: (N,) int64.
        transform: what is done to a batch of training inputs, on the device: called with (B, …) and a generator on
            the CPU from which all that is random is to be drawn. Never called in evaluation.
        first_id: the id of the first sample; the others count on from it.
    """

    def __init__(
        self, inputs: Tensor, labels: Tensor, *, transform: Transform | None = None, first_id: int = 0
    ) -> None:
        self.inputs, self.labels = inputs, labels
        self.ids = torch.arange(first_id, first_id + len(labels))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """The samples at these positions, transformed if there is a transform and a generator."""
        inputs = self.inputs.index_select(0, positions).to(device, non_blocking=True)
        if self.transform is not None and generator is not None:
            inputs = self.transform(inputs, generator)
        return Batch(inputs, self.labels.index_select(0, positions).to(device, non_blocking=True))


def as_samples(data: Any, *, transform: Transform | None = None, name: str = "The data", first_id: int = 0) -> Samples:
    """Samples of whatever holds inputs and labels.

    Everything is read into memory once, in its order; ids are row numbers, counted from ``first_id``.

    Args:
        data: a pair (inputs, labels) of tensors or arrays; a data set with ``len`` and ``[]`` that gives (input,
            label); or an iterable of such samples, or of batches of them, as a DataLoader is. Samples as they are.
        transform: what is done to a training batch on the device; see :class:`TensorSamples`.
        name: what the data is called in messages.
        first_id: the id of the first sample.

    Raises:
        ValueError: it is empty, or inputs and labels do not go together.
        TypeError: it is none of these, or labels are no whole numbers.

    Examples:
        >>> samples = as_samples((torch.zeros(3, 5), [0, 1, 1]))
        >>> samples.labels
        tensor([0, 1, 1])
        >>> len(as_samples([(torch.zeros(5), 0), (torch.ones(5), 1)]))
        2
    """
    if _is_samples(data):
        if transform is not None:
            raise ValueError(f"{name}: a transform goes with inputs and labels, not with samples that have a batch().")
        return data  # type: ignore[no-any-return]
    inputs, labels = _pair(data, name) if _is_pair(data) else _read(data, name)
    if len(labels) == 0:
        raise ValueError(f"{name}: there are no samples.")
    if len(inputs) != len(labels):
        raise ValueError(f"{name}: there are {len(inputs):,} inputs but {len(labels):,} labels.")
    if int(labels.min()) < 0:
        raise ValueError(f"{name}: label {int(labels.min())} is negative; labels count from 0.")
    return TensorSamples(inputs, labels, transform=transform, first_id=first_id)


def own_data(
    *,
    train: Any,
    val: Any,
    test: Any = None,
    class_names: Sequence[str] | None = None,
    transform: Transform | None = None,
    name: str = "own",
    **other_splits: Any,
) -> DataSet:
    """A data set of one's own splits.

    Args:
        train: what is learnt from; anything that :func:`as_samples` takes.
        val: what the epoch is chosen on and calibrators are fitted on.
        test: what is reported, if there is one.
        class_names: K names; where None, classes are numbered up to the largest label of all splits.
        transform: applied to training batches; see :class:`TensorSamples`.
        name: of the data set, as runs record it.
        other_splits: more splits to predict, by name.

    Examples:
        >>> inputs, labels = torch.randn(20, 4), torch.arange(20) % 3
        >>> data = own_data(train=(inputs[:12], labels[:12]), val=(inputs[12:], labels[12:]))
        >>> data.model_options, data.facts["sizes"]
        ({'num_classes': 3}, {'train': 12, 'val': 8})
    """
    learnt = as_samples(train, transform=transform, name="train")
    everything = {"train": learnt}
    for split, content in {"val": val, "test": test, **other_splits}.items():
        if content is not None or split == "val":
            # No id is in two splits: predictions that share ids are taken to share samples.
            first_id = sum(len(samples) for samples in everything.values())
            everything[split] = as_samples(content, name=split, first_id=first_id)
    splits = {split: samples for split, samples in everything.items() if split != "train"}
    names = _class_names(everything, class_names)
    facts = {
        "sizes": {split: len(samples) for split, samples in everything.items()},
        "split_sha256": {split: split_hash(samples.ids) for split, samples in everything.items()},
        "notes": ["Data of the user's own: ids count the samples of all splits, one after another."],
    }
    return DataSet(name, names, learnt, splits, {"num_classes": len(names)}, facts)


def _class_names(splits: Mapping[str, Samples], given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        largest = max(int(samples.labels.max()) for samples in splits.values())
        return tuple(f"class {number}" for number in range(largest + 1))
    for split, samples in splits.items():
        if int(samples.labels.max()) >= len(given):
            raise ValueError(f"{split}: label {int(samples.labels.max())} has no name among {len(given)} class names.")
    return tuple(given)


def _is_samples(data: Any) -> bool:
    return all(hasattr(data, attribute) for attribute in ("labels", "ids", "batch", "__len__"))


def _is_pair(data: Any) -> bool:
    """A tuple or list of two whole columns, not a list of two samples."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    inputs, labels = data
    if isinstance(labels, Tensor | np.ndarray):
        return isinstance(inputs, Tensor | np.ndarray | list) and labels.ndim == 1 and not _is_sample(inputs)
    return isinstance(inputs, Tensor | np.ndarray) and isinstance(labels, list | tuple)


def _is_sample(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], Tensor | np.ndarray)


def _pair(data: Any, name: str) -> tuple[Tensor, Tensor]:
    return _tensor(data[0], name), _labels(data[1], name)


def _read(data: Any, name: str) -> tuple[Tensor, Tensor]:
    """Samples one by one, or batch by batch: a batch is what has a column of labels."""
    inputs, labels = [], []
    for item in _items(data, name):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TypeError(f"{name}: each item must be (input, label) or a batch of both; got {type(item).__name__}.")
        label = torch.as_tensor(item[1])
        inputs.append(_tensor(item[0], name) if label.ndim else _tensor(item[0], name).unsqueeze(0))
        labels.append(_labels(label, name).reshape(-1))
    if not labels:
        raise ValueError(f"{name}: there are no samples.")
    try:
        return torch.cat(inputs), torch.cat(labels)
    except RuntimeError as error:
        shapes = sorted({tuple(part.shape[1:]) for part in inputs})[:3]
        raise ValueError(f"{name}: inputs must all have the same shape; there are {shapes}.") from error


def _items(data: Any, name: str) -> Iterable[Any]:
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "__iter__"):
        return (data[number] for number in range(len(data)))
    if isinstance(data, str | bytes | Tensor | np.ndarray | Mapping) or not hasattr(data, "__iter__"):
        raise TypeError(f"{name}: (inputs, labels), a data set or a loader is needed, got {type(data).__name__}.")
    return data  # type: ignore[no-any-return]


def _tensor(values: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(values) if isinstance(values, list | tuple) else values).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: inputs must be tensors or arrays, got {type(values).__name__}.") from error


def _labels(values: Any, name: str) -> Tensor:
    labels = torch.as_tensor(values).cpu()
    if labels.numel() and (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool):
        raise TypeError(f"{name}: labels must be whole numbers, got {labels.dtype}.")
    if labels.ndim > 1:
        raise ValueError(f"{name}: labels must be one number a sample, got shape {tuple(labels.shape)}.")
    return labels.long()
