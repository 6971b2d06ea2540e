import json

import pytest
import torch

import focalcal as fc
from diagnosis.conftest import severities
from focalcal.diagnosis import diagnosing
from focalcal.predictions import Predictions, open_predictions
from oracles.known_truth import logits_and_labels, predictions
from oracles.real_files import REAL_FILES, real_predictions


def test_predictions_in_memory_and_in_a_file_give_the_same(tmp_path):
    preds = predictions(split="test")
    preds.save(tmp_path / "test.npz")
    ways = [fc.diagnose(way) for way in (preds, tmp_path / "test.npz", open_predictions(tmp_path / "test.npz"))]
    assert ways[0].findings == ways[1].findings == ways[2].findings
    assert ways[1].facts["file"] == "test.npz"
    assert "file" not in ways[0].facts
    shared = set(ways[0].facts)
    assert {key: ways[1].facts[key] for key in shared} == dict(ways[0].facts)


def test_facts():
    names = ["cat", "dog", "owl"]
    preds = predictions(300, 3, split="val", class_names=names, ids=range(300), provenance={"model": "resnet"})
    facts = fc.diagnose(preds).facts
    assert facts["samples_by_class"] == torch.bincount(preds.labels, minlength=3).tolist()
    assert (facts["kind"], facts["samples"], facts["classes"], facts["split"]) == ("logits", 300, 3, "val")
    assert (facts["ids"], facts["weights"], facts["provenance"]) == (True, False, {"model": "resnet"})
    assert facts["accuracy"] == pytest.approx(fc.metrics.accuracy(preds))
    assert facts["mean_confidence"] == pytest.approx(fc.metrics.mean_confidence(preds))


def test_problems_come_first_and_everything_goes_to_json():
    logits, labels = logits_and_labels(40)
    found = fc.diagnose(Predictions.from_logits(logits.softmax(1), labels))
    ranks = [["problem", "warning", "info"].index(finding.severity) for finding in found.findings]
    assert ranks == sorted(ranks)
    assert [finding.name for finding in found.problems] == ["probabilities_as_logits"]
    content = json.loads(json.dumps(found.to_dict()))
    assert content["problems"] == 1
    assert content["findings"][0] == found.problems[0].to_dict()
    assert repr(found).splitlines()[1].startswith("  problem: The logits lie between 0 and 1")


def test_validation_predictions_in_memory_are_called_val():
    found = fc.diagnose(predictions(), val=predictions())
    assert "test and val hold the same predictions." in [finding.what for finding in found.findings]


def test_labels_that_were_passed_belong_to_the_test_file_alone(tmp_path):
    logits, labels = logits_and_labels(200)
    Predictions.from_logits(logits, labels.roll(1), split="test").save(tmp_path / "test.npz")
    predictions(300, seed=1, split="val").save(tmp_path / "val.npz")
    found = fc.diagnose(tmp_path / "test.npz", val=tmp_path / "val.npz", labels=labels.numpy(), split="test")
    assert set(severities({finding.name: finding for finding in found.findings}).values()) <= {"info", "warning"}
    assert found.facts["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).double().mean()))


def test_very_large_file_is_examined_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(diagnosing, "_MOST_VALUES", 700_000)
    predictions(200_000, 5).save(tmp_path / "large.npz")
    found = fc.diagnose(tmp_path / "large.npz")
    assert found.facts["samples_in_file"] == 200_000
    assert 0 < found.facts["samples"] <= 140_000
    assert "part_of_file" in [finding.name for finding in found.findings]


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_files(name):
    found = {finding.name: finding for finding in fc.diagnose(real_predictions(name)).findings}
    assert "less confidence would lower it" in found["temperature"].what
    assert set(found) <= {"temperature", "saturated_confidence"}
