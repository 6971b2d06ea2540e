"""Out-of-distribution detection: how well uncertainty tells unknown data from data that the model was made for.

Everywhere the out-of-distribution samples are the positives, and a higher score means "out": the score is the entropy
of the predicted distribution, or minus the confidence.
"""

from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch

from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from focalcal.predictions.masking import answer_classes

Score = Literal["entropy", "confidence"]


class OodEvaluation(NamedTuple):
    """Both measures of one comparison.

    Attributes:
        auroc: Area under the ROC curve, 0.5 for chance.
        fpr_at_tpr: Share of in-distribution samples that are flagged when at least `tpr` of the others are.
        tpr: That share of the out-of-distribution samples.
        score: The score that was compared.
    """

    auroc: float
    fpr_at_tpr: float
    tpr: float
    score: Score


def ood_auroc(in_distribution: Predictions, out_of_distribution: Predictions, *, score: Score = "entropy") -> float:
    """Probability that an out-of-distribution sample has the higher score, plus half that of a tie.

    Args:
        in_distribution: Predictions on data like the training data.
        out_of_distribution: Predictions of the same model on other data. Labels do not matter: any valid one will do,
            for example zeros.
        score: "entropy" of the softmax, as in the paper, or "confidence" (its negative).

    Returns:
        The area under the ROC curve, between 0 and 1; above 0.5 if the model is less certain out of distribution.

    Examples:
        >>> inside = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], [0, 0])
        >>> outside = Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]], [0, 0])
        >>> ood_auroc(inside, outside)  # of four pairs three are in order and one is a tie
        0.875
    """
    return RocCurve.of(in_distribution, out_of_distribution, score).area()


def fpr_at_tpr(
    in_distribution: Predictions, out_of_distribution: Predictions, *, tpr: float = 0.95, score: Score = "entropy"
) -> float:
    """Smallest share of in-distribution samples flagged by a threshold that flags at least `tpr` of the others.

    Arguments as in `ood_auroc`, and `tpr` in (0, 1]. A threshold flags every sample with that score or a higher one:
    there is no interpolation between thresholds. (Where in-distribution data is called positive, it is another number.)

    Examples:
        >>> inside = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], [0, 0])
        >>> outside = Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]], [0, 0])
        >>> fpr_at_tpr(inside, outside)
        0.5
    """
    return ood_evaluate(in_distribution, out_of_distribution, score=score, tpr=tpr).fpr_at_tpr


def ood_evaluate(
    in_distribution: Predictions, out_of_distribution: Predictions, *, score: Score = "entropy", tpr: float = 0.95
) -> OodEvaluation:
    """Compute `ood_auroc` and `fpr_at_tpr` from one pass over the predictions."""
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr must be above 0 and at most 1, not {tpr}: it is the share of samples to be found.")
    curve = RocCurve.of(in_distribution, out_of_distribution, score)
    return OodEvaluation(curve.area(), curve.false_rate_at(tpr), tpr, score)


def auroc_interval(
    inside: Predictions, outside: Predictions, *, score: Score = "entropy", level: float = 0.90
) -> tuple[float, float] | None:
    """Compute DeLong's interval of `ood_auroc`: the AUROC is a mean over either set, whose spread the samples show.

    Arguments as in `ood_auroc`, and the level of the interval.

    Returns:
        Its ends; None where samples have weights or are in clusters, a set has one sample only, or no pair is out of
        order (or every one is), so that the samples show no spread.
    """
    from scipy.stats import norm, rankdata  # importing it takes a while

    _check(inside, outside, score)
    if any(one.weights is not None or one.clusters is not None or len(one) < 2 for one in (inside, outside)):
        return None
    scores = [uncertainty(one, score) for one in (outside, inside)]
    ranks = np.split(rankdata(np.concatenate(scores)), [len(scores[0])])
    # For each sample the share of the other set that it is above, ties half.
    shares = [(ranks[place] - rankdata(scores[place])) / len(scores[1 - place]) for place in (0, 1)]
    auroc = float(shares[0].mean())
    error = float(np.sqrt(sum(one.var(ddof=1) / len(one) for one in shares)))
    reach = float(norm.ppf((1 + level) / 2)) * error
    return (max(0.0, auroc - reach), min(1.0, auroc + reach)) if error else None


class RocCurve(NamedTuple):
    """Shares of both kinds of samples that each threshold flags, from the highest threshold down."""

    false_rates: npt.NDArray[np.float64]
    true_rates: npt.NDArray[np.float64]

    @classmethod
    def of(cls, inside: Predictions, outside: Predictions, score: Score = "entropy") -> "RocCurve":
        """Return the curve of two sets of predictions of one model."""
        from sklearn.metrics import roc_curve  # importing scikit-learn takes a second

        _check(inside, outside, score)
        scores = np.concatenate([uncertainty(inside, score), uncertainty(outside, score)])
        is_out = np.repeat([False, True], [len(inside), len(outside)])
        # Points on a straight piece of the curve are thresholds too: keep them.
        false_rates, true_rates, _ = roc_curve(
            is_out, scores, sample_weight=_join_weights(inside, outside), drop_intermediate=False
        )
        return cls(false_rates, true_rates)

    def area(self) -> float:
        """Return the area under the curve (AUROC)."""
        from sklearn.metrics import auc

        return float(auc(self.false_rates, self.true_rates))

    def false_rate_at(self, tpr: float) -> float:
        """Return the smallest share of false alarms at which at least ``tpr`` of the positives are found."""
        # Weighted rates are running sums, which may miss the share that they are meant to reach by their rounding.
        return float(self.false_rates[np.argmax(self.true_rates >= tpr - 1e-12)])


def uncertainty(preds: Predictions, score: Score = "entropy") -> npt.NDArray[np.float64]:
    """Return (N,) float64: how little the model trusts itself, by entropy in nats or by minus its confidence."""
    if bool((preds.values.isnan() | (preds.values == torch.inf)).any()):
        raise ValueError("The predictions hold NaN or +inf; make them with Predictions.from_logits or from_probs.")
    if preds.masked_classes:  # a label does not matter, so it may be one that could not be an answer
        preds = replace(preds, labels_or_none=torch.full((len(preds),), answer_classes(preds)[0]))
    statistics = sample_statistics(preds)
    values = statistics.entropy if score == "entropy" else -statistics.confidence
    return np.asarray(values.numpy(), dtype=np.float64)


def _check(inside: Predictions, outside: Predictions, score: Score) -> None:
    if score not in get_args(Score):
        raise ValueError(f'score must be "entropy" or "confidence", not {score!r}.')
    for name, preds in (("in-distribution", inside), ("out-of-distribution", outside)):
        if len(preds) == 0:
            raise ValueError(f"There are no {name} predictions: both sets need at least one sample.")
        if preds.weights is not None and not bool((preds.weights > 0).any()):
            raise ValueError(f"Every {name} sample has weight 0: both sets need one with a positive weight.")
    if inside.num_classes != outside.num_classes:
        raise ValueError(
            f"The in-distribution predictions have {inside.num_classes} classes and the others {outside.num_classes}: "
            "pass outputs of the same model."
        )
    if inside.masked_classes != outside.masked_classes:
        raise ValueError("The two sets of predictions have other masked classes: pass outputs of the same model.")


def _join_weights(inside: Predictions, outside: Predictions) -> npt.NDArray[np.float64] | None:
    if inside.weights is None and outside.weights is None:
        return None
    parts = [torch.ones(len(p), dtype=torch.float64) if p.weights is None else p.weights for p in (inside, outside)]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)
