"""Columns of a user's own data: inputs and labels read from pairs, data sets and loaders, and classes numbered."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.data.label_names import number_labels, sort_names

_MOST_CLASSES = 2**20  # one number beyond all others would ask for memory for every class below it


def read_inputs_and_labels(data: Any, name: str) -> tuple[Tensor, Tensor | list[str]]:
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


def label_columns(
    columns: Mapping[str, Any], class_names: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Number the labels of all splits, and list the classes where they are texts.

    Args:
        columns: Labels by split, whole numbers or texts: arrays, or what :func:`read_inputs_and_labels` gives.
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
