"""Pairs of confidence and correct: answers of which only the confidence is known, and whether each was right."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from focalcal.predictions.checks import Where
from focalcal.predictions.groups import PREDICTED, GroupColumn
from focalcal.predictions.labels import is_text, label_text
from focalcal.predictions.tensors import cpu_tensor, float_tensor


class Pairs(NamedTuple):
    """Pairs in the form of outputs for two classes, wrong and right."""

    outputs: Tensor  # (N, 1, d1, ...), the confidence
    correct: Tensor | None  # (N, d1, ...) int64
    groups: Mapping[str, Any] | None


def prepare_pairs(
    confidence: Any,
    correct: Any,
    predicted: Any,
    labels: Any,
    groups: Mapping[str, Any] | None,
    ignore_index: int | None,
    where: Where | None = None,
) -> Pairs:
    """Check a confidence per answer, and find out which answers are right.

    Args:
        confidence: (N,) or (N, d1, ...).
        correct: Booleans, or 0 and 1; or None.
        predicted: Classes, or None.
        labels: Classes, or None.
        groups: Other columns of groups, by name.
        ignore_index: The label of positions that do not count.
        where: Names rows in messages.
    """
    outputs, _ = float_tensor(confidence, "confidences")
    if outputs.ndim == 0:
        raise ValueError("The confidences are one number; pass one per answer.")
    where = Where(positions=tuple(outputs.shape[1:])) if where is None else where
    flat = outputs.reshape(-1)
    outside = ~((flat >= 0) & (flat <= 1))
    if outside.any():
        index = int(outside.int().argmax())
        raise ValueError(
            f"The confidence of {where(index)} is {float(flat[index]):.6g}; it must lie between 0 and 1 (divide "
            "percent by 100)."
        )
    if correct is not None and labels is not None:
        raise ValueError("Pass correct, or predicted and labels, but not both: they could contradict each other.")
    if labels is not None and predicted is None:
        raise ValueError("Labels say which answers are right only beside predicted; pass correct, or both of them.")
    named = None if predicted is None else _column(predicted, outputs, PREDICTED)
    right: Tensor | None
    if labels is not None and named is not None:
        right = _agreement(named, _column(labels, outputs, "labels"), ignore_index).reshape(outputs.shape)
    else:
        right = None if correct is None else _check_correct(correct, outputs, ignore_index, where)
    if named is not None:
        if PREDICTED in (groups or {}):
            raise ValueError(f"There is a group {PREDICTED!r} beside predicted classes; rename it.")
        groups = {**(groups or {}), PREDICTED: named}
    return Pairs(outputs[:, None], right, groups)


def _column(values: Any, outputs: Tensor, name: str) -> GroupColumn:
    column = GroupColumn.from_values(values, name)
    if len(column) != outputs.numel():
        raise ValueError(f"There are {len(column)} {name} for {outputs.numel()} confidences; pass one per answer.")
    return column


def _agreement(predicted: GroupColumn, labels: GroupColumn, ignore_index: int | None) -> Tensor:
    """Return 1 where both name the same class, 0 elsewhere, and ignore_index where the label is it; (N,) int64."""
    place = {name: code for code, name in enumerate(predicted.names)}
    same = torch.tensor([place.get(name, -1) for name in labels.names], dtype=torch.int64)[labels.codes]
    right = (same == predicted.codes).long()
    if ignore_index is not None and str(ignore_index) in labels.names:
        right[labels.codes == labels.names.index(str(ignore_index))] = ignore_index
    return right


def _read_truth(texts: np.ndarray, where: Where) -> np.ndarray:
    flat = [label_text(text) for text in texts.reshape(-1).tolist()]
    for row, text in enumerate(flat):
        if text.lower() not in ("true", "false", "1", "0"):
            found = repr(text) if text else "missing"
            raise ValueError(
                f"correct is {found} in {where(row)}; it must be 0 or 1, or true or false: pass predicted and labels "
                "if these are classes."
            )
    return np.array([text.lower() in ("true", "1") for text in flat], dtype=np.int64).reshape(texts.shape)


def _check_correct(correct: Any, outputs: Tensor, ignore_index: int | None, where: Where) -> Tensor:
    if is_text(correct):
        correct = _read_truth(np.asarray(correct), where)
    tensor = cpu_tensor(correct, "values of correct")
    if tensor.shape != outputs.shape:
        shapes = f"{tuple(tensor.shape)} for confidences of shape {tuple(outputs.shape)}"
        raise ValueError(f"correct has shape {shapes}; pass one per answer.")
    flat = tensor.reshape(-1)
    wrong = ~((flat == 0) | (flat == 1) | (flat == (0 if ignore_index is None else ignore_index)))
    if wrong.any():
        index = int(np.flatnonzero(wrong.numpy())[0])
        raise ValueError(
            f"correct is {flat[index].item():.6g} in {where(index)}; it must be 0 or 1, or False or True: pass "
            "predicted and labels if these are classes."
        )
    return tensor.to(torch.int64)
