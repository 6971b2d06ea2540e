"""Scorers: metrics of calibration for ``scoring=`` of cross-validation and grid search."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from focalcal import metrics
from focalcal.base.suggestions import did_you_mean
from focalcal.integrations.sklearn.labelled import check_weight, make_predictions
from focalcal.metrics.catalogue import METRICS


def _measure(
    metric: str, y_true: Any, y_prob: Any, *, classes: Any, sample_weight: Any = None, **options: Any
) -> float:
    """Measure probabilities whose columns stand for these classes."""
    weights = None if sample_weight is None else check_weight(sample_weight, len(y_prob))
    preds = make_predictions(y_prob, "probs", y_true, classes=np.asarray(classes), sample_weight=weights)
    function: Callable[..., float] = getattr(metrics, metric)
    return float(function(preds, **options))


# What make_scorer makes: scikit-learn passes sample weights on to these, and treats other functions differently.
_Scorer: Any = type(make_scorer(_measure))


class MetricScorer(_Scorer):  # type: ignore[misc]
    """A metric of focalcal as a scorer of scikit-learn: called with a fitted classifier, samples and labels.

    Higher is better, as scikit-learn wants it: a metric of which lower is better is negated. It is what ``make_scorer``
    makes, except that it asks the classifier which class each column stands for, so that a fold without some class is
    measured like any other, and that it takes both columns of two classes, since 1 − p loses the digits of a small p.
    With metadata routing, ``MetricScorer("nll").set_score_request(sample_weight=True)`` asks for weights.

    Args:
        metric: A name in ``focalcal.metrics.METRICS``, such as "ece".
        options: Options of the metric's function, such as ``bins=25``.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> scorer = MetricScorer("ece", bins=10)
        >>> round(scorer(LogisticRegression(max_iter=500).fit(X, y), X, y), 3)
        -0.071
    """

    def __init__(self, metric: str, **options: Any) -> None:
        if metric not in METRICS:
            raise ValueError(f"There is no metric {metric!r}{did_you_mean(metric, METRICS)}")
        better = METRICS[metric].better
        if better is None:
            raise ValueError(f"Neither high nor low values of {metric} are better, so it cannot be a score.")
        super().__init__(partial(_measure, metric), 1 if better == "higher" else -1, options, "predict_proba")
        self.metric = metric
        self.options = options

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any) -> float:
        """Measure a classifier that has ``predict_proba``; all of scikit-learn's ways to a score lead here."""
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(estimator).__name__} has no predict_proba, which {self!r} needs; calibrate it with "
                "CalibratedClassifier."
            )
        score = self._score_func(
            y_true, estimator.predict_proba(X), classes=estimator.classes_, **self.options, **kwargs
        )
        return float(self._sign * score)

    def __repr__(self) -> str:
        name = self.metric if self._sign > 0 else f"neg_{self.metric}"
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"MetricScorer({name!r}{options})"


neg_ece = MetricScorer("ece")
"""Minus the expected calibration error, 15 bins."""
neg_ada_ece = MetricScorer("ada_ece")
"""Minus the adaptive ECE, over bins of equal mass."""
neg_classwise_ece = MetricScorer("classwise_ece")
"""Minus the mean calibration error of the classes."""
neg_smooth_ece = MetricScorer("smooth_ece")
"""Minus the smooth calibration error, which has no bins."""
neg_nll = MetricScorer("nll")
"""Minus the negative log-likelihood, in nats: a proper score."""
neg_brier = MetricScorer("brier")
"""Minus the Brier score: a proper score."""
