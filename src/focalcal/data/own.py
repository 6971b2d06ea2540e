"""Data of the user's own: tensors, arrays, data sets or loaders, as samples."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from focalcal.data.own_columns import read_columns
from focalcal.data.samples import Batch, DataSet, Samples
from focalcal.data.splits import split_hash

Transform = Callable[[Tensor, torch.Generator], Tensor]
# A split's name becomes that of a file; a run keeps the last epoch's predictions in a folder of that name.
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TAKEN_NAMES = ("transform", "class_names", "name", "last")


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

    Everything is read into memory once, in its order; ids are row numbers, counted from ``first_id``. Floating-point
    inputs become float32, which networks are; whole numbers (tokens, pixels) stay what they are.

    Args:
        data: a pair (inputs, labels) of tensors or arrays; a data set with ``len`` and ``[]`` that gives (input,
            label); or an iterable of such samples, or of batches of them, as a DataLoader is. Samples as they are.
        transform: what is done to a training batch on the device; see :class:`TensorSamples`.
        name: what the data is called in messages.
        first_id: the id of the first sample.

    Raises:
        ValueError: it is empty, inputs and labels do not go together, or an input is not finite.
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
    inputs, labels = read_columns(data, name)
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
        class_names: K names; where None, classes have none, and a packaged network has as many outputs as the largest
            label of all splits asks for.
        transform: applied to training batches; see :class:`TensorSamples`.
        name: of the data set, as runs record it.
        other_splits: more splits to predict, by name: of letters, digits, _ and -, as files are called after them.

    Raises:
        ValueError: a split cannot be used, its inputs have another shape than those of train, or its name is none.
        TypeError: a split, a label, a class name or the transform is not what is asked for.

    Examples:
        >>> inputs, labels = torch.randn(20, 4), torch.arange(20) % 3
        >>> data = own_data(train=(inputs[:12], labels[:12]), val=(inputs[12:], labels[12:]))
        >>> data.model_options, data.facts["sizes"]
        ({'num_classes': 3}, {'train': 12, 'val': 8})
    """
    _check_arguments(name, class_names, transform, other_splits)
    learnt = as_samples(train, transform=transform, name="train")
    everything = {"train": learnt}
    for split, content in {"val": val, "test": test, **other_splits}.items():
        if content is not None or split == "val":
            # No id is in two splits: predictions that share ids are taken to share samples.
            first_id = sum(len(samples) for samples in everything.values())
            everything[split] = as_samples(content, name=split, first_id=first_id)
    splits = {split: samples for split, samples in everything.items() if split != "train"}
    _check_alike(everything)
    facts = {
        "sizes": {split: len(samples) for split, samples in everything.items()},
        "split_sha256": {split: split_hash(samples.ids) for split, samples in everything.items()},
        "notes": ["Data of the user's own: ids count the samples of all splits, one after another."],
    }
    classes = _num_classes(everything, class_names)
    return DataSet(name, tuple(class_names or ()), learnt, splits, {"num_classes": classes}, facts)


def _check_arguments(name: Any, class_names: Any, transform: Any, splits: Iterable[str]) -> None:
    for split in splits:
        if not _SPLIT_NAME.fullmatch(split) or split in _TAKEN_NAMES:
            raise ValueError(f"{split!r} cannot be the name of a split: use letters, digits, _ and -, and not 'last'.")
    if not isinstance(name, str):
        raise TypeError(f"name is what the data set is called, a text, and no split; got {type(name).__name__}.")
    if transform is not None and not callable(transform):
        raise TypeError(f"transform is a function of a batch, and no split; got {type(transform).__name__}.")
    if class_names is None:
        return
    if not isinstance(class_names, Sequence) or isinstance(class_names, str):
        raise TypeError(f"class_names must be a list with one name a class, got {type(class_names).__name__}.")
    for class_name in class_names:
        if not isinstance(class_name, str) or not class_name:
            raise TypeError(f"class_names must be texts that are not empty, got {class_name!r}.")


def _check_alike(splits: Mapping[str, Samples]) -> None:
    """One network takes the inputs of all splits; samples of other kinds know themselves what they give."""
    inputs = {split: samples.inputs for split, samples in splits.items() if isinstance(samples, TensorSamples)}
    first = next(iter(inputs), "")
    for split, values in inputs.items():
        expected, got = tuple(inputs[first].shape[1:]), tuple(values.shape[1:])
        if got != expected:
            raise ValueError(f"{split}: inputs have the shape {got}, but those of {first} {expected}.")
        if values.is_floating_point() != inputs[first].is_floating_point():
            raise ValueError(f"{split}: inputs are {values.dtype}, but those of {first} {inputs[first].dtype}.")


def _num_classes(splits: Mapping[str, Samples], names: Sequence[str] | None) -> int:
    for split, samples in splits.items():
        if names is not None and int(samples.labels.max()) >= len(names):
            raise ValueError(f"{split}: label {int(samples.labels.max())} has no name among {len(names)} class names.")
    return len(names) if names is not None else 1 + max(int(samples.labels.max()) for samples in splits.values())


def _is_samples(data: Any) -> bool:
    return all(hasattr(data, attribute) for attribute in ("labels", "ids", "batch", "__len__"))
