"""The compact form of predictions: what a repository has room for.

The values in 16 or 32 bits, classes in as few bytes as they need, no ids. Rows of logits are moved so that the largest
of each is 0: softmax, temperature scaling and everything that is measured stay the same, and 16 bits, which are finest
near 0, then hold those logits best that matter most, and keep the two largest apart down to a difference of 3e-8.
"""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.predictions.container import Predictions

Compact = Literal["float16", "float32"]
_LABEL_TYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)


def compact_arrays(preds: Predictions, values: Compact) -> tuple[Predictions, dict[str, np.ndarray]]:
    """Give what the metadata is made of, and the arrays of a compact file.

    Args:
        preds: the predictions.
        values: the type of logits or probabilities.

    Raises:
        ValueError: one sentence, for a type that there is not, probabilities in 16 bits, or a logit that would become
            infinite.

    Examples:
        >>> preds = Predictions.from_logits([[9.0, 7.5], [-4.0, 2.0]], [0, 1], ids=["a", "b"])
        >>> kept, arrays = compact_arrays(preds, "float16")
        >>> arrays["logits"].tolist(), arrays["logits"].dtype.name, arrays["labels"].dtype.name
        ([[0.0, -1.5], [-6.0, 0.0]], 'float16', 'uint8')
    """
    if values not in get_args(Compact):
        raise ValueError(f"compact must be 'float16' or 'float32', not {values!r}.")
    if values == "float16" and preds.kind == "probs":
        raise ValueError("float16 would turn small probabilities into 0; save them with compact='float32'.")
    rounded = _rounded(preds, getattr(torch, values))
    # float32 says whether rows still sum to 1; 16 bits are of logits, which need not.
    kept = replace(preds, values=rounded.float(), ids=None)
    arrays = {preds.kind: rounded.numpy(), "labels": _smallest(preds.labels).numpy()}
    return kept, arrays if preds.weights is None else {**arrays, "weights": preds.weights.numpy()}


def _rounded(preds: Predictions, dtype: torch.dtype) -> Tensor:
    name = str(dtype).removeprefix("torch.")
    if preds.kind == "probs":
        rounded = preds.values.to(dtype)
        _refuse((rounded == 0) & (preds.values > 0), f"The probability of {{}} is so small that {name} makes it 0")
        return rounded
    rounded = (preds.values - preds.values.amax(dim=1, keepdim=True)).to(dtype)
    lost = rounded.isinf() & preds.values.isfinite()
    _refuse(lost, f"The logit of {{}} lies so far below the largest that {name} cannot hold it")
    return rounded


def _refuse(lost: Tensor, what: str) -> None:
    if bool(lost.any()):
        row, column = lost.nonzero()[0].tolist()
        raise ValueError(f"{what.format(f'class {column} in row {row}')}; save with a wider type, or not compact.")


def _smallest(labels: Tensor) -> Tensor:
    """Classes in the smallest type that holds them all; soft labels as they are."""
    if labels.ndim == 2:
        return labels
    largest = int(labels.max()) if len(labels) else 0
    return labels.to(next(dtype for dtype in _LABEL_TYPES if largest <= torch.iinfo(dtype).max))
