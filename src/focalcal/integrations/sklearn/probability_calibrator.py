"""Calibration of probabilities that somebody else computed: ``fit(p, y)``, ``predict_proba(p)``."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from focalcal.calibrators import Calibrator, build_calibrator
from focalcal.integrations.sklearn.labelled import BINARY_METHODS, check_labels, check_two_classes, make_predictions
from focalcal.predictions import Predictions
from focalcal.predictions.rows import Kind, check_kind

Array = npt.NDArray[np.float64]


class ProbabilityCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are the probabilities of another one: it gives calibrated ones.

    Args:
        method: A name, as for :func:`focalcal.build_calibrator`, or an unfitted calibrator.
        kind: What is calibrated: "probs", or "logits".
        classes: The class that each column stands for, in order; None where ``y`` has them all, sorted, or has whole
            numbers from 0 on, which are the columns.

    Attributes:
        classes_: (K,) the class of each column.
        calibrator_: The fitted calibrator; ``calibrator_.describe()`` says what it learned.
        n_features_in_: Number of columns.
        feature_names_in_: Names of the columns of a data frame.

    Examples:
        >>> p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.9]]
        >>> calibrator = ProbabilityCalibrator("temperature").fit(p, ["cat", "dog", "cat", "dog"])
        >>> calibrator.predict_proba([[0.8, 0.2]]).round(2)
        array([[0.74, 0.26]])
        >>> calibrator.predict([[0.8, 0.2]])
        array(['cat'], dtype='<U3')
    """

    def __init__(
        self, method: str | Calibrator = "auto", *, kind: Kind = "probs", classes: Sequence[Any] | None = None
    ) -> None:
        self.method = method
        self.kind = kind
        self.classes = classes

    def fit(self, p: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from probabilities (N, K), or (N,) of the second of two classes, and labels (N,) of any type."""
        check_kind(self.kind)
        p = self._check_scores(p, y, reset=True)
        found, labels = check_labels(y)
        check_two_classes(self.method, found)
        columns = 2 if p.ndim == 1 or p.shape[1] == 1 else p.shape[1]
        self.classes_ = _classes(self.classes, found, columns)
        preds = make_predictions(p, self.kind, labels, classes=self.classes_, sample_weight=sample_weight)
        self.calibrator_ = new_calibrator(self.method).fit(preds)
        return self

    def predict_proba(self, p: Any) -> Array:
        """Return calibrated probabilities (N, K)."""
        check_is_fitted(self)
        return calibrated_probs(self.calibrator_, make_predictions(self._check_scores(p), self.kind))

    def predict(self, p: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each sample."""
        check_is_fitted(self)
        labels: npt.NDArray[Any] = self.classes_[self.predict_proba(p).argmax(axis=1)]
        return labels

    def _check_scores(self, p: Any, y: Any = "no_validation", *, reset: bool = False) -> npt.NDArray[Any]:
        """Return finite float scores: one column (N,), or (N, K)."""
        values = np.asarray(p)
        if values.ndim == 1 and values.dtype.kind in "fiub" and (reset or self.n_features_in_ == 1):
            p = values.reshape(-1, 1)
        checked = validate_data(self, p, y, reset=reset, dtype=[np.float64, np.float32])
        scores: npt.NDArray[Any] = checked[0] if isinstance(checked, tuple) else checked
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = getattr(self.method, "method", self.method) not in BINARY_METHODS
        return tags


def new_calibrator(method: str | Calibrator) -> Calibrator:
    """Build a calibrator by its name, or copy one without what it has learned."""
    if isinstance(method, str):
        return build_calibrator(method)
    if not isinstance(method, Calibrator):
        raise TypeError(f"method must be the name of a calibrator or a calibrator, not {type(method).__name__}.")
    copied: Calibrator = clone(method)
    return copied


def calibrated_probs(calibrator: Calibrator, preds: Predictions) -> Array:
    """Return (N, K) calibrated probabilities that sum to 1 in float64."""
    probs: Array = calibrator.transform(preds).probs().double().numpy().copy()
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def _classes(given: Sequence[Any] | None, found: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """Say which class each column stands for."""
    if given is not None:
        classes = np.asarray(given)
        if classes.ndim != 1 or len(classes) != columns or len(set(classes.tolist())) != columns:
            raise ValueError(f"classes must be {columns} different labels, one per column; got {list(given)!r}.")
        return classes
    if len(found) == columns:
        return found
    # Without a 0 they may just as well be numbered from 1.
    if found.dtype.kind in "iu" and found.min() == 0 and found.max() < columns:
        return np.arange(columns)
    raise ValueError(
        f"There are {columns} columns and {len(found)} classes in y, so that it is not clear what the columns stand "
        "for; pass classes=[…], one label per column."
    )
