"""From model outputs of any shape to checked rows: one row a sample or position, one column a class."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from focalcal.predictions.checks import (
    Where,
    check_hard_labels,
    check_logits,
    check_probs,
    check_weights,
    normalised_soft_labels,
    row_sum_tolerance,
)
from focalcal.predictions.names import checked_ids
from focalcal.predictions.tensors import cpu_tensor, float_tensor, integer_tensor

Kind = Literal["logits", "probs"]
_WORDS: dict[Kind, str] = {"logits": "logits", "probs": "probabilities"}


@dataclass(frozen=True)
class Rows:
    """Checked rows: what a set of predictions, or one block of it, consists of."""

    values: Tensor  # (N, K) float32 or float64
    labels: Tensor  # (N,) int64, or (N, K) float64
    weights: Tensor | None  # (N,) float64
    ids: tuple[str, ...] | None


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


def checked_rows(
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
    """Flatten, drop the ignored positions, check. ``first`` counts the samples before these, for the messages."""
    outputs, dtype = float_tensor(values, _WORDS[kind])
    outputs = _with_two_classes(kind, _with_class_dimension(kind, outputs))
    samples, num_classes, *positions = outputs.shape
    shape = (samples, *positions)
    where = Where(first, tuple(positions))
    rows = Rows(
        values=outputs.movedim(1, -1).reshape(-1, num_classes),
        labels=_flat_labels(labels, outputs.shape),
        weights=None if weights is None else _flat_weights(weights, shape),
        ids=None if ids is None else _flat_ids(ids, shape),
    )
    rows, where = _without_ignored(rows, ignore_index, where)
    check_values(kind, rows.values, tolerance, dtype, where)
    if rows.weights is not None:
        check_weights(rows.weights, where)
    return replace(rows, values=rows.values.contiguous(), labels=_checked_labels(rows.labels, num_classes, where))


def _with_class_dimension(kind: Kind, outputs: Tensor) -> Tensor:
    if outputs.ndim == 0:
        raise ValueError(f"The {_WORDS[kind]} are one number; pass (N, K), (N, K, d1, ...), or (N,) for two classes.")
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    if outputs.shape[1] == 0:
        raise ValueError(f"The {_WORDS[kind]} have shape {tuple(outputs.shape)}, without any class; pass (N, K).")
    return outputs


def _with_two_classes(kind: Kind, outputs: Tensor) -> Tensor:
    """One logit z becomes (0, z), one probability p becomes (1-p, p): class 1 is the one that the column speaks of."""
    if outputs.shape[1] != 1:
        return outputs
    other = torch.zeros_like(outputs) if kind == "logits" else 1 - outputs
    return torch.cat([other, outputs], dim=1)


def _flat_labels(labels: Any, outputs_shape: torch.Size) -> Tensor:
    """(N, d1, ...) classes to (rows,) int64; (N, K, d1, ...) probabilities or counts to (rows, K)."""
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


def _flat_weights(weights: Any, shape: tuple[int, ...]) -> Tensor:
    tensor = cpu_tensor(weights, "weights")
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError("The weights must be real numbers; to leave samples out, select rows or use ignore_index.")
    if tensor.shape == shape[:1]:
        tensor = tensor.reshape(-1, *(1 for _ in shape[1:])).expand(shape)
    if tensor.shape != shape:
        raise ValueError(f"The weights have shape {tuple(tensor.shape)}; pass one a sample, shape {shape}.")
    return tensor.to(torch.float64).reshape(-1)


def _flat_ids(ids: Any, shape: tuple[int, ...]) -> tuple[str, ...]:
    """One id a row; ids of samples with several positions get the position's number after a colon."""
    texts = checked_ids(ids)
    if len(texts) == prod(shape):
        return texts
    if len(texts) != shape[0]:
        raise ValueError(f"There are {len(texts)} ids for {shape[0]} samples; pass one a sample.")
    return tuple(f"{text}:{position}" for text in texts for position in range(prod(shape[1:])))


def _without_ignored(rows: Rows, ignore_index: int | None, where: Where) -> tuple[Rows, Where]:
    if ignore_index is None or rows.labels.ndim == 2:
        return rows, where
    kept = (rows.labels != ignore_index).nonzero().squeeze(1)
    if len(kept) == len(rows.labels):
        return rows, where
    return select_rows(rows, kept), replace(where, kept=kept)


def select_rows(rows: Rows, index: Tensor) -> Rows:
    """Return the rows at an int64 index, in its order."""
    return Rows(
        values=rows.values[index],
        labels=rows.labels[index],
        weights=None if rows.weights is None else rows.weights[index],
        ids=None if rows.ids is None else tuple(rows.ids[i] for i in index.tolist()),
    )


def _checked_labels(labels: Tensor, num_classes: int, where: Where) -> Tensor:
    if labels.ndim == 2:
        return normalised_soft_labels(labels, where)
    check_hard_labels(labels, num_classes, where)
    return labels
