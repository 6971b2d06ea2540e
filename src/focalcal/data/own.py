"""Data of the user's own: tensors, arrays, data sets or loaders, as samples."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.named_functions import call_function
from focalcal.data.data_types import Batch, DataSet, Samples
from focalcal.data.label_names import number_labels, sort_names
from focalcal.data.splits import hash_split

Transform = Callable[[Tensor, torch.Generator], Tensor]
# A split's name becomes that of a file; a run keeps the last epoch's predictions in a folder of that name.
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MOST_CLASSES = 2**20  # one number beyond all others would ask for memory for every class below it
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
    inputs, labels = read_columns(data, name)
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
    columns = {split: read_columns(part, split) for split, part in contents.items() if not _is_samples(part)}
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


def label_columns(
    columns: Mapping[str, Any], class_names: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Number the labels of all splits, and list the classes where they are texts.

    Args:
        columns: Labels by split, whole numbers or texts: arrays, or what :func:`read_columns` gives.
        class_names: The classes; None: those of ``train``, in order.

    Examples:
        >>> label_columns({"train": ["cat", "ant", "cat"], "val": ["ant"]})
        ({'train': tensor([1, 0, 1]), 'val': tensor([0])}, ('ant', 'cat'))
    """
    labels = {split: _labels(column, split) for split, column in columns.items()}
    texts = {split: column for split, column in labels.items() if not isinstance(column, Tensor)}
    numbers = {split: column for split, column in labels.items() if isinstance(column, Tensor)}
    if texts and numbers and class_names is None:
        raise TypeError(f"{next(iter(texts))}: labels are text, but those of {next(iter(numbers))} are numbers.")
    if texts and class_names is None and "train" not in texts:
        raise ValueError(f"{next(iter(texts))}: labels are text; say which classes there are: class_names=[…].")
    names = tuple(class_names or ()) or sort_names(texts.get("train", ()))
    source = "train" if class_names is None else "class_names"
    numbered = {split: number_labels(column, names, split, source) for split, column in texts.items()}
    return {split: numbered[split] if split in numbered else numbers[split] for split in labels}, names


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


def read_columns(data: Any, name: str) -> tuple[Tensor, Tensor | list[str]]:
    """Read the inputs (N, …) of a pair, a data set or a loader, and its labels: (N,) int64, or N texts.

    Args:
        data: Anything that :func:`~focalcal.data.own.as_samples` takes, except samples.
        name: Name of the data in messages.
    """
    if isinstance(data, tuple | list) and len(data) == 2:  # a table of pandas, too
        data = tuple(part.to_numpy() if hasattr(part, "to_numpy") else part for part in data)
    inputs, labels = _pair(data, name) if _is_pair(data) else _read(data, name)
    if inputs.ndim == 0:
        raise ValueError(f"{name}: inputs must have one row per sample, got a single number.")
    if len(labels) == 0:
        raise ValueError(f"{name}: there are no samples.")
    if len(inputs) != len(labels):
        raise ValueError(f"{name}: there are {len(inputs):,} inputs but {len(labels):,} labels.")
    # Networks are float32, and NumPy makes float64 of everything.
    inputs = inputs.float() if inputs.is_floating_point() else inputs
    _check_finite(inputs, name)
    return inputs, labels


def _check_finite(inputs: Tensor, name: str) -> None:
    if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        row = int((~inputs.isfinite()).reshape(len(inputs), -1).any(dim=1).nonzero()[0])
        raise ValueError(f"{name}: the input in row {row} (counted from 0) holds NaN or infinity; remove it.")


def _is_pair(data: Any) -> bool:
    """Return whether it is a tuple or list of two whole columns, not a list of two samples."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    inputs, labels = data
    if isinstance(labels, Tensor | np.ndarray):
        return isinstance(inputs, Tensor | np.ndarray | list) and labels.ndim > 0 and not _is_sample(inputs)
    return isinstance(inputs, Tensor | np.ndarray) and isinstance(labels, list | tuple)


def _is_sample(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], Tensor | np.ndarray)


def _pair(data: Any, name: str) -> tuple[Tensor, Tensor | list[str]]:
    return _tensor(data[0], name), _labels(data[1], name)


def _read(data: Any, name: str) -> tuple[Tensor, Tensor | list[str]]:
    """Read samples one by one, or batch by batch: a batch is what has a column of labels."""
    inputs, labels = [], []
    for item in _items(data, name):
        values, given = _input_and_label(item, name)
        is_batch = not isinstance(given, str) and np.ndim(given) > 0
        inputs.append(_tensor(values, name) if is_batch else _tensor(values, name).unsqueeze(0))
        label = _labels(given if is_batch else [given], name)
        labels.append(label.tolist() if isinstance(label, Tensor) else label)
    if not labels:
        raise ValueError(f"{name}: there are no samples.")
    try:
        return torch.cat(inputs), _labels([label for part in labels for label in part], name)
    except RuntimeError as error:
        shapes = sorted({tuple(part.shape[1:]) for part in inputs})[:3]
        raise ValueError(f"{name}: inputs must all have the same shape; there are {shapes}.") from error


def _input_and_label(item: Any, name: str) -> tuple[Any, Any]:
    """Take a sample, or a batch, apart: a pair, or a mapping of an input and a label."""
    if isinstance(item, Mapping):
        keys = [key for key in ("label", "labels") if key in item]
        others = [key for key in item if key not in keys]
        if len(keys) != 1 or len(others) != 1:
            raise ValueError(
                f"{name}: each item must have one input and one label, and has {', '.join(map(str, item))}; keep two "
                "columns and call one of them label."
            )
        return item[others[0]], item[keys[0]]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise TypeError(f"{name}: each item must be (input, label) or a batch of both; got {type(item).__name__}.")
    return item[0], item[1]


def _items(data: Any, name: str) -> Iterable[Any]:
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "__iter__"):
        return (data[number] for number in range(len(data)))
    if isinstance(data, str | bytes | Tensor | np.ndarray | Mapping) or not hasattr(data, "__iter__"):
        raise TypeError(f"{name}: (inputs, labels), a data set or a loader is needed, got {type(data).__name__}.")
    return data  # type: ignore[no-any-return]


def _tensor(values: Any, name: str) -> Tensor:
    if hasattr(values, "convert") and hasattr(values, "getbands"):  # a picture of Pillow, which is not a tensor yet
        pixels = np.asarray(values.convert("L" if values.getbands() == ("L",) else "RGB"), dtype=np.float32) / 255
        values = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if isinstance(values, np.ndarray) and not values.flags.writeable:  # torch would warn of it
        values = values.copy()
    try:
        return torch.as_tensor(np.asarray(values) if isinstance(values, list | tuple) else values).cpu().detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: inputs must be tensors or arrays, got {type(values).__name__}.") from error


def _labels(values: Any, name: str) -> Tensor | list[str]:
    """Return (N,) int64, or N texts."""
    texts = _texts(values)
    if texts is not None:
        return texts
    try:
        labels = torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name}: labels must be whole numbers from 0 on, or texts, {_got(values)}.") from error
    if labels.ndim > 1:
        raise ValueError(f"{name}: labels must be one number per sample, got shape {tuple(labels.shape)}.")
    if labels.numel() and (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool):
        raise TypeError(f"{name}: labels must be whole numbers, got {labels.dtype}; convert them by .long() first.")
    if labels.numel() and int(labels.min()) < 0:
        raise ValueError(f"{name}: label {int(labels.min())} is negative; labels count from 0.")
    if labels.numel() and int(labels.max()) >= _MOST_CLASSES:
        largest = int(labels.max())
        raise ValueError(
            f"{name}: label {largest} would make {largest + 1:,} classes, more than {_MOST_CLASSES:,}; number the "
            "labels from 0, or give texts."
        )
    return labels.long()


def _texts(values: Any) -> list[str] | None:
    """Return a column of texts as a list, and None for every other."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "UO" and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values or not all(isinstance(value, str) for value in values):
        return None
    return [str(value) for value in values]


def _got(values: Any) -> str:
    first = np.asarray(values, dtype=object).reshape(-1)[:1]
    return f"got {first[0]!r:.40}" if len(first) else f"got {type(values).__name__}"
