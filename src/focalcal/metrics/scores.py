"""Accuracy, proper scores, confidence and entropy: means over samples, of all of them or of some.

Fractions, not percent; entropy and NLL in nats. A mean over no sample at all is NaN.
"""

from typing import Literal, get_args

from torch import Tensor

from focalcal.metrics.statistics import SampleStatistics, measured, sample_statistics
from focalcal.predictions import Predictions

Among = Literal["all", "right", "wrong"]


def error(preds: Predictions) -> float:
    """The share of samples whose largest output is not the label's: Σ w [prediction ≠ label] / Σ w.

    The first of equal outputs is the prediction; with soft labels the label is the most probable class.

    Args:
        preds: N predictions of K classes.

    Examples:
        >>> error(Predictions.from_probs([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], [0, 1, 1, 0]))
        0.25
    """
    return mean_of(~(stats := sample_statistics(preds)).correct, stats)


def accuracy(preds: Predictions) -> float:
    """1 − `error`: the share of samples whose largest output is the label's.

    Examples:
        >>> accuracy(Predictions.from_probs([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], [0, 1, 1, 0]))
        0.75
    """
    return mean_of((stats := sample_statistics(preds)).correct, stats)


def top_k_accuracy(preds: Predictions, k: int = 5) -> float:
    """The share of samples whose label is among the k largest outputs; of equal outputs the lower class comes first.

    Args:
        preds: N predictions of K classes.
        k: between 1 and K.

    Examples:
        >>> top_k_accuracy(Predictions.from_probs([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]], [1, 1]), k=2)
        0.5
    """
    preds = measured(preds)
    if not 1 <= k <= preds.num_classes:
        raise ValueError(
            f"k is {k}, but there are {preds.num_classes} classes; choose k from 1 to {preds.num_classes}."
        )
    return mean_of((stats := sample_statistics(preds)).rank < k, stats)


def nll(preds: Predictions) -> float:
    """Negative log-likelihood, −Σ_i w_i Σ_k q_ik log p_ik / Σ w, in nats, with q the label (one-hot or soft).

    It is inf if a label has probability 0 (and weight), which a finite logit never has.

    Examples:
        >>> round(nll(Predictions.from_probs([[0.5, 0.5], [0.25, 0.75]], [0, 1])), 4)
        0.4904
    """
    return mean_of((stats := sample_statistics(preds)).nll, stats)


def brier(preds: Predictions) -> float:
    """Brier score, Σ_i w_i Σ_k (p_ik − q_ik)² / Σ w: summed over classes, so between 0 and 2.

    Examples:
        >>> brier(Predictions.from_probs([[0.5, 0.5], [0.25, 0.75]], [0, 1]))
        0.3125
    """
    return mean_of((stats := sample_statistics(preds)).brier, stats)


def mean_confidence(preds: Predictions, among: Among = "all") -> float:
    """The mean of the largest probability, over all samples or over those predicted right or wrong.

    Args:
        preds: N predictions of K classes.
        among: ``"all"``, ``"right"`` or ``"wrong"``.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> mean_confidence(preds), mean_confidence(preds, among="wrong")
        (0.625, 0.5)
    """
    return mean_of((stats := sample_statistics(preds)).confidence, stats, group(stats, among))


def mean_entropy(preds: Predictions, among: Among = "all") -> float:
    """The mean entropy −Σ_k p_k log p_k in nats, over all samples or over those predicted right or wrong.

    Args:
        preds: N predictions of K classes.
        among: ``"all"``, ``"right"`` or ``"wrong"``.

    Examples:
        >>> round(mean_entropy(Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]], [0, 1])), 4)
        0.3466
    """
    return mean_of((stats := sample_statistics(preds)).entropy, stats, group(stats, among))


def signed_gap(preds: Predictions) -> float:
    """Mean confidence − accuracy: above 0 the model is over-confident on the whole, below 0 under-confident.

    Examples:
        >>> signed_gap(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]))
        0.125
    """
    stats = sample_statistics(preds)
    return mean_of(stats.confidence, stats) - mean_of(stats.correct, stats)


def confident_share(preds: Predictions, threshold: float = 0.99) -> float:
    """|S99|: the share of samples whose confidence is the threshold or more, compared as doubles.

    Examples:
        >>> confident_share(Predictions.from_probs([[0.99, 0.01], [0.5, 0.5]], [0, 1]))
        0.5
    """
    return mean_of((stats := sample_statistics(preds)).confidence >= threshold, stats)


def confident_accuracy(preds: Predictions, threshold: float = 0.99) -> float:
    """The accuracy on the samples whose confidence is the threshold or more; NaN if there are none.

    Examples:
        >>> confident_accuracy(Predictions.from_probs([[0.99, 0.01], [0.5, 0.5]], [0, 1]))
        1.0
    """
    stats = sample_statistics(preds)
    return mean_of(stats.correct, stats, stats.confidence >= threshold)


def mean_of(values: Tensor, stats: SampleStatistics, chosen: Tensor | None = None) -> float:
    """The mean, weighted as the samples are, of (N,) values, over all samples or the chosen ones (N,) bool."""
    weight = stats.weight
    if weight is not None:
        # A sample that does not count must not: 0 · inf is no number.
        chosen = weight > 0 if chosen is None else chosen & (weight > 0)
        weight = weight[chosen]
    values = values.double() if chosen is None else values[chosen].double()
    return float(values.mean() if weight is None else values @ weight / weight.sum())


def group(stats: SampleStatistics, among: Among) -> Tensor | None:
    """Which samples are meant, (N,) bool; None for all."""
    if among not in get_args(Among):
        raise ValueError(f"among is {among!r}; it must be 'all', 'right' or 'wrong'.")
    return {"all": None, "right": stats.correct, "wrong": ~stats.correct}[among]
