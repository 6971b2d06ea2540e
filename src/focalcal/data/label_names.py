"""Labels as text: the classes that they name, in order, and their numbers."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def sort_names(labels: Iterable[str]) -> tuple[str, ...]:
    """List the different labels: whole numbers by their value, then names by the alphabet.

    Examples:
        >>> sort_names(["10", "9", "cat", "10", "ant"])
        ('9', '10', 'ant', 'cat')
    """
    return tuple(sorted(set(labels), key=_order))


def number_labels(labels: Sequence[str], names: Sequence[str], where: str, source: str) -> Tensor:
    """Number the labels by their places among the names: (N,) int64.

    Args:
        labels: N labels.
        names: K names.
        where: Place of the labels, for messages; rows are counted from 1.
        source: Place of the names, for messages.

    Examples:
        >>> number_labels(["cat", "ant"], ["ant", "cat"], "val", "train")
        tensor([1, 0])
        >>> number_labels(["cow"], ["ant", "cat"], "val", "train")
        Traceback (most recent call last):
        ...
        ValueError: val, row 1: the label 'cow' does not occur in train; correct it, or add training samples with it.
    """
    numbers = {name: number for number, name in enumerate(names)}
    for row, label in enumerate(labels, start=1):
        if label not in numbers:
            raise ValueError(
                f"{where}, row {row}: the label {label!r} does not occur in {source}; correct it, or add training "
                "samples with it."
            )
    return torch.tensor([numbers[label] for label in labels], dtype=torch.int64)


def _order(label: str) -> tuple[int, int, str]:
    digits = label.removeprefix("-")
    return (0, int(label), label) if digits.isascii() and digits.isdigit() else (1, 0, label)
