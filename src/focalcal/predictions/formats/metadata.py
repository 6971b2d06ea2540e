"""What is said about all samples, as text by key: how safetensors and parquet files carry it."""

import json
from collections.abc import Mapping

from focalcal.predictions.checks import largest_row_sum_error, row_sum_tolerance
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.sources import Metadata

# Marks a file as ours; the number changes when an old reader could no longer understand it.
_MARK, _VERSION = "focalcal", "1"


def to_text(preds: Predictions) -> dict[str, str]:
    """Return the metadata of a file; parts that are None are left out."""
    text = {_MARK: _VERSION, "kind": preds.kind, "provenance": json_text(dict(preds.provenance))}
    if preds.split is not None:
        text["split"] = preds.split
    if preds.class_names is not None:
        text["class_names"] = json_text(preds.class_names)
    if (tolerance := needed_tolerance(preds)) is not None:
        text["row_sum_tolerance"] = repr(tolerance)
    return text


def from_text(text: Mapping[str, str]) -> Metadata:
    """Read what :func:`to_text` wrote; a file that is not ours has no metadata that we would understand."""
    if _MARK not in text:
        return Metadata()
    if text[_MARK] != _VERSION:
        raise ValueError(f"it was written by a later focalcal (layout {text[_MARK]!r}); update focalcal to read it.")
    names = json.loads(text.get("class_names", "null"))
    provenance = json.loads(text.get("provenance", "{}"))
    tolerance = text.get("row_sum_tolerance")
    if not isinstance(names, list | None) or not isinstance(provenance, dict):
        raise ValueError("its metadata is corrupt: class_names must be a JSON list and provenance a JSON object.")
    return Metadata(
        split=text.get("split"),
        class_names=None if names is None else tuple(names),
        provenance=provenance,
        tolerance=None if tolerance is None else float(tolerance),
    )


def needed_tolerance(preds: Predictions) -> float | None:
    """The row-sum tolerance that these probabilities need, where it is more than the usual one.

    bfloat16 probabilities are raised to float32 and would not pass as float32 when they are read again.
    """
    if preds.kind == "logits":
        return None
    needed = largest_row_sum_error(preds.values)
    return needed if needed > row_sum_tolerance(preds.num_classes, preds.values.dtype) else None


def json_text(value: object) -> str:
    """JSON in one fixed form, so that the same predictions give the same bytes."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
