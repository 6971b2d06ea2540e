import json
import math

import pytest
import torch

from focalcal.predictions import Predictions
from oracles.predictions import softmax
from recorded_files import copy_recorded, snapshot_sums


def _snapshot(seed: int, samples: int = 40) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, 4, generator=generator)
    return Predictions.from_logits(logits, torch.randint(0, 4, (samples,), generator=generator), split="train")


def _slow_sums(preds: Predictions) -> dict[str, list[float]]:
    """One sample after another into bins (lower, upper]."""
    sums = {"count": [0] * 25, "confidence": [0.0] * 25, "correct": [0] * 25}
    for row, label in zip(preds.values.double().tolist(), preds.labels.tolist(), strict=True):
        probs = softmax(row)
        place = math.ceil(max(probs) * 25) - 1
        sums["count"][place] += 1
        sums["confidence"][place] += max(probs)
        sums["correct"][place] += probs.index(max(probs)) == label
    return sums


def test_snapshots_become_sums_by_epoch(tmp_path):
    for epoch in (100, 9):
        _snapshot(epoch).save(tmp_path / f"epoch-{epoch:05d}.safetensors")
    (tmp_path / "notes.txt").touch()
    found = snapshot_sums(tmp_path)
    assert [(one["epoch"], one["bins"]) for one in found] == [(9, 25), (100, 25)]
    for one in found:
        slow = _slow_sums(_snapshot(one["epoch"]))
        assert (one["count"], one["correct"]) == (slow["count"], slow["correct"])
        assert one["confidence"] == pytest.approx(slow["confidence"], rel=1e-5)


def test_what_runs_recorded_is_copied_beside_what_is_there(tmp_path):
    runs = {name: tmp_path / name for name in ("fl-3-seed-0", "brier-seed-0")}
    (runs["fl-3-seed-0"] / "recorded").mkdir(parents=True)
    (runs["fl-3-seed-0"] / "recorded" / "gradient-norms.jsonl").write_text('{"epoch": 1}\n')
    (runs["fl-3-seed-0"] / "predictions" / "train").mkdir(parents=True)
    _snapshot(1).save(runs["fl-3-seed-0"] / "predictions" / "train" / "epoch-00001.safetensors")
    (tmp_path / "out" / "mmce-seed-0").mkdir(parents=True)
    copy_recorded(runs, tmp_path / "out")
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir()) == ["fl-3-seed-0", "mmce-seed-0"]
    kept = tmp_path / "out" / "fl-3-seed-0"
    assert (kept / "gradient-norms.jsonl").read_text() == '{"epoch": 1}\n'
    assert json.loads((kept / "snapshots.json").read_text()) == snapshot_sums(
        runs["fl-3-seed-0"] / "predictions" / "train"
    )
