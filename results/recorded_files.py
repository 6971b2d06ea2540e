"""What runs recorded on the way: histories, gradient norms, and reliability sums of training-set snapshots."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.statistics import sample_statistics
from focalcal.predictions import Predictions
from focalcal.training.run_directory import gradient_norms_path, snapshot_path

BINS = 25  # of the paper's reliability plots
_SNAPSHOT = re.compile(r"epoch-(\d{5})\.safetensors")


def copy_histories(runs: dict[str, Path], folder: Path) -> None:
    """Every epoch of every run, a file each; what was there before goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, run in runs.items():
        shutil.copyfile(run / "history.jsonl", folder / f"{name}.jsonl")


def copy_recorded(runs: dict[str, Path], folder: Path) -> None:
    """Gradient norms and sums of snapshots, where runs recorded such; what was there before goes."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, run in runs.items():
        norms, snapshots = gradient_norms_path(run), snapshot_sums(snapshot_path(run, 1).parent)
        if norms.is_file() or snapshots:
            (folder / name).mkdir(parents=True)
        if norms.is_file():
            shutil.copyfile(norms, folder / name / norms.name)
        if snapshots:
            lines = ",\n".join(json.dumps(one) for one in snapshots)
            (folder / name / "snapshots.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def snapshot_sums(folder: Path) -> list[dict[str, Any]]:
    """The sums of each snapshot of a folder over 25 bins of equal width, by epoch, counted from 1."""
    found = {int(name[1]): file for file in folder.glob("*") if (name := _SNAPSHOT.fullmatch(file.name))}
    return [{"epoch": epoch, "bins": BINS, **_sums(Predictions.load(found[epoch]))} for epoch in sorted(found)]


def _sums(preds: Predictions) -> dict[str, list[float]]:
    stats = sample_statistics(preds)
    sums = equal_width_sums(stats.confidence, stats.correct, BINS, stats.weight)
    return {name: getattr(sums, name).tolist() for name in ("count", "confidence", "correct")}
