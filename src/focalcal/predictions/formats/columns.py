"""Which columns of a table belong together: ``logits``, or ``logits_0``, ``logits_1`` ..., or ``logits:cat`` ...."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from focalcal.predictions.options import Choices, Key


@dataclass(frozen=True)
class Field:
    """Columns that are one part of predictions.

    Args:
        columns: their positions in the table, in the order of the classes.
        class_names: the names of the classes, where the columns' names say them.
        single: whether it is one column that stands by itself: a number or a list in each row.
    """

    columns: tuple[int, ...]
    class_names: tuple[str, ...] | None = None
    single: bool = False


def find_fields(names: Sequence[str], choices: Choices) -> dict[Key, Field]:
    """Group the columns by the names that the parts of predictions may go by."""
    fields: dict[Key, Field] = {}
    for key in choices.column_keys():
        if key in names:
            fields[key] = _single(names, key)
    for matrix_key in choices.matrix_keys():
        field = _prefixed(names, matrix_key) if isinstance(matrix_key, str) else _listed(names, matrix_key)
        if field is not None:
            fields[matrix_key] = field
    return fields


def _prefixed(names: Sequence[str], key: str) -> Field | None:
    pattern = re.compile(re.escape(key) + r"_(\d{1,9})")
    matches = {position: match for position, name in enumerate(names) if (match := pattern.fullmatch(name))}
    numbered = {position: int(match[1]) for position, match in matches.items()}
    named = [position for position, name in enumerate(names) if name.startswith(f"{key}:")]
    if (key in names) + bool(numbered) + bool(named) > 1:
        raise ValueError(f"it has {key!r} in several layouts; keep one of {key}, {key}_0 ..., {key}:name ....")
    if key in names:
        return _single(names, key)
    if numbered:
        return _numbered(numbered, key)
    if named:
        return Field(tuple(named), tuple(names[position].removeprefix(f"{key}:") for position in named))
    return None


def _single(names: Sequence[str], name: str) -> Field:
    if list(names).count(name) > 1:
        raise ValueError(f"it has several columns {name!r}; rename all but one.")
    return Field((list(names).index(name),), single=True)


def _numbered(numbers: dict[int, int], key: str) -> Field:
    order = sorted(numbers, key=lambda position: numbers[position])
    if [numbers[position] for position in order] != list(range(len(order))):
        raise ValueError(f"its columns {key}_... are not numbered 0 to {len(order) - 1}; number them so.")
    return Field(tuple(order))


def _listed(names: Sequence[str], key: Sequence[str]) -> Field | None:
    """Columns that were named one by one; their names are the classes'."""
    if not all(name in names for name in key):
        return None
    columns = tuple(_single(names, name).columns[0] for name in key)
    return Field(columns, tuple(key))
