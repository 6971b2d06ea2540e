"""What a file is: format, kind, shape, labels, and what it says about itself."""

import os
from pathlib import Path
from typing import Any

import torch

from focalcal.cli.examination.finding import Examined
from focalcal.predictions.masking import masked_classes
from focalcal.report.readings import written


def facts(examined: Examined) -> dict[str, Any]:
    """Everything about a file that is no finding, in the order in which it is shown."""
    preds, file = examined.preds, examined.file
    found: dict[str, Any] = {
        "file": Path(file.path).name,
        "format": Path(file.path).suffix.lower().removeprefix("."),
        "bytes": os.path.getsize(file.path),
        "kind": preds.kind,
        "samples": len(preds),
        "samples_in_file": file.num_samples,
        "classes": preds.num_classes,
        "dtype": str(preds.values.dtype).removeprefix("torch."),
        "split": preds.split,
        "class_names": None if preds.class_names is None else list(preds.class_names),
        "labels": "class probabilities" if preds.has_soft_labels else "classes",
        "samples_by_class": torch.bincount(preds.hard_labels, minlength=preds.num_classes).tolist(),
        "masked_classes": list(masked_classes(preds)),
        "ids": preds.ids is not None,
        "weights": preds.weights is not None,
        "provenance": dict(preds.provenance),
        "accuracy": _mean(examined.statistics.correct, examined.statistics.weight),
        "mean_confidence": _mean(examined.statistics.confidence, examined.statistics.weight),
    }
    return found


def _mean(values: torch.Tensor, weight: torch.Tensor | None) -> float:
    return float(values.double().mean() if weight is None else (values * weight).sum() / weight.sum())


def shown_facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same in words for people."""
    masked = found["masked_classes"]
    answered = [count for number, count in enumerate(found["samples_by_class"]) if number not in masked]
    rows = [
        ("file", f"{found['file']} ({found['format']}, {found['bytes']:,} bytes)"),
        ("outputs", f"{found['kind']}, {found['samples']:,} × {found['classes']}, {found['dtype']}"),
        ("labels", f"{found['labels']}, {_distribution(answered)}"),
        ("split", found["split"] or "not said"),
        ("classes", _listed(found["class_names"]) if found["class_names"] else "no names"),
        ("ids", "yes" if found["ids"] else "no"),
        ("weights", "yes" if found["weights"] else "no"),
        ("provenance", _listed([f"{key} = {value}" for key, value in found["provenance"].items()]) or "not said"),
        ("accuracy", written("accuracy", found["accuracy"])),
        ("mean confidence", written("mean_confidence", found["mean_confidence"])),
    ]
    if masked:
        names = found["class_names"]
        rows.insert(3, ("masked", _listed([names[i] if names else str(i) for i in masked]) + " (never the answer)"))
    left_out = found["samples_in_file"] - found["samples"]
    return rows if not left_out else [*rows, ("not examined", f"{left_out:,} samples")]


def _distribution(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,} in every class" if least == most else f"{least:,} to {most:,} in a class"


def _listed(texts: list[str], most: int = 6) -> str:
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
