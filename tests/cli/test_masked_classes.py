"""Masked classes: every command that measures says the same."""

import json
import math

from oracles.masked import oracle, three_classes


def test_command_line_says_the_same_everywhere(focalcal, tmp_path):
    val, test = three_classes(seed=1, split="val"), three_classes(seed=2, split="test")
    val.save(tmp_path / "val.npz")
    test.save(tmp_path / "test.npz")
    expected = oracle(test)
    evaluated = json.loads(focalcal("evaluate", tmp_path / "test.npz", "--json").out)
    assert math.isclose(evaluated["values"]["ece"], expected["ece"])
    calibrated = json.loads(focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz", "--json").out)
    assert math.isclose(calibrated["before"]["ece"], expected["ece"])
    assert math.isclose(calibrated["after"]["ece"], oracle(test, calibrated["temperature"])["ece"], rel_tol=1e-9)
    examined = json.loads(focalcal("doctor", tmp_path / "test.npz", "--json").out)
    assert math.isclose(examined["accuracy"], 1 - expected["error"])
    assert examined["masked_classes"] == [1]
    assert "missing_classes" not in {finding["name"] for finding in examined["findings"]}
    assert "neutral (never the answer)" in focalcal("doctor", tmp_path / "test.npz").out
