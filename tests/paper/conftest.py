"""Folders of results as focalcal makes them, small, and a sweep that was really trained and recorded everything."""

import json

import pytest

from focalcal.sweeps import sweep
from focalcal.sweeps.result_rows import write_rows
from paper.small_results import history_epochs, sweep_rows

_RECORDED = {"test_every": 1, "train_every": 2, "gradient_norms_at": [1, 4], "snapshots_at": [2, 4]}


@pytest.fixture
def result_folder(tmp_path):
    """Make a folder of results: tables and histories."""

    def make(name="sst", rows=None, *, test=True, parent=None):
        folder = (parent or tmp_path / "results") / name
        (folder / "histories").mkdir(parents=True)
        rows = sweep_rows() if rows is None else rows
        write_rows(folder / "table.csv", rows)
        write_rows(folder / "table_nll.csv", rows)
        lines = "".join(json.dumps(line) + "\n" for line in history_epochs(test=test))
        for method, seed in {(row.method, row.seed) for row in rows}:
            (folder / "histories" / f"{method}-seed-{seed}.jsonl").write_text(lines)
        return folder

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a sweep: three losses on digits, with everything that a figure may need."""
    out = tmp_path_factory.mktemp("paper") / "digits"
    changes = {"epochs": 4, "data.train_size": 100, "model.hidden": [16], "record": _RECORDED}
    sweep("digits/mlp", changes, out=out, losses=["cross-entropy", "fl-1", "fl-3"], bootstrap=20, progress=False)
    return out
