"""The deployment page: its commands and its code run as they stand, in their order, in one folder."""

import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import focalcal as fc
from focalcal.cli import main
from oracles.known_truth import predictions

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
BLOCKS = re.findall(r"^```(sh|python|py)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no finite optimum")
@pytest.mark.filterwarnings("ignore::focalcal.CalibrationWarning")  # the labels of the page are random
def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "page"}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), space)
        for line in block.splitlines() if kind == "sh" else ():
            monkeypatch.setattr(sys, "argv", shlex.split(line))
            with pytest.raises(SystemExit) as left:
                main()
            assert not left.value.code, capsys.readouterr().err
    assert space["probs"].shape == (3, 10)
    np.testing.assert_allclose(space["probs"].sum(1), 1, atol=1e-6)
    assert space["written"].difference < 1e-5
    assert {path.name for path in tmp_path.glob("*.onnx")} == {"digits.onnx", "model.onnx"}


class Recorder(types.SimpleNamespace):
    """Stands for a tracker that is not installed: its calls take and keep what the real ones take."""

    def __init__(self):
        super().__init__(logged={}, artifacts=[])
        self.start_run = self.init = lambda **_: self
        self.log = self.log_metrics = self.logged.update
        self.log_artifact = self.Html = lambda name: self.artifacts.append(Path(name).read_text(encoding="utf-8"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_trackers_get_numbers_and_the_report(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    tracker = Recorder()
    monkeypatch.setitem(sys.modules, name, tracker)
    (block,) = (block for kind, block in BLOCKS if kind == "py" and f"import {name}" in block)
    test, val = predictions(n=80, seed=1, split="test"), predictions(n=80, seed=2, split="val")
    exec(compile(block, str(PAGE), "exec"), {"fc": fc, "test": test, "val": val})
    assert tracker.logged["test/ece"] == fc.metrics.ece(test)
    assert all(isinstance(value, float) for key, value in tracker.logged.items() if key.startswith("test/"))
    assert "<html" in tracker.artifacts[0]
