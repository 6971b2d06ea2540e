"""The text that goes with predictions: ids, class names, split and provenance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor


def checked_ids(ids: Any) -> tuple[str, ...]:
    """Return ids as strings: integers are written in decimal, bytes are read as UTF-8."""
    if isinstance(ids, str | bytes):
        raise TypeError("ids must be a sequence with one id a sample, not one string.")
    listed = ids.tolist() if isinstance(ids, np.ndarray | Tensor) else list(ids)
    texts = tuple(i if type(i) is str else _id_text(i) for i in listed)
    check_text("\n".join(texts), "an id")
    return texts


def check_unique(ids: Sequence[str]) -> None:
    """Refuse an id that occurs twice."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name in seen:
            raise ValueError(duplicate_id(name, seen[name], row))
        seen[name] = row


def duplicate_id(name: str, first: int, second: int) -> str:
    """Say that an id occurs twice."""
    return (
        f"The id {name!r} occurs twice, in rows {first} and {second}; remove one, or pass allow_duplicate_ids=True "
        "if the same sample is meant to count twice."
    )


def checked_class_names(class_names: Sequence[str] | None, num_classes: int) -> tuple[str, ...] | None:
    """Return the names as a tuple, one a class. Equal names are allowed: real lists have them."""
    if class_names is None:
        return None
    if isinstance(class_names, str):
        raise TypeError("class_names must be a sequence with one name a class, not one string.")
    names = tuple(class_names)
    if len(names) != num_classes:
        raise ValueError(f"There are {len(names)} class_names for {num_classes} classes; pass one a class.")
    for name in names:
        check_text(name, "a class name")
    return tuple(str(name) for name in names)


def checked_provenance(provenance: Mapping[str, str] | None) -> dict[str, str]:
    """Return provenance as a dictionary of its own, sorted by key."""
    checked = dict(provenance or {})
    for key, value in checked.items():
        check_text(key, "a key of provenance")
        check_text(value, f"provenance[{key!r}]")
    return {str(key): str(checked[key]) for key in sorted(checked)}


def check_text(text: object, name: str) -> None:
    """Refuse what no file could hold: something other than text, half a surrogate pair, the NUL character."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode text and cannot be saved; correct it.") from None
    if "\0" in text:
        raise ValueError(f"{name} holds a NUL character and cannot be saved; correct it.")


def _id_text(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"The id {value!r} is not UTF-8 text; pass ids as strings or integers.") from None
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Tensor) and value.ndim == 0 and not value.is_floating_point():
        return str(int(value))
    raise TypeError(f"ids must be strings or integers, not {type(value).__name__}.")
