"""Labels in text: names of classes, or true and false, become numbers.

Text is matched with the names of the classes where these are known. Otherwise the classes are the different texts in
the order of the alphabet, as scikit-learn has them, if there are as many as columns; and for a single column, which is
the score of an event, the caller says which text is that event.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from focalcal.predictions.checks import Where
from focalcal.predictions.description import check_text

_TRUTH = {"true": 1, "false": 0}
_SHOWN = 8


@dataclass(frozen=True)
class LabelNames:
    """Names of classes in text labels.

    Attributes:
        numbers: The class of each text.
        names: Names of the classes, in the order of the columns; None where text is true and false.
        rest: The class of any other text, or None where there must not be any.

    Examples:
        >>> LabelNames.find({"dog", "cat"}, columns=2).convert(["dog", "cat", "dog"]).tolist()
        [1, 0, 1]
    """

    numbers: Mapping[str, int]
    names: tuple[str, ...] | None = None
    rest: int | None = None

    @classmethod
    def find(
        cls,
        texts: Iterable[str],
        columns: int,
        class_names: Sequence[str] | None = None,
        positive: int | str | None = None,
    ) -> "LabelNames":
        """Find out what the different texts of a set of labels stand for.

        Args:
            texts: Every text that occurs, or none where ``class_names`` are given.
            columns: Number of columns of outputs: 1 for a score.
            class_names: Names of the classes, if they are known.
            positive: The text that the score of a single column is of.
        """
        if class_names is not None:
            numbers = {name: number for number, name in enumerate(class_names)}
            if len(numbers) < len(class_names):
                raise ValueError("The labels are text, and two classes have the same name; pass labels as numbers.")
            return cls(numbers, tuple(class_names))
        found = sorted(texts)
        if columns <= 2 and {text.lower() for text in found} <= set(_TRUTH):
            return cls({text: _TRUTH[text.lower()] for text in found}, rest=None)
        for text in found:
            check_text(text, "a label")
        if columns == 1:
            return cls._for_score(found, positive)
        if len(found) != columns:
            raise ValueError(
                f"The labels are text with {len(found)} different values ({_listing(found)}) for {columns} columns; "
                "pass class_names in the order of the columns."
            )
        return cls({name: number for number, name in enumerate(found)}, tuple(found))

    @classmethod
    def _for_score(cls, found: list[str], positive: int | str | None) -> "LabelNames":
        if positive is None:
            raise ValueError(
                f"The labels are text ({_listing(found)}), and one column is the score of one of them; say of which "
                "with positive_class."
            )
        if positive not in found:
            raise ValueError(f"No label is {positive!r}, which positive_class names; they are {_listing(found)}.")
        others = [text for text in found if text != positive]
        name = others[0] if len(others) == 1 else f"not {positive}"
        return cls({str(positive): 1}, (name, str(positive)), rest=0)

    def convert(self, labels: Any, where: Where | None = None) -> np.ndarray:
        """Return the classes as int64, in the shape of the labels; raises for text that stands for none."""
        array = np.asarray(labels)
        flat = [label_text(label) for label in array.reshape(-1).tolist()]
        rest = -1 if self.rest is None else self.rest
        numbers = np.fromiter((self.numbers.get(text, rest) for text in flat), np.int64, len(flat))
        for row in np.flatnonzero([not text for text in flat])[:1].tolist():
            raise ValueError(f"The label of {(where or Where())(row)} is missing; fill it, or leave the row out.")
        for row in np.flatnonzero(numbers < 0)[:1].tolist():
            raise ValueError(
                f"The label of {(where or Where())(row)} is {flat[row]!r}, which is not the name of a class "
                f"({_listing(list(self.numbers))})."
            )
        return numbers.reshape(array.shape)


@dataclass
class TextsSoFar:
    """The different texts of labels that are read in blocks."""

    texts: set[str] = field(default_factory=set)

    def add(self, labels: Any) -> None:
        """Add a block of labels."""
        self.texts |= {label_text(label) for label in np.unique(_as_text(labels)).tolist()}


def is_text(labels: Any) -> bool:
    """Return whether labels are text (or Python objects that only text can be made of), not numbers."""
    if labels is None or isinstance(labels, Tensor):
        return False
    array = labels if isinstance(labels, np.ndarray) else np.asarray(labels)
    return array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(label, str | bytes) for label in array.reshape(-1).tolist())
    )


def name_labels(
    labels: Any, columns: int, class_names: Sequence[str] | None, positive: int | str | None
) -> tuple[Any, Sequence[str] | None]:
    """Return labels as numbers, and the names of the classes, where labels are text; otherwise both unchanged."""
    try:
        if not is_text(labels):
            return labels, class_names
    except ValueError:  # rows of different lengths, which the check of labels names
        return labels, class_names
    texts = TextsSoFar()
    texts.add(labels)
    named = LabelNames.find(texts.texts - {""}, columns, class_names, positive)
    return named.convert(labels), class_names if named.names is None else named.names


def _as_text(labels: Any) -> np.ndarray:
    array = np.asarray(labels)
    return array if array.dtype.kind in "US" else np.array([label_text(x) for x in array.reshape(-1).tolist()], np.str_)


def label_text(label: object) -> str:
    """Return a label as text, empty where it is missing."""
    if label is None or (isinstance(label, float) and np.isnan(label)):
        return ""
    return label.decode() if isinstance(label, bytes) else str(label)


def _listing(texts: list[str]) -> str:
    shown = ", ".join(repr(text) for text in texts[:_SHOWN])
    return shown + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")
