"""Rows of predictions: model outputs of any shape become checked rows, one per sample or position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.predictions.checks import (
    Where,
    check_hard_labels,
    check_logits,
    check_probs,
    check_weights,
    normalise_soft_labels,
    row_sum_tolerance,
)
from focalcal.predictions.ids import convert_ids

if TYPE_CHECKING:
    from focalcal.predictions.container import Predictions

Kind = Literal["logits", "probs"]
_WORDS: dict[Kind, str] = {"logits": "logits", "probs": "probabilities"}


@dataclass(frozen=True)
class Rows:
    """Checked rows of a set of predictions, or of one block of it; ``Predictions`` has fields of the same names."""

    values: Tensor  # (N, K) float32 or float64
    labels: Tensor  # (N,) int64, or (N, K) float64
    weights: Tensor | None  # (N,) float64
    ids: tuple[str, ...] | None

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]


AnyRows = TypeVar("AnyRows", Rows, "Predictions")
ROW_FIELDS = tuple(field.name for field in fields(Rows))


def change_rows(rows: AnyRows, change: Callable[[Any], Any]) -> AnyRows:
    """Apply the same change to every part that has an entry per row."""
    parts = {name: getattr(rows, name) for name in ROW_FIELDS}
    return replace(rows, **{name: change(part) for name, part in parts.items() if part is not None})


def pick_rows(rows: AnyRows, index: Tensor) -> AnyRows:
    """Return the rows at an int64 index, in its order."""

    def pick(part: Any) -> Any:
        return part[index] if isinstance(part, Tensor) else tuple(part[i] for i in index.tolist())

    return change_rows(rows, pick)


def join_rows(parts: Sequence[AnyRows]) -> AnyRows:
    """Put rows one after another; everything else is that of the first part."""

    def join(name: str) -> Any:
        pieces = [getattr(part, name) for part in parts]
        return (
            torch.cat(pieces) if isinstance(pieces[0], Tensor) else tuple(entry for piece in pieces for entry in piece)
        )

    names = [name for name in ROW_FIELDS if getattr(parts[0], name) is not None]
    return replace(parts[0], **{name: join(name) for name in names})


def check_kind(kind: str) -> None:
    """Refuse anything but ``"logits"`` and ``"probs"``."""
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be 'logits' or 'probs', not {kind!r}.")


def check_values(kind: Kind, values: Tensor, tolerance: float | None, dtype: torch.dtype, where: Where) -> None:
    """Check (N, K) values by the rules of their kind; ``tolerance=None`` is the one of the type they came in."""
    if kind == "logits":
        check_logits(values, where)
    else:
        check_probs(values, row_sum_tolerance(values.shape[1], dtype) if tolerance is None else tolerance, where)


def prepare_rows(
    kind: Kind,
    values: Any,
    labels: Any,
    *,
    weights: Any = None,
    ids: Any = None,
    ignore_index: int | None = -100,
    tolerance: float | None = None,
    first: int = 0,
) -> Rows:
    """Flatten outputs, drop the ignored positions, and check the rest.

    ``first`` counts the samples before these, for the messages.
    """
    outputs, dtype = float_tensor(values, _WORDS[kind])
    outputs = _expand_single_column(kind, _add_class_dimension(kind, outputs))
    samples, num_classes, *positions = outputs.shape
    shape = (samples, *positions)
    where = Where(first, tuple(positions))
    rows = Rows(
        values=outputs.movedim(1, -1).reshape(-1, num_classes),
        labels=_flatten_labels(labels, outputs.shape),
        weights=None if weights is None else _flatten_weights(weights, shape),
        ids=None if ids is None else _flatten_ids(ids, shape),
    )
    rows, where = _drop_ignored(rows, ignore_index, where)
    check_values(kind, rows.values, tolerance, dtype, where)
    if rows.weights is not None:
        check_weights(rows.weights, where)
    return replace(rows, values=rows.values.contiguous(), labels=_check_labels(rows.labels, num_classes, where))


def _add_class_dimension(kind: Kind, outputs: Tensor) -> Tensor:
    if outputs.ndim == 0:
        raise ValueError(f"The {_WORDS[kind]} are one number; pass (N, K), (N, K, d1, ...), or (N,) for two classes.")
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    if outputs.shape[1] == 0:
        raise ValueError(f"The {_WORDS[kind]} have shape {tuple(outputs.shape)}, without any class; pass (N, K).")
    return outputs


def _expand_single_column(kind: Kind, outputs: Tensor) -> Tensor:
    """Turn one logit z into (0, z), one probability p into (1-p, p): a single column is that of class 1."""
    if outputs.shape[1] != 1:
        return outputs
    other = torch.zeros_like(outputs) if kind == "logits" else 1 - outputs
    return torch.cat([other, outputs], dim=1)


def _flatten_labels(labels: Any, outputs_shape: torch.Size) -> Tensor:
    """Turn (N, d1, ...) classes into (rows,) int64; and (N, K, d1, ...) probabilities or counts into (rows, K)."""
    tensor = cpu_tensor(labels, "labels")
    samples, num_classes, *positions = outputs_shape
    if tensor.shape == outputs_shape:
        return tensor.movedim(1, -1).reshape(-1, num_classes).to(torch.float64)
    if tensor.shape != (samples, *positions):
        raise ValueError(
            f"The labels have shape {tuple(tensor.shape)}; for outputs of {num_classes} classes and shape "
            f"{tuple(outputs_shape)} pass classes of shape {(samples, *positions)}, or class probabilities or counts "
            f"of shape {tuple(outputs_shape)}."
        )
    if tensor.dtype == torch.bool and num_classes == 2:
        return tensor.to(torch.int64).reshape(-1)
    return integer_tensor(tensor, "labels").reshape(-1)


def _flatten_weights(weights: Any, shape: tuple[int, ...]) -> Tensor:
    tensor = cpu_tensor(weights, "weights")
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError("The weights must be real numbers; to leave samples out, select rows or use ignore_index.")
    if tensor.shape == shape[:1]:
        tensor = tensor.reshape(-1, *(1 for _ in shape[1:])).expand(shape)
    if tensor.shape != shape:
        raise ValueError(f"The weights have shape {tuple(tensor.shape)}; pass one per sample, shape {shape}.")
    return tensor.to(torch.float64).reshape(-1)


def _flatten_ids(ids: Any, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Give each row an id: ids of samples with several positions get the position's number after a colon."""
    texts = convert_ids(ids)
    if len(texts) == prod(shape):
        return texts
    if len(texts) != shape[0]:
        raise ValueError(f"There are {len(texts)} ids for {shape[0]} samples; pass one per sample.")
    return tuple(f"{text}:{position}" for text in texts for position in range(prod(shape[1:])))


def _drop_ignored(rows: Rows, ignore_index: int | None, where: Where) -> tuple[Rows, Where]:
    if ignore_index is None or rows.labels.ndim == 2:
        return rows, where
    kept = (rows.labels != ignore_index).nonzero().squeeze(1)
    if len(kept) == len(rows.labels):
        return rows, where
    return pick_rows(rows, kept), replace(where, kept=kept)


def _check_labels(labels: Tensor, num_classes: int, where: Where) -> Tensor:
    if labels.ndim == 2:
        return normalise_soft_labels(labels, where)
    check_hard_labels(labels, num_classes, where)
    return labels


def cpu_tensor(data: Any, name: str) -> Tensor:
    """Return ``data`` as a CPU tensor of its own type, without a copy where that is possible.

    Args:
        data: A tensor, an array, or anything ``numpy.asarray`` makes an array of.
        name: Name for errors.
    """
    if data is None:
        raise TypeError(f"The {name} are missing; pass an array or tensor of numbers.")
    if isinstance(data, Tensor):
        return data.detach().cpu()
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"The {name} are rows of different lengths; pass a rectangular array.") from None
    if array.dtype.name == "bfloat16":  # numpy has it only through the package ml_dtypes
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if array.dtype.kind not in "fiub":
        raise TypeError(f"The {name} are of type {array.dtype}; pass an array or tensor of numbers.")
    return torch.from_numpy(_share_with_torch(array))


def float_tensor(data: Any, name: str) -> tuple[Tensor, torch.dtype]:
    """Return ``data`` as float32 or float64, and the type that it came in.

    float64 stays; everything narrower (float16, bfloat16, float8) is raised to float32.
    """
    tensor = cpu_tensor(data, name)
    if not tensor.is_floating_point():
        raise ValueError(f"The {name} are of type {_type_name(tensor)}; pass floating-point numbers.")
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor, tensor.dtype
    return tensor.float(), tensor.dtype


def integer_tensor(tensor: Tensor, name: str) -> Tensor:
    """Return a tensor of any integer type as int64."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"The {name} are of type {_type_name(tensor)}; pass integers, or a matrix (N, K) of shares.")
    as_int64 = tensor.to(torch.int64)
    if tensor.dtype == torch.uint64 and bool((as_int64 < 0).any()):
        raise ValueError(f"The {name} hold a number above 2^63, which is not a class.")
    return as_int64


def _share_with_torch(array: np.ndarray) -> np.ndarray:
    """Copy what torch cannot share memory with: a foreign byte order, long doubles, a read-only array."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return array


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
