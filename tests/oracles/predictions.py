"""Slow, obvious versions of how outputs become rows; predictions of every shape for hypothesis; exact equality."""

import math
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from focalcal.predictions import Predictions

FORMATS = (".safetensors", ".npz", ".parquet", ".csv")

# Everything a file must be able to carry; NUL and lone surrogates are refused on entry.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def same(a: Predictions, b: Predictions) -> bool:
    """Whether two predictions agree bit for bit, in everything that they hold."""
    described = ("kind", "of", "ids", "split", "class_names", "masked_classes", "provenance")
    tensors = ("values", "labels_or_none", "weights", "clusters")
    return (
        all(getattr(a, name) == getattr(b, name) for name in described)
        and all(_same_tensor(getattr(a, name), getattr(b, name)) for name in tensors)
        and {name: column.texts() for name, column in a.groups.items()}
        == {name: column.texts() for name, column in b.groups.items()}
    )


def _same_tensor(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def flattened_rows(values: Any, labels: Any, ignore_index: int) -> tuple[list[list[float]], list[Any]]:
    """One row a position of (N, K, d1, ...) values, samples first, without those whose label is ignored."""
    outputs, targets = np.asarray(values, np.float64), np.asarray(labels)
    soft = targets.ndim == outputs.ndim
    rows, kept = [], []
    for sample in range(outputs.shape[0]):
        for position in np.ndindex(outputs.shape[2:]):
            label = targets[(sample, slice(None), *position)] if soft else targets[(sample, *position)]
            if soft or label != ignore_index:
                rows.append([float(outputs[(sample, k, *position)]) for k in range(outputs.shape[1])])
                kept.append(label.tolist())
    return rows, kept


def softmax(row: list[float]) -> list[float]:
    """exp(z_k) / sum_j exp(z_j)."""
    exponentials = [math.exp(z - max(row)) for z in row]
    return [e / math.fsum(exponentials) for e in exponentials]


@st.composite
def any_predictions(draw: st.DrawFn, max_samples: int = 6) -> Predictions:
    """Logits or probabilities, float32 or float64, with and without every optional part."""
    samples, classes = draw(st.integers(1, max_samples)), draw(st.integers(2, 5))
    kind = draw(st.sampled_from(["logits", "probs"]))
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probs
    values = draw(_logits(samples, classes) if kind == "logits" else probability_rows(samples, classes))
    return make(
        values,
        draw(st.none() | _labels(samples, classes)),
        labels_are="counts",
        of=draw(st.sampled_from(["top", "score"])) if classes == 2 else None,
        groups=draw(
            st.dictionaries(texts.filter(bool), st.lists(texts, min_size=samples, max_size=samples), max_size=2)
        ),
        clusters=draw(st.none() | hnp.arrays(np.int64, samples, elements=st.integers(-9, 9))),
        weights=draw(st.none() | _weights(samples)),
        ids=draw(st.none() | st.lists(texts, min_size=samples, max_size=samples, unique=True)),
        split=draw(st.none() | texts),
        class_names=draw(st.none() | st.lists(texts, min_size=classes, max_size=classes)),
        masked_classes=draw(st.sets(st.integers(0, classes - 1), max_size=classes - 2)),
        provenance=draw(st.dictionaries(texts, texts, max_size=2)),
    )


@st.composite
def probability_rows(draw: st.DrawFn, samples: int, classes: int) -> np.ndarray:
    """Rows of any float type, normalised in double precision and then rounded."""
    positive = draw(hnp.arrays(np.float64, (samples, classes), elements=st.floats(1e-6, 1)))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    return (positive / positive.sum(axis=1, keepdims=True)).astype(dtype)


def _logits(samples: int, classes: int) -> st.SearchStrategy[np.ndarray]:
    def finite_first_column(array: np.ndarray) -> np.ndarray:
        array[:, 0] = np.where(np.isneginf(array[:, 0]), 0, array[:, 0])
        return array

    types = st.sampled_from([np.float32, np.float64])
    arrays = types.flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            (samples, classes),
            elements=st.floats(allow_nan=False, allow_infinity=False, width=np.dtype(dtype).itemsize * 8)
            | st.just(-math.inf),
        )
    )
    return arrays.map(finite_first_column)


def _labels(samples: int, classes: int) -> st.SearchStrategy[np.ndarray]:
    hard = hnp.arrays(np.int64, samples, elements=st.integers(0, classes - 1))
    counts = hnp.arrays(np.int64, (samples, classes), elements=st.integers(1, 50))
    return hard | counts | probability_rows(samples, classes)


def _weights(samples: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, samples, elements=st.floats(0, 1e6)).filter(lambda weights: weights.sum() > 0)
