"""Whether predictions given for one model can belong to it, found out before any work is done on them."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from focalcal.predictions import Predictions, PredictionsFile
from focalcal.predictions.masking import masked_classes
from focalcal.report.provenance import sha256

Data = Predictions | PredictionsFile


def check_classes(data: Data, val: Data | None, ood: Mapping[str, Data]) -> None:
    """Raise unless all have the same number of classes."""
    others = {} if val is None else {"validation": val}
    others |= {f"out-of-distribution ({name})": outside for name, outside in ood.items()}
    for name, other in others.items():
        if other.num_classes != data.num_classes:
            raise ValueError(
                f"The {name} predictions have {other.num_classes} classes and the others {data.num_classes}; "
                "use predictions of one and the same network."
            )
        if masked_classes(other) != masked_classes(data):
            raise ValueError(
                f"The {name} predictions have other masked classes than the others; use predictions of one and the "
                "same network."
            )


def same_predictions(first: Data, second: Data) -> bool:
    """Whether two are the same samples with the same outputs, in memory or in files of the same bytes.

    Examples:
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], [0, 1])
        >>> same_predictions(preds, preds.select([0, 1])), same_predictions(preds, preds.select([1, 0]))
        (True, False)
    """
    if isinstance(first, Predictions) and isinstance(second, Predictions):
        return torch.equal(first.values, second.values) and torch.equal(first.labels, second.labels)
    if isinstance(first, Predictions) or isinstance(second, Predictions):
        return False
    if os.path.samefile(first.path, second.path):
        return True
    alike = os.path.getsize(first.path) == os.path.getsize(second.path)
    return alike and sha256(first.path) == sha256(second.path)
