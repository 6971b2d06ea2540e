"""Classes that take a share of the probability but are never the answer.

A network may be trained with more classes than it is asked about: a sentiment network of three classes that has to say
positive or negative. Its predictions keep every logit, because a temperature acts on all of them, and name the masked
classes in their provenance; what is measured are the probabilities of the others as they are.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from focalcal.predictions.container import Predictions
from focalcal.predictions.files import PredictionsFile

_KEY = "masked_classes"


def masking(masked: Collection[int]) -> dict[str, str]:
    """What the provenance of predictions says about masked classes; nothing if there are none."""
    return {_KEY: ",".join(map(str, masked))} if masked else {}


def masked_classes(preds: Predictions | PredictionsFile) -> tuple[int, ...]:
    """The classes that are never the answer, in order; most predictions have none.

    Raises:
        ValueError: if what the provenance says are not classes, or fewer than two others are left.
    """
    named = preds.provenance.get(_KEY, "")
    if not named:
        return ()
    numbers = {int(part) if part.isdecimal() else -1 for part in named.split(",")}
    if not numbers <= set(range(preds.num_classes)) or preds.num_classes - len(numbers) < 2:
        raise ValueError(
            f"The provenance calls {named!r} masked, which must be classes from 0 to {preds.num_classes - 1}, "
            "separated by commas, that leave at least two others."
        )
    return tuple(sorted(numbers))


def answer_classes(preds: Predictions | PredictionsFile) -> list[int]:
    """The classes that can be an answer, in order."""
    masked = set(masked_classes(preds))
    return [number for number in range(preds.num_classes) if number not in masked]


def answer_names(preds: Predictions | PredictionsFile) -> list[str] | None:
    """The names of the classes that can be an answer."""
    return None if preds.class_names is None else [preds.class_names[number] for number in answer_classes(preds)]


def answers(preds: Predictions) -> Predictions:
    """The predictions that are measured: those of the other classes, renumbered; rows sum to at most 1.

    Predictions without masked classes are given back as they are.

    Examples:
        >>> preds = Predictions.from_probs([[0.3, 0.5, 0.2]], [0], provenance={"masked_classes": "1"})
        >>> answers(preds).values
        tensor([[0.3000, 0.2000]], dtype=torch.float64)
    """
    if not masked_classes(preds):
        return preds
    kept = answer_classes(preds)
    return replace(
        preds,
        values=_answer_probs(preds.values, kept) if preds.kind == "logits" else preds.values[:, kept],
        kind="probs",
        labels=_answer_labels(preds, kept),
        class_names=None if preds.class_names is None else tuple(preds.class_names[number] for number in kept),
        provenance={key: value for key, value in preds.provenance.items() if key != _KEY},
    )


def _answer_probs(logits: Tensor, kept: list[int]) -> Tensor:
    """(N, answers) float64: their share of softmax over all classes, never rounded to 0.

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
