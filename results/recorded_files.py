"""Recordings of runs: histories, gradient norms, and reliability sums of training-set snapshots."""

import json
import shutil
from pathlib import Path

from focalcal.paper.result_folders import snapshot_sums
from focalcal.training import RunDirectory


def copy_histories(runs: dict[str, Path], folder: Path) -> None:
    """Copy every epoch of every run, one file per run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        shutil.copyfile(RunDirectory(run).history, folder / f"{name}.jsonl")


def copy_recorded(runs: dict[str, Path], folder: Path) -> None:
    """Copy gradient norms and sums of snapshots, where runs recorded them."""
    for name, run in runs.items():
        files = RunDirectory(run)
        norms, snapshots = files.gradient_norms, snapshot_sums(files.snapshots)
        if norms.is_file() or snapshots:
            (folder / name).mkdir(parents=True, exist_ok=True)
        if norms.is_file():
            shutil.copyfile(norms, folder / name / norms.name)
        if snapshots:
            lines = ",\n".join(json.dumps(one) for one in snapshots)
            (folder / name / "snapshots.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
