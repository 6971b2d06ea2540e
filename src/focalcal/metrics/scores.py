"""Accuracy, proper scores, confidence and entropy: means over samples, of all of them or of some.

Fractions, not percent; entropy and NLL in nats. A mean over no sample at all is NaN.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from focalcal.metrics.arguments import prepare_predictions, takes_predictions
from focalcal.metrics.binning import as_number
from focalcal.metrics.catalogue import CONFIDENT, TOP_K
from focalcal.metrics.samples import SampleStatistics
from focalcal.metrics.sums import Means, Measurable, means
from focalcal.predictions import Predictions

Among = Literal["all", "right", "wrong"]


@takes_predictions
def error(preds: Measurable) -> float:
    """Compute the share of samples whose largest output is not the label's: Σ w [prediction ≠ label] / Σ w.

    The first of equal outputs is the prediction; with soft labels the label is the most probable class.

    Args:
        preds: N predictions of K classes.

    Examples:
        >>> error(Predictions.from_probs([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], [0, 1, 1, 0]))
        0.25
    """
    return as_number((sums := means(preds)).misses / sums.total)


@takes_predictions
def accuracy(preds: Measurable) -> float:
    """1 − `error`: the share of samples whose largest output is the label's.

    Examples:
        >>> accuracy(Predictions.from_probs([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], [0, 1, 1, 0]))
        0.75
    """
    return as_number((sums := means(preds)).hits / sums.total)


@takes_predictions
def top_k_accuracy(preds: Predictions, *, k: int = TOP_K) -> float:
    """Compute the share of labels among the k largest outputs; of equal outputs the lower class comes first.

    Args:
        preds: N predictions of K classes.
        k: Number of classes that may hold the label, from 1 to K.

    Examples:
        >>> top_k_accuracy(Predictions.from_probs([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]], [1, 1]), k=2)
        0.5
    """
    preds = prepare_predictions(preds)
    if not 1 <= k <= preds.num_classes:
        raise ValueError(
            f"k is {k}, but there are {preds.num_classes} classes; choose k from 1 to {preds.num_classes}."
        )
    return as_number((sums := means(preds, k=k)).top_k / sums.total)


@takes_predictions
def top_5_accuracy(preds: Measurable) -> float:
    """Compute the share of samples whose label is among the five largest outputs: `top_k_accuracy` with k = 5.

    Examples:
        >>> top_5_accuracy(Predictions.from_logits([[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]] * 2, [4, 5]))
        0.5
    """
    return as_number((sums := means(preds)).top_k / sums.total)


@takes_predictions
def nll(preds: Measurable) -> float:
    """Negative log-likelihood, −Σ_i w_i Σ_k q_ik log p_ik / Σ w, in nats, with q the label (one-hot or soft).

    It is inf if a label has probability 0 (and weight), which a finite logit never has.

    Examples:
        >>> round(nll(Predictions.from_probs([[0.5, 0.5], [0.25, 0.75]], [0, 1])), 4)
        0.4904
    """
    sums = means(preds)
    return as_number((sums.nll / sums.total).where(sums.infinite_nll == 0, torch.inf))


@takes_predictions
def brier(preds: Measurable) -> float:
    """Brier score, Σ_i w_i Σ_k (p_ik − q_ik)² / Σ w: summed over classes, so between 0 and 2.

    Of a score, or of a confidence, it is (p − y)², between 0 and 1, as in scikit-learn.

    Examples:
        >>> brier(Predictions.from_probs([[0.5, 0.5], [0.25, 0.75]], [0, 1]))
        0.3125
        >>> brier(Predictions.from_probs([0.5, 0.75], [0, 1]))
        0.15625
    """
    return as_number((sums := means(preds)).brier / sums.total)


@takes_predictions
def mean_confidence(preds: Measurable, *, among: Among = "all") -> float:
    """Compute the mean of the largest probability, over all samples or over those predicted right or wrong.

    Args:
        preds: N predictions of K classes.
        among: ``"all"``, ``"right"`` or ``"wrong"``.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> mean_confidence(preds), mean_confidence(preds, among="wrong")
        (0.625, 0.5)
    """
    return _mean_among(means(preds), "confidence", among)


@takes_predictions
def mean_confidence_right(preds: Measurable) -> float:
    """Compute the mean confidence of samples that are predicted right."""
    return mean_confidence(preds, among="right")


@takes_predictions
def mean_confidence_wrong(preds: Measurable) -> float:
    """Compute the mean confidence of samples that are predicted wrong."""
    return mean_confidence(preds, among="wrong")


@takes_predictions
def mean_entropy(preds: Measurable, *, among: Among = "all") -> float:
    """Compute the mean entropy −Σ_k p_k log p_k in nats, over all samples or over those predicted right or wrong.

    Args:
        preds: N predictions of K classes.
        among: ``"all"``, ``"right"`` or ``"wrong"``.

    Examples:
        >>> round(mean_entropy(Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]], [0, 1])), 4)
        0.3466
    """
    return _mean_among(means(preds), "entropy", among)


@takes_predictions
def mean_entropy_right(preds: Measurable) -> float:
    """Compute the mean entropy of samples that are predicted right."""
    return mean_entropy(preds, among="right")


@takes_predictions
def mean_entropy_wrong(preds: Measurable) -> float:
    """Compute the mean entropy of samples that are predicted wrong."""
    return mean_entropy(preds, among="wrong")


def _mean_among(sums: Means, what: str, among: Among) -> float:
    if among not in get_args(Among):
        raise ValueError(f"among is {among!r}; it must be 'all', 'right' or 'wrong'.")
    groups = ("right", "wrong") if among == "all" else (among,)
    parts, counts = ([getattr(sums, prefix + group) for group in groups] for prefix in (f"{what}_", ""))
    return as_number(sum(parts[1:], parts[0]) / sum(counts[1:], counts[0]))


@takes_predictions
def signed_gap(preds: Measurable) -> float:
    """Mean confidence − accuracy: above 0 the model is over-confident on the whole, below 0 under-confident.

    Examples:
        >>> signed_gap(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]))
        0.125
    """
    sums = means(preds)
    return as_number((sums.confidence - sums.right) / sums.total)


@takes_predictions
def confident_share(preds: Measurable, *, threshold: float = CONFIDENT) -> float:
    """|S99|: the share of samples whose confidence is the threshold or more, compared as doubles.

    Examples:
        >>> confident_share(Predictions.from_probs([[0.99, 0.01], [0.5, 0.5]], [0, 1]))
        0.5
    """
    sums = means(preds, threshold=threshold)
    return as_number((sums.confident_right + sums.confident_wrong) / sums.total)


@takes_predictions
def confident_accuracy(preds: Measurable, *, threshold: float = CONFIDENT) -> float:
    """Compute the accuracy on the samples whose confidence is the threshold or more; NaN if there are none.

    Examples:
        >>> confident_accuracy(Predictions.from_probs([[0.99, 0.01], [0.5, 0.5]], [0, 1]))
        1.0
    """
    sums = means(preds, threshold=threshold)
    return as_number(sums.confident_right / (sums.confident_right + sums.confident_wrong))


def mean_of(values: Tensor, stats: SampleStatistics, chosen: Tensor | None = None) -> float:
    """Compute the mean, weighted as the samples are, of (N,) values, over all samples or the chosen ones (N,) bool."""
    weight = stats.weight
    if weight is not None:
        # A sample that does not count must not: 0 · inf is not a number.
        chosen = weight > 0 if chosen is None else chosen & (weight > 0)
        weight = weight[chosen]
    values = values.double() if chosen is None else values[chosen].double()
    return float(values.mean() if weight is None else values @ weight / weight.sum())
