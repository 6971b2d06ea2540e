"""A classifier of scikit-learn, calibrated on the predictions that cross-validation makes of its own training data."""

import warnings
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from focalcal.calibrators import Calibrator
from focalcal.integrations.sklearn.labelled import (
    BINARY_METHODS,
    Array,
    check_labels,
    check_two_classes,
    check_weight,
    make_predictions,
    two_columns,
)
from focalcal.integrations.sklearn.probability_calibrator import calibrated_probs, new_calibrator
from focalcal.predictions.rows import Kind

Response = Literal["decision_function", "predict_proba"]

_KIND: dict[Response, Kind] = {"decision_function": "logits", "predict_proba": "probs"}
# A decision function is a logit if its softmax is what predict_proba gives, to this.
_SAME = 1e-6


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier and one calibrator, fitted on held-out predictions of all training samples.

    Each fold is predicted by a copy of the classifier that was trained on the others; the calibrator is fitted on these
    predictions, and the classifier then trained on everything. A classifier that is trained already is passed as
    ``FrozenEstimator(classifier)``; ``fit`` then takes other samples than those it was trained on.

    What is calibrated is the classifier's ``decision_function`` where that is a logit, that is where its softmax is
    ``predict_proba``, or where there is no ``predict_proba``; otherwise the logarithm of ``predict_proba``.

    Args:
        estimator: A classifier with ``predict_proba`` or ``decision_function``.
        method: A name, as for :func:`focalcal.build_calibrator`, or an unfitted calibrator.
        cv: Number of folds, a splitter, or an iterable of (train, test); samples that are in no test fold are not used
            to calibrate, and none may be in two. Not used for a frozen classifier.

    Attributes:
        classes_: (K,) labels, sorted.
        estimator_: The classifier, trained on all samples.
        calibrator_: The fitted calibrator.
        response_: "decision_function" or "predict_proba": what is calibrated.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, where a data frame had them.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> model = CalibratedClassifier(LogisticRegression(max_iter=500), "temperature").fit(X, y)
        >>> model.describe()
        'decision_function of LogisticRegression, calibrated by temperature: all logits are divided by T = 0.3423'
    """

    def __init__(self, estimator: Any, method: str | Calibrator = "auto", *, cv: Any = 5) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Train and calibrate.

        Args:
            X: (N, …) whatever the classifier takes; arrays, data frames and sparse matrices are passed on unchanged.
            y: (N,) labels of any type.
            sample_weight: (N,), for the classifier, if it takes weights, and the calibrator.
            groups: (N,), for a splitter that keeps groups together.
        """
        X, y, groups = indexable(X, y, groups)
        self.classes_, labels = check_labels(y)
        check_two_classes(self.method, self.classes_)
        weights = None if sample_weight is None else check_weight(sample_weight, len(labels))
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_ = self.estimator
            self._check_classes(self.estimator_, "The frozen classifier")
            self.response_ = choose_response(self.estimator_, X)
            scores, rows = self._scores(X), np.arange(len(labels))
        else:
            scores, rows = self._held_out_scores(X, labels, weights, groups)
            self.estimator_ = self._train(X, labels, weights)
        preds = make_predictions(
            scores[rows],
            _KIND[self.response_],
            labels[rows],
            classes=self.classes_,
            sample_weight=None if weights is None else weights[rows],
        )
        self.calibrator_ = new_calibrator(self.method).fit(preds)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return calibrated probabilities (N, K)."""
        check_is_fitted(self)
        return calibrated_probs(self.calibrator_, make_predictions(self._scores(X), _KIND[self.response_]))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each sample."""
        check_is_fitted(self)
        labels: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def describe(self) -> str:
        """Say in words what is calibrated and what was learned."""
        check_is_fitted(self)
        return (
            f"{self.response_} of {_name(self.estimator_)}, calibrated by {self.calibrator_.method}: "
            f"{self.calibrator_.describe()}"
        )

    def _held_out_scores(self, X: Any, labels: Array, weights: Array | None, groups: Any) -> tuple[Array, Array]:
        """Return scores (N, K), and the rows that have some."""
        self._check_folds(labels)
        scores, times = None, np.zeros(len(labels), dtype=np.int64)
        splitter = check_cv(self.cv, labels, classifier=True)
        for number, (train, test) in enumerate(splitter.split(X, labels, groups)):
            part = _safe_indexing(X, train)
            fold = self._train(part, labels[train], None if weights is None else weights[train])
            self._check_classes(fold, f"The classifier of fold {number}")
            held_out = _safe_indexing(X, test)
            if scores is None:
                self.response_ = choose_response(fold, held_out)
                scores = np.zeros((len(labels), len(self.classes_)))
            scores[test] = two_columns(getattr(fold, self.response_)(held_out), _KIND[self.response_])
            times[test] += 1
        if scores is None:
            raise ValueError(f"cv={self.cv!r} gives no folds; pass a number of at least 2, or a splitter.")
        if times.max() > 1:
            raise ValueError(
                f"Sample {int(times.argmax())} is in {times.max()} test folds; use a splitter that has each sample in "
                "at most one, such as KFold."
            )
        return scores, np.flatnonzero(times)

    def _check_folds(self, labels: Array) -> None:
        names, counts = np.unique(labels, return_counts=True)
        if isinstance(self.cv, int) and counts.min() < self.cv:
            raise ValueError(
                f"The class {names.tolist()[counts.argmin()]!r} has {counts.min()} samples, fewer than the {self.cv} "
                "folds; pass a smaller cv, or more samples of it."
            )

    def _train(self, X: Any, labels: Array, weights: Array | None) -> Any:
        copied = clone(self.estimator)
        if weights is None:
            return copied.fit(X, labels)
        if has_fit_parameter(copied, "sample_weight"):
            return copied.fit(X, labels, sample_weight=weights)
        warnings.warn(
            f"{type(copied).__name__} takes no sample_weight: the weights count for the calibrator only.",
            UserWarning,
            stacklevel=4,
        )
        return copied.fit(X, labels)

    def _check_classes(self, estimator: Any, what: str) -> None:
        if not hasattr(estimator, "classes_"):
            raise TypeError(f"{what}, {_name(estimator)}, has no classes_: it is not a classifier, or not trained.")
        known = set(np.asarray(estimator.classes_).tolist())
        missing = [label for label in self.classes_.tolist() if label not in known]
        if missing:
            raise ValueError(
                f"{what} has not been trained on the class {missing[0]!r}; every fold must have samples of every class."
            )
        if len(known) > len(self.classes_):
            extra = sorted(str(label) for label in known - set(self.classes_.tolist()))
            raise ValueError(f"{what} knows the class {extra[0]!r}, which is not in y; add samples of it.")

    def _scores(self, X: Any) -> Array:
        scores: Array = np.asarray(getattr(self.estimator_, self.response_)(X))
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        binary = getattr(self.method, "method", self.method) in BINARY_METHODS
        tags.classifier_tags.multi_class = not binary and inner.classifier_tags.multi_class
        return tags


def choose_response(estimator: Any, X: Any) -> Response:
    """Choose what is calibrated: a decision function that is a logit, or else probabilities.

    Raises:
        TypeError: The classifier has neither.
    """
    has_scores, has_probs = (hasattr(estimator, name) for name in ("decision_function", "predict_proba"))
    if has_scores and _is_one_vs_one(estimator):
        has_scores = False
    if has_scores and (not has_probs or _is_logit(estimator, X)):
        return "decision_function"
    if has_probs:
        return "predict_proba"
    raise TypeError(
        f"{_name(estimator)} has neither predict_proba nor a decision_function with one score per class, so "
        "there is no confidence to calibrate."
    )


def _name(estimator: Any) -> str:
    return type(estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator).__name__


def _is_one_vs_one(estimator: Any) -> bool:
    """Tell whether scores are of pairs of classes, which three classes have as many of as classes."""
    shapes = [
        value for name, value in estimator.get_params().items() if name.split("__")[-1] == "decision_function_shape"
    ]
    return "ovo" in shapes and len(getattr(estimator, "classes_", ())) > 2


def _is_logit(estimator: Any, X: Any) -> bool:
    scores, probs = np.asarray(estimator.decision_function(X)), np.asarray(estimator.predict_proba(X))
    if scores.ndim == 1:
        return bool(np.allclose(expit(scores), probs[:, 1], rtol=0, atol=_SAME))
    return scores.shape == probs.shape and bool(np.allclose(softmax(scores, axis=1), probs, rtol=0, atol=_SAME))
