"""Every command that the documentation and the help show runs, on files of the names that they use."""

import inspect
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from focalcal.cli import calibrate, doctor, evaluate
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels, predictions

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def documented():
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    helps = [inspect.getdoc(command).split("Examples:")[1] for command in (evaluate, calibrate, doctor)]
    lines = [line.strip() for text in (*blocks, *helps) for line in text.splitlines()]
    return sorted({" ".join(shlex.split(line, comments=True)) for line in lines if line})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test, val = predictions(seed=1, sharpness=2.0, split="test"), predictions(seed=2, sharpness=2.0, split="val")
    for name in ("test.npz", "test.safetensors", "new.npz"):
        test.save(name)
    val.save("val.npz")
    for run, sharpness in (("a", 2.0), ("b", 1.0)):
        Path("runs", run, "predictions").mkdir(parents=True)
        val.save(f"runs/{run}/predictions/val.safetensors")
        predictions(seed=1, sharpness=sharpness, split="test").save(f"runs/{run}/predictions/test.safetensors")
    regions = {"region": ["north", "south"] * 300, "month": [f"2026-{1 + i % 3:02}" for i in range(600)]}
    Predictions.from_logits(test.values, test.labels, groups=regions).save("test.parquet")
    sure = test.probs().amax(1).tolist()
    right = (test.probs().argmax(1) == test.labels).long().tolist()
    Path("answers.csv").write_text("conf,ok\n" + "".join(f"{c},{r}\n" for c, r in zip(sure, right, strict=True)))
    named = ["fraud" if r else "fine" for r in right]
    Path("fraud.csv").write_text("score,truth\n" + "".join(f"{c},{t}\n" for c, t in zip(sure, named, strict=True)))
    Path("preds").mkdir()
    Path("val").mkdir()
    val.save("val/0.parquet")
    for part in range(2):
        test.select(list(range(300 * part, 300 * part + 300))).save(f"preds/{part}.parquet")
    logits, labels = logits_and_labels(200, 3)
    np.save("outputs.npy", logits.numpy())
    np.save("labels.npy", labels.numpy())
    table = torch.cat([logits.softmax(1), labels[:, None]], dim=1).tolist()
    rows = [",".join([*map(str, row[:3]), str(int(row[3]))]) for row in table]
    Path("scores.csv").write_text("\n".join(["score_0,score_1,score_2,truth", *rows]))
    return tmp_path


def test_some_are_found():
    assert len(documented()) >= 15


@pytest.mark.parametrize("line", documented())
def test_runs(focalcal, folder, line):
    if "t.json" in line:
        focalcal("calibrate", "val.npz", "test.npz", "--save-calibrator", "t.json")
    ran = focalcal(*shlex.split(line)[1:])
    assert ran.code in (0, 1), ran.err
    for written in re.findall(r"--(?:out|save-calibrator) (\S+)", line):
        assert (folder / written).is_file()
        assert written.endswith(".json") or len(Predictions.load(folder / written)) == 600
