"""Inputs and labels of the user's own, whatever holds them, as two checked tensors."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def read_columns(data: Any, name: str) -> tuple[Tensor, Tensor]:
    """The inputs (N, …) and labels (N,) int64 of a pair, a data set or a loader.

    Args:
        data: what :func:`~focalcal.data.own.as_samples` takes, but samples.
        name: what the data is called in messages.
    """
    inputs, labels = _pair(data, name) if _is_pair(data) else _read(data, name)
    if inputs.ndim == 0:
        raise ValueError(f"{name}: inputs must have one row a sample, got a single number.")
    if len(labels) == 0:
        raise ValueError(f"{name}: there are no samples.")
    if len(inputs) != len(labels):
        raise ValueError(f"{name}: there are {len(inputs):,} inputs but {len(labels):,} labels.")
    if int(labels.min()) < 0:
        raise ValueError(f"{name}: label {int(labels.min())} is negative; labels count from 0.")
    # Networks are float32, and NumPy makes float64 of everything.
    inputs = inputs.float() if inputs.is_floating_point() else inputs
    _check_finite(inputs, name)
    return inputs, labels


def _check_finite(inputs: Tensor, name: str) -> None:
    if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        row = int((~inputs.isfinite()).reshape(len(inputs), -1).any(dim=1).nonzero()[0])
        raise ValueError(f"{name}: the input in row {row} (counted from 0) holds NaN or infinity; mend or remove it.")


def _is_pair(data: Any) -> bool:
    """A tuple or list of two whole columns, not a list of two samples."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    inputs, labels = data
    if isinstance(labels, Tensor | np.ndarray):
        return isinstance(inputs, Tensor | np.ndarray | list) and labels.ndim > 0 and not _is_sample(inputs)
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
        label = _labels(item[1], name)
        inputs.append(_tensor(item[0], name) if label.ndim else _tensor(item[0], name).unsqueeze(0))
        labels.append(label.reshape(-1))
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
        return torch.as_tensor(np.asarray(values) if isinstance(values, list | tuple) else values).cpu().detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: inputs must be tensors or arrays, got {type(values).__name__}.") from error


def _labels(values: Any, name: str) -> Tensor:
    try:
        labels = torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name}: labels must be whole numbers from 0 on, {_got(values)}.") from error
    if labels.ndim > 1:
        raise ValueError(f"{name}: labels must be one number a sample, got shape {tuple(labels.shape)}.")
    if labels.numel() and (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool):
        raise TypeError(f"{name}: labels must be whole numbers, got {labels.dtype}; convert them by .long() first.")
    return labels.long()


def _got(values: Any) -> str:
    first = np.asarray(values, dtype=object).reshape(-1)[:1]
    return f"got {first[0]!r:.40}" if len(first) else f"got {type(values).__name__}"
