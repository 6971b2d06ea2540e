"""Rules for values, labels and weights, each with the sentence that says how it was broken."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import chunks

# Values looked at in one go: small enough to stay in the cache.
_VALUES_AT_ONCE = 2**18
# A soft label row this close to 1 is not changed, so that what was saved is loaded bit for bit.
_SUM_IS_ONE = 1e-12


# What a matrix of labels (N, K) holds: class probabilities, or counts of votes.
LabelsAre = Literal["probs", "counts"]


@dataclass(frozen=True)
class Where:
    """Turns the index of a row, after flattening and dropping, into words that a user can follow back.

    Args:
        first: Number of samples before these (in earlier blocks of a file).
        positions: (d1, ...) of outputs (N, C, d1, ...); () for (N, C).
        kept: (rows,) original index of each row, or None if nothing was dropped.
    """

    first: int = 0
    positions: tuple[int, ...] = ()
    kept: Tensor | None = None

    def __call__(self, index: int) -> str:
        """Name the row: ``row 17``, or ``position (3, 0, 5)`` where outputs have more dimensions."""
        if self.kept is not None:
            index = int(self.kept[index])
        if not self.positions:
            return f"row {self.first + index}"
        sample, *position = (int(i) for i in np.unravel_index(index, (index + 1, *self.positions)))
        return f"position ({', '.join(map(str, (self.first + sample, *position)))})"


def row_sum_tolerance(num_classes: int, dtype: torch.dtype) -> float:
    """Return how far from 1 a row of probabilities may sum: max(1e-3, 2·eps) + K / 2^25.

    eps is the spacing of the type that the probabilities came in, at 1: 2^-10 for float16 and 2^-7 for bfloat16, whose
    rounded rows miss 1 by that order. float32 and float64 get 1e-3, because they often hold what was float16 before.
    K / 2^25 is the most that K tiny probabilities lose when float16 rounds each of them to its smallest step.

    Examples:
        >>> row_sum_tolerance(10, torch.float32)
        0.001000298023223877
        >>> row_sum_tolerance(10, torch.bfloat16)
        0.015625298023223877
    """
    return max(1e-3, 2 * torch.finfo(dtype).eps) + num_classes * 2.0**-25


def check_logits(values: Tensor, where: Where) -> None:
    """Refuse NaN, +inf, and a row of which every value is -inf. Values: (N, K)."""
    for start, block in _row_blocks(values):
        if math.isfinite(block.sum()):  # a look at every row takes ten times as long
            continue
        # NaN and +inf win every maximum, and only a row without any finite value has the maximum -inf.
        wrong = ~torch.isfinite(block.amax(dim=1))
        if wrong.any():
            index = start + _first(wrong)
            raise ValueError(_wrong_logits(values[index], where(index)))


def check_probs(values: Tensor, tolerance: float, where: Where) -> None:
    """Refuse NaN, values outside [0, 1], and rows that do not sum to 1 within the tolerance. Values: (N, K)."""
    for start, block in _row_blocks(values):
        low, high = torch.aminmax(block, dim=1)
        inside = (low >= 0) & (high <= 1)
        total = block.sum(dim=1, dtype=torch.float64)
        wrong = ~(inside & ((total - 1).abs() <= tolerance))
        if wrong.any():
            at = _first(wrong)
            row = where(start + at)
            if not inside[at]:
                raise ValueError(_outside(block[at], row))
            raise ValueError(
                f"The probabilities of {row} sum to {float(total[at]):.6g}, not to 1 (tolerance {tolerance:.3g}); "
                "if these are logits use from_logits, otherwise divide each row by its sum or pass a larger tolerance."
            )


def largest_row_sum_error(probs: Tensor) -> float:
    """Return the largest distance of a row sum from 1. Probabilities: (N, K)."""
    return max(float((block.sum(dim=1, dtype=torch.float64) - 1).abs().max()) for _, block in _row_blocks(probs))


def check_hard_labels(labels: Tensor, num_classes: int, where: Where, *, of_score: bool = False) -> None:
    """Refuse a label outside 0 ... K-1. Labels: (N,) int64."""
    wrong = (labels < 0) | (labels >= num_classes)
    if wrong.any():
        index = _first(wrong)
        if of_score:
            raise ValueError(
                f"The label of {where(index)} is {int(labels[index])}, but one column is the score of class 1, and "
                "labels are 0 or 1; if it is the confidence of each answer use from_confidence (of a file: "
                "confidence_key), otherwise correct the label, or pass it as ignore_index."
            )
        raise ValueError(
            f"The label of {where(index)} is {int(labels[index])}, but there are {num_classes} classes "
            f"(0 to {num_classes - 1}); correct it, or pass it as ignore_index to leave such positions out."
        )


def normalise_soft_labels(labels: Tensor, labels_are: LabelsAre, where: Where) -> Tensor:
    """Check that rows of class probabilities sum to 1, or divide rows of counts by their sum. Labels: (N, K)."""
    if labels_are not in get_args(LabelsAre):
        raise ValueError(f"labels_are must be 'probs' or 'counts', not {labels_are!r}.")
    labels = labels.to(torch.float64)
    low, high = torch.aminmax(labels, dim=1)
    total = labels.sum(dim=1)
    summed = (total - 1).abs() <= row_sum_tolerance(labels.shape[1], torch.float32)
    wrong = ~((low >= 0) & torch.isfinite(high) & ((total > 0) if labels_are == "counts" else summed))
    if wrong.any():
        index = _first(wrong)
        raise ValueError(_wrong_soft_labels(labels[index], labels_are, where(index)))
    exact = (total - 1).abs() <= _SUM_IS_ONE
    return labels if exact.all() else torch.where(exact[:, None], labels, labels / total[:, None])


def _wrong_soft_labels(row: Tensor, labels_are: LabelsAre, name: str) -> str:
    total = float(row.sum())
    if labels_are == "counts":
        return f"The counts of {name} sum to {total:.6g}; counts are at least 0, and not all 0: correct that row."
    sentence = f"The soft labels of {name} sum to {total:.6g}, not to 1; "
    if bool((row >= 0).all() & (row == row.round()).all()) and total > 0:
        return (
            sentence + "if these are counts of votes pass labels_are='counts'; if several classes can be true at once "
            "(multi-label), measure each class as a score, with Predictions.from_probs(probs[:, k], labels[:, k])."
        )
    return sentence + "correct or normalise that row."


def check_weights(weights: Tensor, where: Where) -> None:
    """Refuse a weight that is negative, NaN or infinite. Weights: (N,)."""
    wrong = ~((weights >= 0) & torch.isfinite(weights))
    if wrong.any():
        index = _first(wrong)
        raise ValueError(
            f"The weight of {where(index)} is {float(weights[index]):.6g}; weights must be finite and at least 0."
        )


def check_some_weight(total: float) -> None:
    """Refuse weights that are all 0: every average over them would be 0/0."""
    if total <= 0:
        raise ValueError("All weights are 0; at least one sample must count.")


def _row_blocks(values: Tensor) -> Iterator[tuple[int, Tensor]]:
    for rows in chunks(len(values), values.shape[1], _VALUES_AT_ONCE):
        yield rows.start, values[rows]


def _first(mask: Tensor) -> int:
    return int(mask.to(torch.uint8).argmax())


def _wrong_logits(row: Tensor, name: str) -> str:
    if torch.isnan(row).any():
        return f"The logits of {name} hold NaN; look for the overflow or division that made it, or leave the row out."
    if (row == torch.inf).any():
        return f"The logits of {name} hold +inf; only finite numbers, and -inf for a masked class, are logits."
    return f"The logits of {name} are all -inf, which leaves no class to predict; leave the row out."


def _outside(row: Tensor, name: str) -> str:
    if torch.isnan(row).any():
        return f"The probabilities of {name} hold NaN; correct them or leave the row out."
    # Of two columns, the first may be one less a score, which nobody wrote.
    wrong = row[(row < 0) | (row > 1)][-1]
    return (
        f"The probabilities of {name} hold {float(wrong):.9g}, outside [0, 1]; "
        "if these are logits use from_logits, if it is rounding clip them."
    )
