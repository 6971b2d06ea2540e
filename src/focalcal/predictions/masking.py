"""Masked classes, which take a share of the probability but are never the answer.

A network may be trained with more classes than it is asked about: a sentiment network of three classes that has to say
positive or negative. Its predictions keep every logit, because a temperature acts on all of them, and name the masked
classes (``masked_classes``); metrics look at the probabilities of the others, which are not rescaled.
"""

from dataclasses import replace

import torch
from torch import Tensor

from focalcal.predictions.container import Predictions
from focalcal.predictions.predictions_file import PredictionsFile


def answer_classes(preds: Predictions | PredictionsFile) -> list[int]:
    """List the classes that can be an answer, in order."""
    masked = set(preds.masked_classes)
    return [number for number in range(preds.num_classes) if number not in masked]


def answer_names(preds: Predictions | PredictionsFile) -> list[str] | None:
    """List the names of the classes that can be an answer."""
    return None if preds.class_names is None else [preds.class_names[number] for number in answer_classes(preds)]


def drop_masked(preds: Predictions) -> Predictions:
    """Return the predictions of the other classes, renumbered, which are what is measured; rows sum to at most 1.

    Predictions without masked classes are returned unchanged.

    Examples:
        >>> preds = Predictions.from_probs([[0.3, 0.5, 0.2]], [0], masked_classes=[1])
        >>> drop_masked(preds).values
        tensor([[0.3000, 0.2000]], dtype=torch.float64)
    """
    if not preds.masked_classes:
        return preds
    kept = answer_classes(preds)
    return replace(
        preds,
        values=_answer_probs(preds.values, kept) if preds.kind == "logits" else preds.values[:, kept],
        kind="probs",
        labels_or_none=_answer_labels(preds, kept) if preds.has_labels else None,
        class_names=None if preds.class_names is None else tuple(preds.class_names[number] for number in kept),
        masked_classes=(),
    )


def _answer_probs(logits: Tensor, kept: list[int]) -> Tensor:
    """Return (N, answers) float64: their share of softmax over all classes, never rounded to 0.

    A masked logit may be so far ahead that all answers would become 0, and the order among them would be lost: what
    lies below exp(−700) is raised to it, in that order, so an NLL is at most 708 unless the logit itself is −inf.
    """
    logs = torch.log_softmax(logits.double(), dim=1)[:, kept]
    raised = logs + (-700.0 - logs.amax(dim=1, keepdim=True)).clamp(0.0, torch.finfo(torch.float64).max)
    return torch.where(logs.isinf(), logs, raised.clamp(min=-708.0)).exp()


def _answer_labels(preds: Predictions, kept: list[int]) -> Tensor:
    if preds.has_soft_labels:
        others = torch.ones(preds.num_classes, dtype=torch.bool)
        others[kept] = False
        _check_none(preds.labels[:, others].sum(dim=1) > 0)
        return preds.labels[:, kept]
    number = torch.full((preds.num_classes,), -1)
    number[kept] = torch.arange(len(kept))
    labels = number[preds.labels]
    _check_none(labels < 0)
    return labels


def _check_none(masked: Tensor) -> None:
    if bool(masked.any()):
        row = int(masked.nonzero()[0])
        raise ValueError(f"The label of row {row} is a class that is masked, so no answer could be right.")
