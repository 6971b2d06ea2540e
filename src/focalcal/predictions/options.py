"""How a file is read: which of its arrays or columns mean what, and what the file itself does not say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from focalcal.predictions.rows import Kind, check_kind

# One name, or in a table the names of several columns.
Key = str | tuple[str, ...]

# The names by which each part is known, in every format.
_VALUE_NAMES: dict[Kind, tuple[str, ...]] = {"logits": ("logits",), "probs": ("probs", "predictions")}
_LABEL_NAMES = ("labels", "label", "ground_truth")
_WEIGHT_NAMES = ("weights", "weight")
_ID_NAMES = ("ids", "id")


class ReadOptions(TypedDict, total=False):
    """The keyword arguments of ``open_predictions`` and ``Predictions.load``, described in the former."""

    logits_key: str | Sequence[str] | None
    probs_key: str | Sequence[str] | None
    labels_key: str | Sequence[str] | None
    weights_key: str | None
    ids_key: str | None
    kind: Kind | None
    labels: Any
    split: str | None
    class_names: Sequence[str] | None
    ignore_index: int | None
    tolerance: float | None
    allow_duplicate_ids: bool


@dataclass(frozen=True)
class Choices:
    """The same options with their defaults."""

    logits_key: Key | None = None
    probs_key: Key | None = None
    labels_key: Key | None = None
    weights_key: str | None = None
    ids_key: str | None = None
    kind: Kind | None = None
    labels: Any = None
    split: str | None = None
    class_names: Sequence[str] | None = None
    ignore_index: int | None = -100
    tolerance: float | None = None
    allow_duplicate_ids: bool = False

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_kind(self.kind)
        if self.logits_key is not None and self.probs_key is not None:
            raise ValueError("Pass logits_key or probs_key, not both: predictions are one or the other.")
        wanted = "probs" if self.logits_key is None else "logits"
        if self.kind is not None and self.kind != wanted and (self.logits_key or self.probs_key):
            raise ValueError(f"kind={self.kind!r} contradicts {wanted}_key; pass one of them.")

    @classmethod
    def chosen(cls, options: ReadOptions) -> "Choices":
        """Refuse an option that does not exist, as Python would, but by the name of the caller's function."""
        unknown = [name for name in options if name not in cls.__dataclass_fields__]
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise TypeError(f"There is no option {unknown[0]!r} for reading predictions; there are {known}.")
        keys = {name: _hashable(options.get(name)) for name in ("logits_key", "probs_key", "labels_key")}
        return cls(**{**options, **keys})  # type: ignore[arg-type]

    def matrix_keys(self) -> list[Key]:
        """Every name that values or labels may go by, which in a table may be several columns."""
        passed = (self.logits_key, self.probs_key, self.labels_key)
        usual = (*_VALUE_NAMES["logits"], *_VALUE_NAMES["probs"], *_LABEL_NAMES)
        return [key for key in passed if key is not None] + list(usual)

    def column_keys(self) -> list[str]:
        """Every name that weights or ids may go by, which in a table are one column."""
        passed = (self.weights_key, self.ids_key)
        return [key for key in passed if key is not None] + [*_WEIGHT_NAMES, *_ID_NAMES]


@dataclass(frozen=True)
class Roles:
    """Which name in a file has which part."""

    kind: Kind
    values: Key
    labels: Key | None  # None where the labels were passed separately
    weights: Key | None
    ids: Key | None


def find_roles(names: Iterable[Key], choices: Choices) -> Roles:
    """Match the names in a file with the parts of predictions; two candidates for one part are an error."""
    there = list(names)
    kind, values = _values_role(there, choices)
    labels = None
    if choices.labels is None:
        labels = _role(there, choices.labels_key, _LABEL_NAMES, "labels_key")
        if labels is None:
            raise ValueError(f"it has no 'labels' or 'ground_truth' but {_listed(there)}; name them with labels_key.")
    return Roles(
        kind,
        values,
        labels,
        _role(there, choices.weights_key, _WEIGHT_NAMES, "weights_key"),
        _role(there, choices.ids_key, _ID_NAMES, "ids_key"),
    )


def _hashable(key: Any) -> Key | None:
    return key if key is None or isinstance(key, str) else tuple(key)


def _values_role(there: list[Key], choices: Choices) -> tuple[Kind, Key]:
    if choices.logits_key is not None:
        return "logits", _named(there, choices.logits_key, "logits_key")
    if choices.probs_key is not None:
        return "probs", _named(there, choices.probs_key, "probs_key")
    kinds = [kind for kind in _VALUE_NAMES if choices.kind in (None, kind)]
    found = [(kind, name) for kind in kinds for name in _VALUE_NAMES[kind] if name in there]
    if len(found) > 1:
        both = " and ".join(repr(name) for _, name in found)
        raise ValueError(f"it has {both}; say which one to read with logits_key or probs_key.")
    if not found:
        wanted = " or ".join(repr(name) for kind in kinds for name in _VALUE_NAMES[kind])
        raise ValueError(f"it has no {wanted} but {_listed(there)}; name them with logits_key or probs_key.")
    return found[0]


def _role(there: list[Key], key: Key | None, usual: tuple[str, ...], option: str) -> Key | None:
    if key is not None:
        return _named(there, key, option)
    found = [name for name in usual if name in there]
    if len(found) > 1:
        both = " and ".join(map(repr, found))
        raise ValueError(f"it has {both}; say which one to read with {option}.")
    return found[0] if found else None


def _named(there: list[Key], key: Key, option: str) -> Key:
    if key not in there:
        raise ValueError(f"it has no {key!r}, which {option} names, but {_listed(there)}.")
    return key


def _listed(there: list[Key]) -> str:
    """Name a few of them: a file of model weights has hundreds."""
    shown = ", ".join(repr(name) for name in there[:8])
    return (shown or "nothing") + (f" and {len(there) - 8} more" if len(there) > 8 else "")
