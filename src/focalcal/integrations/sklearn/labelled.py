"""Predictions from what scikit-learn has: scores, labels of any type, and the classes that columns stand for."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from focalcal.calibrators import Calibrator
from focalcal.predictions import Predictions
from focalcal.predictions.rows import Kind

Array = npt.NDArray[Any]

BINARY_METHODS = ("beta", "platt", "quadratic")


def two_columns(values: Any, kind: Kind) -> Array:
    """Return (N, K) scores; one number for two classes becomes the two columns that it stands for."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] > 1:
        return array
    column = array.reshape(-1)
    return np.column_stack([np.zeros_like(column) if kind == "logits" else 1 - column, column])


def make_predictions(
    values: Any, kind: Kind, y: Any = None, *, classes: Array | None = None, sample_weight: Any = None
) -> Predictions:
    """Join scores with labels, which are looked up in the classes; without labels, with class 0 for every sample.

    Args:
        values: (N,) or (N, K), logits or probabilities.
        kind: What the values are.
        y: (N,) labels of any type.
        classes: (K,) the class that each column stands for.
        sample_weight: (N,), or None.
    """
    scores = two_columns(values, kind)
    labels = np.zeros(len(scores), dtype=np.int64)
    if y is not None and classes is not None:
        check_consistent_length(scores, y)
        labels = encode(y, classes)
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probs
    return make(scores, labels, weights=None if sample_weight is None else check_weight(sample_weight, len(scores)))


def encode(y: Any, classes: Array) -> npt.NDArray[np.int64]:
    """Return the place of each label among the classes."""
    labels = column_or_1d(y)
    places = {label: place for place, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in places})
    if unknown:
        raise ValueError(f"The label {unknown[0]!r} is not one of the classes, {_list_classes(classes)}.")
    return np.array([places[label] for label in labels.tolist()], dtype=np.int64)


def check_labels(y: Any) -> tuple[Array, Array]:
    """Return the classes in order, and the labels as one column of them.

    Raises:
        ValueError: y is not a column of labels, or has fewer than two classes.
    """
    labels = column_or_1d(y, warn=True)
    if len(labels) == 0:
        raise ValueError("There are no samples; pass at least two, of different classes.")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"At least two classes are needed, and y has only one class, {classes.tolist()[0]!r}.")
    return classes, labels


def check_weight(sample_weight: Any, samples: int) -> npt.NDArray[np.float64]:
    """Return weights as (N,) float64, or refuse another shape."""
    weights: npt.NDArray[np.float64] = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (samples,):
        raise ValueError(f"sample_weight has shape {weights.shape}; pass one weight per sample, shape ({samples},).")
    if not weights.any():
        raise ValueError("Every sample_weight is zero; at least one sample must count.")
    return weights


def check_two_classes(method: str | Calibrator, classes: Array) -> None:
    """Refuse a method that is for two classes where there are more."""
    name = getattr(method, "method", method)
    if name in BINARY_METHODS and len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass: {name} is for two "
            f"classes, and y has {len(classes)}; use another method."
        )


def _list_classes(classes: Array) -> str:
    names = [repr(label) for label in classes.tolist()]
    return ", ".join(names if len(names) <= 10 else [*names[:9], "…", names[-1]])
