"""Rows of predictions: model outputs of any shape become checked rows, one per sample or position."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows
from focalcal.base.notices import PredictionsWarning
from focalcal.predictions.checks import (
    LabelsAre,
    Where,
    check_hard_labels,
    check_logits,
    check_probs,
    check_weights,
    normalise_soft_labels,
    row_sum_tolerance,
)
from focalcal.predictions.groups import GroupColumn, Groups, convert_clusters, convert_groups
from focalcal.predictions.ids import convert_ids
from focalcal.predictions.tensors import cpu_tensor, float_tensor, integer_tensor

if TYPE_CHECKING:
    from focalcal.predictions.container import Predictions

Kind = Literal["logits", "probs"]
WORDS: dict[Kind, str] = {"logits": "logits", "probs": "probabilities"}
# A warning names the line that called Predictions.from_logits or from_probs.
_CALLER = 5


@dataclass(frozen=True)
class Rows:
    """Checked rows of a set of predictions, or of one block of it; ``Predictions`` has fields of the same names."""

    values: Tensor  # (N, K) float32 or float64
    labels_or_none: Tensor | None  # (N,) int64, or (N, K) float64
    weights: Tensor | None  # (N,) float64
    ids: tuple[str, ...] | None
    clusters: Tensor | None  # (N,) int64
    groups: Groups  # a column of N entries by each name

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]


AnyRows = TypeVar("AnyRows", Rows, "Predictions")
ROW_FIELDS = tuple(field.name for field in fields(Rows) if field.name != "groups")


def change_rows(rows: AnyRows, change: Callable[[Any], Any]) -> AnyRows:
    """Apply the same change to every part that has an entry per row."""
    parts = {name: getattr(rows, name) for name in ROW_FIELDS}
    changed = {name: change(part) for name, part in parts.items() if part is not None}
    return replace(rows, **changed, groups={name: change(column) for name, column in rows.groups.items()})


def pick_rows(rows: AnyRows, index: Tensor) -> AnyRows:
    """Return the rows at an int64 index, in its order."""

    def pick(part: Any) -> Any:
        return tuple(part[i] for i in index.tolist()) if isinstance(part, tuple) else part[index]

    return change_rows(rows, pick)


def join_rows(parts: Sequence[AnyRows]) -> AnyRows:
    """Put rows one after another, all with the same parts; everything else is that of the first."""

    def join(name: str) -> Any:
        pieces = [getattr(part, name) for part in parts]
        return (
            torch.cat(pieces) if isinstance(pieces[0], Tensor) else tuple(entry for piece in pieces for entry in piece)
        )

    there = [[name for name in ROW_FIELDS if getattr(part, name) is not None] + sorted(part.groups) for part in parts]
    if any(names != there[0] for names in there):
        raise ValueError(
            "Only predictions with the same parts go together: labels, weights, ids, clusters, groups of all or none."
        )
    names = [name for name in ROW_FIELDS if name in there[0]]
    groups = {name: GroupColumn.join([part.groups[name] for part in parts]) for name in parts[0].groups}
    return replace(parts[0], **{name: join(name) for name in names}, groups=groups)


def choose_block_rows(rows: int | None, num_classes: int, values_in_a_block: int) -> int:
    """Return ``rows`` if it is a sensible number, or as many as hold ``values_in_a_block`` values."""
    if rows is None:
        return chunk_rows(num_classes, values_in_a_block)
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}.")
    return rows


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
    labels: Any = None,
    *,
    weights: Any = None,
    ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    clusters: Any = None,
    class_dim: int | None = None,
    positive: int = 1,
    labels_are: LabelsAre = "probs",
    ignore_index: int | None = -100,
    tolerance: float | None = None,
    first: int = 0,
    kept: Tensor | None = None,
) -> Rows:
    """Flatten outputs, drop the ignored positions, and check the rest.

    ``positive`` is the class that becomes class 1, of two. For the messages, ``first`` counts the samples before these,
    and ``kept`` are the numbers of those that were not dropped.
    """
    outputs, dtype = float_tensor(values, WORDS[kind])
    labels = None if labels is None else cpu_tensor(labels, "labels")
    outputs, labels = _move_classes(kind, outputs, labels, class_dim)
    given = outputs.shape
    outputs = _expand_single_column(kind, outputs)
    samples, num_classes, *positions = outputs.shape
    shape = (samples, *positions)
    where = Where(first, tuple(positions), kept)
    rows = Rows(
        values=outputs.movedim(1, -1).reshape(-1, num_classes),
        labels_or_none=None if labels is None else _flatten_labels(labels, outputs.shape, where),
        weights=None if weights is None else _flatten_weights(weights, shape),
        ids=None if ids is None else _flatten_ids(ids, shape),
        clusters=convert_clusters(clusters, shape, first),
        groups=convert_groups(groups, shape),
    )
    if positive == 0:
        rows = _exchange_classes(rows, columns=given[1])
    rows, where = _drop_ignored(rows, ignore_index, where)
    check_values(kind, rows.values, tolerance, dtype, where)
    if rows.weights is not None:
        check_weights(rows.weights, where)
    checked = rows.labels_or_none
    if checked is not None and checked.ndim == 2:
        checked = normalise_soft_labels(checked, labels_are, where)
    elif checked is not None:
        check_hard_labels(checked, num_classes, where, of_score=given[1] == 1)
    return replace(rows, values=rows.values.contiguous(), labels_or_none=checked)


def count_columns(values: Tensor, class_dim: int | None = None) -> int:
    """Return how many columns outputs have: 1 for (N,), otherwise the length of the axis of classes."""
    shape = values.shape
    axis = 1 if class_dim is None else class_dim
    return shape[axis] if len(shape) > 1 and -len(shape) <= axis < len(shape) else 1


def _move_classes(
    kind: Kind, outputs: Tensor, labels: Tensor | None, class_dim: int | None
) -> tuple[Tensor, Tensor | None]:
    """Bring the axis of classes to the second place, in the outputs and in labels of the same shape."""
    if outputs.ndim == 0:
        raise ValueError(f"The {WORDS[kind]} are one number; pass (N, K), (N, K, d1, ...), or (N,) for two classes.")
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    elif class_dim is not None:
        shape = outputs.shape
        if not -len(shape) <= class_dim < len(shape) or class_dim % len(shape) == 0:
            raise ValueError(
                f"class_dim is {class_dim}, which is not the axis of classes of {WORDS[kind]} of shape {tuple(shape)}."
            )
        if labels is not None and labels.shape == shape:
            labels = labels.movedim(class_dim, 1)
        outputs = outputs.movedim(class_dim, 1)
    elif _hides_classes(tuple(outputs.shape), () if labels is None else tuple(labels.shape)):
        warnings.warn(
            f"The {WORDS[kind]} have shape {tuple(outputs.shape)}, which does not show where the classes are; they are "
            "taken from axis 1, as torch has them: pass class_dim=1 to confirm that, or class_dim=-1 if they are last.",
            PredictionsWarning,
            stacklevel=_CALLER,
        )
    if outputs.shape[1] == 0:
        raise ValueError(f"The {WORDS[kind]} have shape {tuple(outputs.shape)}, without any class; pass (N, K).")
    return outputs, labels


def _hides_classes(shape: tuple[int, ...], labels: tuple[int, ...]) -> bool:
    """Return whether the classes could as well be on another axis than 1, by the shapes of outputs and labels."""
    others = [axis for axis in range(2, len(shape)) if shape[axis] == shape[1] > 1]
    return any(labels in ((), shape, shape[:axis] + shape[axis + 1 :]) for axis in others)


def _expand_single_column(kind: Kind, outputs: Tensor) -> Tensor:
    """Turn one logit z into (0, z), one probability p into (1-p, p): a single column is that of class 1."""
    if outputs.shape[1] != 1:
        return outputs
    other = torch.zeros_like(outputs) if kind == "logits" else 1 - outputs
    return torch.cat([other, outputs], dim=1)


def _exchange_classes(rows: Rows, columns: int) -> Rows:
    """Make class 0 class 1; a single column is that of the positive class already."""
    labels = rows.labels_or_none
    if labels is not None:
        labels = labels.flip(1) if labels.ndim == 2 else torch.where((labels == 0) | (labels == 1), 1 - labels, labels)
    return replace(rows, values=rows.values.flip(1) if columns == 2 else rows.values, labels_or_none=labels)


def _whole_labels(labels: Tensor, where: Where) -> Tensor:
    """Turn 0.0 and 1.0, as tables often have them, into classes."""
    wrong = (labels != labels.round()) | (labels.abs() >= 2.0**63)
    if wrong.any():
        index = int(wrong.to(torch.uint8).argmax())
        what = "missing" if labels[index].isnan() else f"{float(labels[index]):.6g}"
        raise ValueError(
            f"The label of {where(index)} is {what}; pass whole numbers (or a matrix of class probabilities), and "
            "leave out rows without a label."
        )
    return labels.to(torch.int64)


def _flatten_labels(tensor: Tensor, outputs_shape: torch.Size, where: Where) -> Tensor:
    """Turn (N, d1, ...) classes into (rows,) int64; and (N, K, d1, ...) probabilities or counts into (rows, K)."""
    samples, num_classes, *positions = outputs_shape
    if tensor.shape == outputs_shape:
        return tensor.movedim(1, -1).reshape(-1, num_classes).to(torch.float64)
    if tensor.shape != (samples, *positions):
        last = " (or name the axis of classes with class_dim, such as -1 for the last)" if positions else ""
        raise ValueError(
            f"The labels have shape {tuple(tensor.shape)}; for outputs of {num_classes} classes and shape "
            f"{tuple(outputs_shape)} pass classes of shape {(samples, *positions)}, or class probabilities or counts "
            f"of shape {tuple(outputs_shape)}{last}."
        )
    if tensor.dtype == torch.bool and num_classes == 2:
        return tensor.to(torch.int64).reshape(-1)
    if tensor.is_floating_point():
        return _whole_labels(tensor.reshape(-1), where)
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
    labels = rows.labels_or_none
    if ignore_index is None or labels is None or labels.ndim == 2:
        return rows, where
    kept = (labels != ignore_index).nonzero().squeeze(1)
    if len(kept) == len(labels):
        return rows, where
    return pick_rows(rows, kept), replace(where, kept=kept if where.kept is None else where.kept[kept])
