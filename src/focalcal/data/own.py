"""Data of the user's own: tensors, arrays, data sets or loaders, as samples."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from focalcal.base.named_functions import call_function
from focalcal.data.data_types import Batch, DataSet, Samples
from focalcal.data.label_names import number_labels
from focalcal.data.own_columns import label_columns, read_inputs_and_labels
from focalcal.data.splits import hash_split

Transform = Callable[[Tensor, torch.Generator], Tensor]
# A split's name becomes that of a file; a run keeps the last epoch's predictions in a folder of that name.
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TAKEN_NAMES = ("transform", "class_names", "name", "last")


class TensorSamples:
    """N inputs in memory with their labels; a :class:`~focalcal.data.data_types.Samples`.

    Args:
        inputs: (N, …), passed to the network unchanged.
        labels: (N,) int64.
        transform: Change of a batch of training inputs, on the device: called with (B, …) and a generator on
            the CPU from which all that is random is to be drawn. Never called in evaluation.
        first_id: Id of the first sample; the others follow.
        ids: (N,) int64, where they do not follow each other.
    """

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        *,
        transform: Transform | None = None,
        first_id: int = 0,
        ids: Tensor | None = None,
    ) -> None:
        self.inputs, self.labels = inputs, labels
        self.ids = torch.arange(first_id, first_id + len(labels)) if ids is None else ids
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Return the samples at these positions, transformed if there is a transform and a generator."""
        inputs = self.inputs.index_select(0, positions).to(device, non_blocking=True)
        if self.transform is not None and generator is not None:
            inputs = self.transform(inputs, generator)
        return Batch(inputs, self.labels.index_select(0, positions).to(device, non_blocking=True))


def as_samples(
    data: Any,
    *,
    class_names: Sequence[str] | None = None,
    transform: Transform | None = None,
    name: str = "The data",
    first_id: int = 0,
) -> Samples:
    """Make samples from anything that holds inputs and labels.

    Everything is read into memory once, in its order; ids are row numbers, counted from ``first_id``. Floating-point
    inputs become float32, which networks are; whole numbers (tokens, pixels) stay what they are.

    Args:
        data: A pair (inputs, labels) of tensors or arrays; a data set with ``len`` and ``[]`` that gives (input,
            label), or mappings of an input and a ``label``, as those of Hugging Face do; or an iterable of such
            samples, or of batches of them, as a DataLoader is. Samples stay.
        class_names: K names, where labels are texts.
        transform: Change of a training batch on the device; see :class:`TensorSamples`.
        name: Name of the data in messages.
        first_id: Id of the first sample.

    Raises:
        ValueError: It is empty, inputs and labels do not go together, or an input is not finite.
        TypeError: It is none of these, or labels are not whole numbers.

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
    inputs, labels = read_inputs_and_labels(data, name)
    if not isinstance(labels, Tensor):
        if class_names is None:
            raise ValueError(f"{name}: labels are text; say which classes there are: class_names=[…].")
        labels = number_labels(labels, class_names, name, "class_names")
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
    """Make a data set from one's own splits.

    Args:
        train: Training samples; anything that :func:`as_samples` takes. Labels may be texts.
        val: Validation samples, for choosing the epoch and fitting calibrators.
        test: Test samples, for the reported figures, if there are any.
        class_names: K names; if None, those of the training labels if these are texts, in order; otherwise classes have
            none, and a packaged network has as many outputs as the largest label of all splits asks for.
        transform: Applied to training batches; see :class:`TensorSamples`.
        name: Name of the data set in the records of runs.
        other_splits: More splits to predict, by name: of letters, digits, _ and -, as files are called after them.

    Raises:
        ValueError: A split cannot be used, its inputs have another shape than those of train, or its name is none.
        TypeError: A split, a label, a class name or the transform is not what is asked for.

    Examples:
        >>> inputs, labels = torch.randn(20, 4), torch.arange(20) % 3
        >>> data = own_data(train=(inputs[:12], labels[:12]), val=(inputs[12:], labels[12:]))
        >>> data.model_options, data.facts["sizes"]
        ({'num_classes': 3, 'num_features': 4}, {'train': 12, 'val': 8})
        >>> own_data(train=(inputs, ["ant", "cat"] * 10), val=(inputs[:2], ["cat", "ant"])).class_names
        ('ant', 'cat')
    """
    _check_arguments(name, class_names, transform, other_splits)
    given = {"val": val, "test": test, **other_splits}
    contents = {"train": train, **{split: part for split, part in given.items() if part is not None or split == "val"}}
    columns = {split: read_inputs_and_labels(part, split) for split, part in contents.items() if not _is_samples(part)}
    labels, found_names = label_columns({split: labels for split, (_, labels) in columns.items()}, class_names)
    names = tuple(class_names or found_names)
    everything: dict[str, Samples] = {}
    for split, part in contents.items():
        # No id is in two splits: predictions that share ids are taken to share samples.
        first_id = sum(len(samples) for samples in everything.values())
        change = transform if split == "train" else None
        if split in columns:
            everything[split] = TensorSamples(columns[split][0], labels[split], transform=change, first_id=first_id)
        else:
            everything[split] = as_samples(part, transform=change, name=split)
    _check_alike(everything)
    facts: dict[str, Any] = {
        "sizes": {split: len(samples) for split, samples in everything.items()},
        "split_sha256": {split: hash_split(samples.ids) for split, samples in everything.items()},
        "notes": ["Data of the user's own: ids count the samples of all splits, one after another."],
    }
    options = {"num_classes": _num_classes(everything, names or None)}
    learnt = everything.pop("train")
    if isinstance(learnt, TensorSamples):
        options |= describe_inputs(learnt.inputs)
    return DataSet(name, names, learnt, everything, options, facts)


def call_data_function(name: str, seed: int, options: Mapping[str, Any]) -> DataSet:
    """Call a function of the user's own that returns a data set, or its splits by name as :func:`own_data` takes them.

    Args:
        name: ``module:function``.
        seed: Seed for the split; passed if the function has an argument ``seed``.
        options: Its other arguments.

    Raises:
        ValueError: There is no such function, or what it returns cannot be used.
        TypeError: It returns something else.
    """
    found = call_function(name, options, {"seed": seed})
    return found if isinstance(found, DataSet) else data_from_splits(found, name=name, source=f"What {name} returns")


def data_from_splits(splits: Any, *, source: str = "The data", **options: Any) -> DataSet:
    """Make a data set from splits by their names: ``{"train": (x, y), "val": (x, y), …}``.

    Args:
        splits: The splits, and other arguments of :func:`own_data`.
        source: Name of the splits in messages.
        options: Arguments of :func:`own_data` that the splits may replace.
    """
    if not isinstance(splits, Mapping):
        raise TypeError(f"{source} must be a DataSet or splits by their names, got {type(splits).__name__}.")
    if not all(isinstance(name, str) for name in splits):
        raise TypeError("The names of splits are strings: data={'train': …, 'val': …}.")
    for split in ("train", "val"):
        if splits.get(split) is None:
            raise ValueError(f"{source} has no split {split}, and every run needs one: {{'{split}': …}}.")
    return own_data(**{**options, **splits})


def describe_inputs(inputs: Tensor) -> dict[str, int]:
    """Return what a packaged network has to know of its inputs: those of images that are squares, or of features.

    Examples:
        >>> describe_inputs(torch.zeros(5, 3, 32, 32)), describe_inputs(torch.zeros(5, 7))
        ({'in_channels': 3, 'image_size': 32}, {'num_features': 7})
    """
    if inputs.ndim == 4 and inputs.shape[2] == inputs.shape[3]:
        return {"in_channels": inputs.shape[1], "image_size": inputs.shape[2]}
    return {"num_features": inputs.shape[1]} if inputs.ndim == 2 and inputs.is_floating_point() else {}


def _check_arguments(name: Any, class_names: Any, transform: Any, splits: Iterable[str]) -> None:
    for split in splits:
        if not _SPLIT_NAME.fullmatch(split) or split in _TAKEN_NAMES:
            raise ValueError(f"{split!r} cannot be the name of a split: use letters, digits, _ and -, and not 'last'.")
    if not isinstance(name, str):
        raise TypeError(f"name is what the data set is called, a string, and not a split; got {type(name).__name__}.")
    if transform is not None and not callable(transform):
        raise TypeError(f"transform is a function of a batch, and not a split; got {type(transform).__name__}.")
    if class_names is None:
        return
    if not isinstance(class_names, Sequence) or isinstance(class_names, str):
        raise TypeError(f"class_names must be a list with one name per class, got {type(class_names).__name__}.")
    for class_name in class_names:
        if not isinstance(class_name, str) or not class_name:
            raise TypeError(f"class_names must be strings that are not empty, got {class_name!r}.")


def _check_alike(splits: Mapping[str, Samples]) -> None:
    """Refuse inputs that one network could not take; samples of other kinds know themselves what they give."""
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
