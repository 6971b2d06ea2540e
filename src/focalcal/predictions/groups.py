"""Groups and clusters of samples: which region or month each belongs to, and which image, sentence or user.

A column of groups is kept as a number per sample and a name per number, so that millions of samples of a few groups
take little room. Clusters are numbers alone: samples of one cluster depend on each other, and intervals count clusters.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.predictions.description import check_text

# The column of groups that says which class each answer named, where predictions are pairs of confidence and correct.
PREDICTED = "predicted"
_MOST_DIGITS = 18  # of a whole number that int64 holds; hashes have fewer


@dataclass(frozen=True, eq=False)
class GroupColumn:
    """The group of each of N samples.

    Attributes:
        codes: (N,) int64, the position of each sample's group in ``names``.
        names: Names of the groups, all different; some may have no sample, as after selecting rows.

    Examples:
        >>> column = GroupColumn.from_values(["north", "south", "north"], "region")
        >>> column.names, column.codes.tolist(), column.counts()
        (('north', 'south'), [0, 1, 0], {'north': 2, 'south': 1})
    """

    codes: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.codes.ndim != 1 or self.codes.dtype != torch.int64:
            raise ValueError("codes must be (N,) int64; use GroupColumn.from_values.")

    @classmethod
    def from_values(cls, values: Any, name: str) -> "GroupColumn":
        """Make a column from text, whole numbers, booleans or dates, one per sample.

        Names are in ascending order, and whole numbers in text are ordered as numbers.
        """
        if isinstance(values, GroupColumn):
            return values
        array = _plain_array(values, name)
        found, codes = np.unique(array, return_inverse=True)
        names = tuple(str(group) for group in found.tolist())
        check_text("\n".join(names), f"a group of {name!r}")
        numbers = torch.from_numpy(codes.reshape(-1).astype(np.int64))
        ordered = ordered_names(names)
        if ordered != names:
            place = {group: position for position, group in enumerate(ordered)}
            numbers = torch.tensor([place[group] for group in names])[numbers]
        return cls(numbers, ordered)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: slice | Tensor) -> "GroupColumn":
        return GroupColumn(self.codes[index], self.names)

    def texts(self) -> list[str]:
        """Return the group of each sample as text."""
        return [self.names[code] for code in self.codes.tolist()]

    def counts(self) -> dict[str, int]:
        """Return the number of samples of each group that has any, in the order of the names."""
        counted = torch.bincount(self.codes, minlength=len(self.names)).tolist()
        return {name: count for name, count in zip(self.names, counted, strict=True) if count}

    def repeat(self, times: int) -> "GroupColumn":
        """Give every position of a sample the sample's group."""
        return GroupColumn(self.codes.repeat_interleave(times), self.names)

    @staticmethod
    def join(pieces: Sequence["GroupColumn"]) -> "GroupColumn":
        """Put columns one after another; their names may differ."""
        if all(piece.names == pieces[0].names for piece in pieces):
            return GroupColumn(torch.cat([piece.codes for piece in pieces]), pieces[0].names)
        names = ordered_names({name for piece in pieces for name in piece.names})
        place = {name: position for position, name in enumerate(names)}
        codes = [torch.tensor([place[name] for name in piece.names])[piece.codes] for piece in pieces]
        return GroupColumn(torch.cat(codes), names)


Groups = Mapping[str, GroupColumn]


def ordered_names(names: Collection[str]) -> tuple[str, ...]:
    """Sort names, and numbers as numbers."""
    if not all(name.isascii() and name.isdecimal() for name in names):
        return tuple(sorted(names))
    # Text of thousands of digits cannot be made a number.
    return tuple(sorted(sorted(names), key=lambda name: (len(name.lstrip("0")), name.lstrip("0"))))


def convert_groups(groups: Mapping[str, Any] | None, shape: tuple[int, ...]) -> dict[str, GroupColumn]:
    """Check columns of groups, of one entry per sample or per position, and give every row its group.

    Args:
        groups: Columns by their names.
        shape: (N, d1, ...) of the outputs without their classes.
    """
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise TypeError(f"groups must be columns by name, such as {{'region': [...]}}, not {type(groups).__name__}.")
    columns: dict[str, GroupColumn] = {}
    for name, values in groups.items():
        check_text(name, "the name of a column of groups")
        column = GroupColumn.from_values(values, name)
        columns[str(name)] = column.repeat(_repeats(len(column), shape, f"groups {name!r} have"))
    return columns


def convert_clusters(clusters: Any, shape: tuple[int, ...], first: int = 0) -> Tensor | None:
    """Number the clusters: as given, or by sample where a sample has several positions, or not at all.

    Args:
        clusters: One whole number or text per sample or per position, or None.
        shape: (N, d1, ...) of the outputs without their classes.
        first: Number of samples before these.
    """
    if clusters is None:
        if len(shape) == 1:
            return None
        return torch.arange(first, first + shape[0]).repeat_interleave(prod(shape[1:]))
    array = _plain_array(clusters, "clusters")
    if array.dtype.kind == "U":
        names, codes = np.unique(array, return_inverse=True)
        array = number_texts(names.tolist())[codes]
    numbers = torch.from_numpy(array.reshape(-1).astype(np.int64))
    return numbers.repeat_interleave(_repeats(len(numbers), shape, "clusters have"))


def number_texts(texts: Sequence[str]) -> np.ndarray:
    """Give each text a number that does not depend on the others: its own, if it is a whole number, or else a hash.

    So clusters that are named keep their numbers from block to block and from file to file.

    Examples:
        >>> number_texts(["12", "-3"]).tolist(), bool((number_texts(["u1"]) == number_texts(["u2", "u1"])[1:]).all())
        ([12, -3], True)
    """
    return np.array([int(text) if _is_whole(text) else _hash(text) for text in texts], dtype=np.int64)


def _is_whole(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and text.removeprefix("-").isdecimal() and str(int(text)) == text


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little", signed=True)


def _repeats(length: int, shape: tuple[int, ...], what: str) -> int:
    if length == prod(shape):
        return 1
    if length == shape[0]:
        return prod(shape[1:])
    raise ValueError(f"The {what} {length} entries for {shape[0]} samples; pass one per sample.")


def _plain_array(values: Any, name: str) -> np.ndarray:
    """Return text or whole numbers, (N,)."""
    if isinstance(values, str | bytes):
        raise TypeError(f"The column {name!r} must have one entry per sample, not one string.")
    array = values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 0:
        raise ValueError(f"The column {name!r} must have one entry per sample.")
    array = array.reshape(-1)
    if array.dtype.kind == "O":
        _refuse_missing(np.array([value is None or value != value for value in array.tolist()]), name)
        array = np.array([_text(value) for value in array.tolist()], dtype=np.str_)
    if array.dtype.kind == "f":
        _refuse_missing(np.isnan(array), name)
        if not (array == np.round(array)).all():
            raise ValueError(
                f"The column {name!r} holds fractions; groups are text or whole numbers, so bin them first."
            )
        array = array.astype(np.int64)
    if array.dtype.kind in "bMm":
        _refuse_missing(np.isnat(array) if array.dtype.kind in "Mm" else np.zeros(len(array), np.bool_), name)
        array = array.astype(np.str_)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "iuU":
        raise TypeError(f"The column {name!r} is of type {array.dtype}; groups are text or whole numbers.")
    return array


def _refuse_missing(missing: np.ndarray, name: str) -> None:
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(f"The column {name!r} has no value in row {row}; fill it or leave the row out.")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
