"""Scorers: metrics of calibration for ``scoring=`` of cross-validation and grid search."""

from collections.abc import Callable
from typing import Any

import numpy as np

from focalcal import metrics
from focalcal.base.suggestions import did_you_mean
from focalcal.integrations.sklearn.labelled import check_weight, make_predictions
from focalcal.metrics.catalogue import METRICS


class MetricScorer:
    """A metric of focalcal as a scorer: called with a fitted classifier, samples and labels, it gives a number.

    Higher is better, as scikit-learn wants it: a metric of which lower is better is negated. Unlike a scorer of
    ``make_scorer`` it asks the classifier which class a column stands for, so that a fold in which a class is missing
    is measured like any other.

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
        if METRICS[metric].better is None:
            raise ValueError(f"Neither high nor low values of {metric} are better, so it cannot be a score.")
        self.metric = metric
        self.options = options

    @property
    def sign(self) -> int:
        """1 where higher values of the metric are better, −1 where lower ones are."""
        return 1 if METRICS[self.metric].better == "higher" else -1

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Measure a classifier that has ``predict_proba``."""
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(estimator).__name__} has no predict_proba, which {self!r} needs; calibrate it with "
                "CalibratedClassifier."
            )
        probs, classes = estimator.predict_proba(X), np.asarray(estimator.classes_)
        weights = None if sample_weight is None else check_weight(sample_weight, len(probs))
        preds = make_predictions(probs, "probs", y, classes=classes, sample_weight=weights)
        function: Callable[..., float] = getattr(metrics, self.metric)
        return self.sign * float(function(preds, **self.options))

    def __repr__(self) -> str:
        name = self.metric if self.sign > 0 else f"neg_{self.metric}"
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
