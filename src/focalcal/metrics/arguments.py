"""Arguments of metrics: predictions, or arrays and what they are; masked classes dropped, weights of a sane size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.catalogue import METRICS
from focalcal.predictions import Kind, Predictions
from focalcal.predictions.masking import drop_masked
from focalcal.predictions.rows import check_kind

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_predictions(function: Function) -> Function:
    """Let a function of predictions take arrays too, where ``kind`` says what they are; or say how it is called.

    Examples:
        >>> @takes_predictions
        ... def count(preds):
        ...     return len(preds)
        >>> count([[0.9, 0.1]], [0], kind="probs")
        1
        >>> count([[0.9, 0.1]], [0])
        Traceback (most recent call last):
        TypeError: count takes Predictions: call count(Predictions.from_probs(probs, labels)), or from_logits for \
logits; or say what the arrays are with count(probs, labels, kind='probs').
    """

    @wraps(function)
    def call(preds: Any, *arrays: Any, kind: Kind | None = None, **options: Any) -> Any:
        made = predictions_of(function.__name__, preds, arrays, kind) if arrays or kind is not None else preds
        _check_measure(function.__name__, made)
        return function(made, **options)

    return cast(Function, call)


def _check_measure(name: str, preds: Any) -> None:
    """Refuse pairs of confidence and correct for a metric that needs the probabilities of all classes."""
    is_pairs = isinstance(preds, Predictions) and preds.of == "confidence"
    listed = "top_5_accuracy" if name == "top_k_accuracy" else name
    if is_pairs and listed in METRICS and "confidence" not in METRICS[listed].of:
        raise ValueError(
            f"{name} needs the probabilities of all classes, and these predictions have the confidence of each answer "
            "alone."
        )


def predictions_of(name: str, first: Any, others: Sequence[Any], kind: Kind | None) -> Predictions:
    """Make predictions of the arrays that a function was called with, which ``kind`` says what they are."""
    if isinstance(first, Predictions):
        raise TypeError(
            f"{name} takes Predictions alone, which have their labels: call {name}(preds), and give options by name."
        )
    if kind is None or len(others) > 1:
        raise TypeError(
            f"{name} takes Predictions: call {name}(Predictions.from_probs(probs, labels)), or from_logits for logits; "
            f"or say what the arrays are with {name}(probs, labels, kind='probs')."
        )
    check_kind(kind)
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probs
    return make(first, *others)


def prepare_predictions(preds: object) -> Predictions:
    """Return what metrics look at: predictions without masked classes, with weights whose largest is between 1 and 2.

    Raises:
        TypeError: For anything but predictions.
    """
    if not isinstance(preds, Predictions):
        what = f"A metric needs Predictions, not {type(preds).__name__}"
        raise TypeError(f"{what}: make them with Predictions.from_logits or from_probs.")
    preds = drop_masked(preds)
    if preds.weights is None or not (exponent := weight_exponent(preds.weights)):
        return preds
    return replace(preds, weights=scale_weights(preds.weights, exponent))


def weight_exponent(weights: Tensor) -> int:
    """Return the exponent of the power of two below the largest weight: dividing by it loses no digit.

    Examples:
        >>> weight_exponent(torch.tensor([0.0, 5.0]))
        2
        >>> weight_exponent(torch.tensor([5e-324], dtype=torch.float64))
        -1074
    """
    largest = float(weights.max()) if len(weights) else 1.0
    return math.frexp(largest)[1] - 1 if largest > 0 else 0


def scale_weights(weights: Tensor, exponent: int) -> Tensor:
    """Divide weights by a power of two, which may itself be too large or too small for a float.

    Examples:
        >>> scale_weights(torch.tensor([5e-324, 1e-323], dtype=torch.float64), -1074).tolist()
        [1.0, 2.0]
    """
    return torch.from_numpy(np.ldexp(weights.numpy(), -exponent))
