"""Masked classes: every command that measures says the same."""

import json
import math
from dataclasses import replace

import torch

from oracles.masked import oracle, three_classes


def test_classes_are_called_by_their_own_numbers(focalcal, tmp_path):
    test = three_classes(split="test")
    logits = test.values.clone()
    logits[:, 2] += 50
    nameless = replace(test, values=logits, class_names=None, labels_or_none=torch.full_like(test.labels, 2))
    nameless.save(tmp_path / "test.npz")
    found = {
        one["name"]: one["what"]
        for one in json.loads(focalcal("doctor", tmp_path / "test.npz", "--json").out)["findings"]
    }
    assert found["one_class_predicted"] == "Every sample is predicted as class 2."
    assert found["missing_classes"] == "1 of 2 classes have no sample (0)."


def test_other_masked_classes_in_validation_are_refused(focalcal, tmp_path):
    replace(three_classes(seed=1, split="val"), masked_classes=()).save(tmp_path / "val.npz")
    three_classes(seed=2, split="test").save(tmp_path / "test.npz")
    done = focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz")
    assert done.code == 2
    assert "have different masked classes" in done.err
    done = focalcal("report", tmp_path / "test.npz", "--val", tmp_path / "val.npz", "--out", tmp_path / "r.html")
    assert done.code == 2
    assert "have different masked classes" in done.err


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
