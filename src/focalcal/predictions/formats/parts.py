"""The parts of predictions in files: the names they go by, their arrays, and the text that describes all samples.

Every format writes and reads what is listed here. A new column with an entry per sample is an entry of ``COLUMNS``; a
new fact about all samples is a line of ``write_text`` and ``read_text``.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import numpy as np
from torch import Tensor

from focalcal.base.files import parse_json
from focalcal.base.measures import Of
from focalcal.base.suggestions import shorten
from focalcal.predictions.checks import largest_row_sum_error, row_sum_tolerance
from focalcal.predictions.container import Predictions
from focalcal.predictions.groups import PREDICTED, GroupColumn
from focalcal.predictions.read_options import Choices, Key
from focalcal.predictions.rows import Kind

# The names that values and labels go by, in every format; the first is the one that is written.
VALUE_NAMES: dict[Kind, tuple[str, ...]] = {"logits": ("logits",), "probs": ("probs", "predictions")}
LABEL_NAMES = ("labels", "label", "ground_truth")


@dataclass(frozen=True)
class Column:
    """An optional part with an entry per sample.

    Attributes:
        name: The field of ``Predictions``, and the name that is written.
        names: All names that it may go by.
        is_text: Whether its entries are text, not numbers.
    """

    name: str
    names: tuple[str, ...]
    is_text: bool = False


COLUMNS = (
    Column("weights", ("weights", "weight")),
    Column("ids", ("ids", "id"), is_text=True),
    Column("clusters", ("clusters",)),
)
TEXT_COLUMNS = tuple(column.name for column in COLUMNS if column.is_text)
# A column of groups is the part "groups:region".
GROUPS = "groups:"

# An array with an entry per sample: numbers, text, or groups.
PartArray = np.ndarray | tuple[str, ...] | GroupColumn


def part_arrays(preds: Predictions) -> dict[str, PartArray]:
    """Return the parts that predictions have, by the names that are written."""
    parts: dict[str, Any] = {preds.kind: preds.values, "labels": preds.labels_or_none}
    parts |= {column.name: getattr(preds, column.name) for column in COLUMNS}
    parts |= {GROUPS + name: column for name, column in preds.groups.items()}
    present = {name: part for name, part in parts.items() if part is not None}
    return {name: part.numpy() if isinstance(part, Tensor) else part for name, part in present.items()}


def find_parts(names: Iterable[Key], choices: Choices) -> tuple[Kind, dict[str, Key]]:
    """Match the names in a file with the parts of predictions; two candidates for one part are an error.

    Returns:
        The kind of the values; and by ``values``, ``labels`` (unless they were passed separately), ``weights``,
        ``ids``, ``clusters`` and ``groups:NAME``, the name in the file, for those that it has.
    """
    there = list(names)
    kind, values = _find_values(there, choices)
    found: dict[str, Key | None] = {"values": values}
    if choices.correct_key is not None:
        found["correct"] = _check_there(there, choices.correct_key, "correct_key")
    elif choices.labels is None and (choices.confidence_key is None or choices.predicted_key is not None):
        found["labels"] = _find(there, choices, "labels", LABEL_NAMES)
    if choices.predicted_key is not None:
        found["predicted"] = _check_there(there, choices.predicted_key, "predicted_key")
    found |= {column.name: _find(there, choices, column.name, column.names) for column in COLUMNS}
    found |= _find_groups(there, choices)
    return kind, {part: key for part, key in found.items() if key is not None}


def say_no_labels(names: Iterable[Key], *, for_pairs: bool) -> str:
    """Say that a file has no labels, and what it has instead."""
    if for_pairs:
        return "nothing says which answers are right; pass correct_key, or predicted_key and labels_key."
    return f"it has no 'labels' or 'ground_truth' but {_listing(list(names))}; name them with labels_key."


def _find_groups(there: list[Key], choices: Choices) -> dict[str, Key]:
    """Find the columns of groups: those of our own files, and those that were asked for by name."""
    found: dict[str, Key] = {name: name for name in there if isinstance(name, str) and name.startswith(GROUPS)}
    for name in choices.groups_key:
        # The classes of answers are a column of groups themselves.
        if GROUPS + name not in found and not (name == PREDICTED and choices.predicted_key is not None):
            found[GROUPS + name] = _check_there(there, name, "groups_key")
    return found


def _find_values(there: list[Key], choices: Choices) -> tuple[Kind, Key]:
    if choices.confidence_key is not None:
        return "probs", _check_there(there, choices.confidence_key, "confidence_key")
    for kind in VALUE_NAMES:
        if (key := choices.key(kind)) is not None:
            return kind, _check_there(there, key, f"{kind}_key")
    kinds = [kind for kind in VALUE_NAMES if choices.kind in (None, kind)]
    found = [(kind, name) for kind in kinds for name in VALUE_NAMES[kind] if name in there]
    if len(found) > 1:
        both = " and ".join(repr(name) for _, name in found)
        raise ValueError(f"it has {both}; say which one to read with logits_key or probs_key.")
    if not found:
        wanted = " or ".join(repr(name) for kind in kinds for name in VALUE_NAMES[kind])
        raise ValueError(
            f"it has no {wanted} but {_listing(there)}; name them with logits_key or probs_key, or one confidence per "
            "answer with confidence_key."
        )
    return found[0]


def _find(there: list[Key], choices: Choices, part: str, names: tuple[str, ...]) -> Key | None:
    if (key := choices.key(part)) is not None:
        return _check_there(there, key, f"{part}_key")
    found = [name for name in names if name in there]
    if len(found) > 1:
        both = " and ".join(map(repr, found))
        raise ValueError(f"it has {both}; say which one to read with {part}_key.")
    return found[0] if found else None


def _check_there(there: list[Key], key: Key, option: str) -> Key:
    if key not in there:
        raise ValueError(f"it has no {key!r}, which {option} names, but {_listing(there)}.")
    return key


def _listing(there: list[Key]) -> str:
    """Name a few of them: a file of model weights has hundreds."""
    shown = ", ".join(repr(name) for name in there[:8])
    return (shown or "nothing") + (f" and {len(there) - 8} more" if len(there) > 8 else "")


# Marks a file as ours; the number is larger where an old reader would misunderstand the file: 2 has masked classes, 3
# has scores or confidences.
_MARK, _VERSION, _VERSION_MASKED, _VERSION_OF = "focalcal", "1", "2", "3"
FACTS = ("split", "of", "class_names", "masked_classes", "provenance", "row_sum_tolerance", "group_names")


@dataclass(frozen=True)
class Metadata:
    """Facts that a file states about all of its samples."""

    split: str | None = None
    of: Of | None = None
    class_names: tuple[str, ...] | None = None
    masked_classes: tuple[int, ...] | None = None  # None: not said, or said in the provenance, as in old files
    provenance: dict[str, str] = field(default_factory=dict)
    tolerance: float | None = None  # of row sums, where the one that follows from the type is too small
    group_names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # where columns of groups are numbers


def write_text(preds: Predictions) -> dict[str, str]:
    """Return the facts about all samples as text by key, without those that there are not."""
    facts = {
        "split": preds.split,
        # Two columns are measured by the predicted class where nothing is said, as in files of earlier versions.
        "of": None if preds.of == "top" else preds.of,
        "class_names": None if preds.class_names is None else json_text(preds.class_names),
        "masked_classes": json_text(preds.masked_classes) if preds.masked_classes else None,
        "provenance": json_text(dict(preds.provenance)),
        "row_sum_tolerance": None if (tolerance := _tolerance_needed(preds)) is None else repr(tolerance),
    }
    return {name: text for name, text in facts.items() if text is not None}


def write_group_names(preds: Predictions) -> dict[str, str]:
    """Return the names of groups, for files whose columns of groups are numbers."""
    named = {name: column.names for name, column in preds.groups.items()}
    return {"group_names": json_text(named)} if named else {}


def write_marked_text(preds: Predictions) -> dict[str, str]:
    """Return the same with the mark of our files and the kind of the values, for files that have a place for text."""
    version = _VERSION_MASKED if preds.masked_classes else _VERSION
    return {_MARK: version if preds.of == "top" else _VERSION_OF, "kind": preds.kind, **write_text(preds)}


def read_text(text: Mapping[str, str]) -> Metadata:
    """Read what :func:`write_text` wrote."""
    provenance = parse_json(text.get("provenance", "{}"))
    if not isinstance(provenance, dict):
        raise ValueError("its metadata is corrupt: provenance must be a JSON object.")
    if text.get("of", "top") not in get_args(Of):
        raise ValueError(f"its metadata is corrupt: of must be top, score or confidence, not {text['of']!r}.")
    return Metadata(
        split=text.get("split"),
        of=cast(Of | None, text.get("of")),
        class_names=_read_list(text, "class_names"),
        masked_classes=_read_list(text, "masked_classes"),
        provenance=provenance,
        tolerance=_read_number(text, "row_sum_tolerance"),
        group_names=_read_group_names(text),
    )


def read_marked_text(text: Mapping[str, str]) -> Metadata:
    """Read what :func:`write_marked_text` wrote; what others wrote has no meaning here."""
    if _MARK not in text:
        return Metadata()
    if text[_MARK] not in (_VERSION, _VERSION_MASKED, _VERSION_OF):
        raise ValueError(f"it was written by a later focalcal (layout {text[_MARK]!r}); update focalcal to read it.")
    metadata = read_text(text)
    # Our own files have two columns for a score too, so that one that says nothing is measured by predicted class.
    return metadata if metadata.of is not None else replace(metadata, of="top")


def _read_list(text: Mapping[str, str], name: str) -> tuple[Any, ...] | None:
    listed = parse_json(text.get(name, "null"))
    if not isinstance(listed, list | None):
        raise ValueError(f"its metadata is corrupt: {name} must be a JSON list.")
    return None if listed is None else tuple(listed)


def _read_group_names(text: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    named = parse_json(text.get("group_names", "{}"))
    if not isinstance(named, dict) or not all(isinstance(names, list) for names in named.values()):
        raise ValueError("its metadata is corrupt: group_names must be lists of names.")
    return {name: tuple(map(str, names)) for name, names in named.items()}


def _read_number(text: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(text[name]) if name in text else None
    except ValueError:
        number = math.nan
    if number is not None and not 0 <= number < math.inf:
        raise ValueError(f"its metadata is corrupt: {name} must be a number, not {shorten(repr(text[name]))}.")
    return number


def _tolerance_needed(preds: Predictions) -> float | None:
    """Return the row-sum tolerance that these probabilities need, where it is more than the usual one.

    bfloat16 probabilities are raised to float32 and would not pass as float32 when they are read again.
    """
    if preds.kind == "logits":
        return None
    needed = largest_row_sum_error(preds.values)
    return needed if needed > row_sum_tolerance(preds.num_classes, preds.values.dtype) else None


def json_text(value: object) -> str:
    """Write JSON in one fixed form, so that the same predictions give the same bytes."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
