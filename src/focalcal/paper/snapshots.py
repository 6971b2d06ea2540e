"""Snapshots of the training set: how its samples lie over bins of confidence after chosen epochs."""

import re
from pathlib import Path
from typing import Any

from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions

BINS = 25  # of the paper's reliability plots
_SNAPSHOT = re.compile(r"epoch-(\d{5})\.safetensors")


def snapshot_sums(folder: Path) -> list[dict[str, Any]]:
    """Add up each snapshot of a folder over 25 bins of equal width, by epoch, counted from 1."""
    found = {int(name[1]): file for file in folder.glob("*") if (name := _SNAPSHOT.fullmatch(file.name))}
    return [{"epoch": epoch, "bins": BINS, **_sums(Predictions.load(found[epoch]))} for epoch in sorted(found)]


def _sums(preds: Predictions) -> dict[str, list[float]]:
    stats = sample_statistics(preds)
    sums = equal_width_sums(stats.confidence, stats.correct, BINS, stats.weight)
    return {name: getattr(sums, name).tolist() for name in ("count", "confidence", "correct")}
