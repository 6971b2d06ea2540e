import pytest
import torch

from diagnosis.conftest import severities
from focalcal.predictions import Predictions
from oracles.known_truth import predictions


@pytest.fixture
def paired(examined, tmp_path):
    def run(test, val):
        val.save(tmp_path / "val.safetensors")
        return examined(test, val=tmp_path / "val.safetensors")

    return run


def test_good_pair(paired):
    found = paired(predictions(5000, seed=1, split="test"), predictions(5000, seed=2, split="val"))
    assert set(severities(found).values()) == {"info"}


def test_same_content(paired):
    found = paired(predictions(), predictions())
    assert found["val_equals_test"].severity == "problem"
    assert "test.npz and val.safetensors" in found["val_equals_test"].what


def test_overlap(paired):
    test, val = predictions(seed=1), predictions(seed=2)
    both = Predictions.from_logits(
        torch.cat([test.values[:400], val.values]), torch.cat([test.labels[:400], val.labels])
    )
    assert severities(paired(test, both))["val_overlaps_test"] == "problem"
    fewer = Predictions.from_logits(
        torch.cat([test.values[:60], val.values]), torch.cat([test.labels[:60], val.labels])
    )
    assert severities(paired(test, fewer))["val_overlaps_test"] == "warning"


def test_sure_predictions_are_no_overlap(paired):
    probs = torch.eye(10).repeat(50, 1)
    certain = Predictions.from_probs(probs[:400], probs[:400].argmax(1))
    found = paired(certain, Predictions.from_probs(probs, probs.argmax(1)))
    assert "val_overlaps_test" not in found


def test_common_ids(paired):
    names = [f"image-{i}" for i in range(600)]
    same = paired(predictions(seed=1, ids=names), predictions(seed=1, sharpness=1.5, ids=names))
    assert severities(same)["common_ids"] == "problem"
    other = paired(predictions(seed=1, ids=names), predictions(seed=2, ids=names))
    assert severities(other)["common_ids"] == "warning"


def test_classes(paired):
    found = paired(predictions(classes=10), predictions(classes=9, seed=1))
    assert severities(found)["class_count_mismatch"] == "problem"


def test_class_names(paired):
    a = predictions(classes=2, class_names=["no", "yes"])
    b = predictions(classes=2, seed=1, class_names=["yes", "no"])
    assert severities(paired(a, b))["class_names_mismatch"] == "problem"


def test_splits(paired):
    found = paired(predictions(seed=1, split="val"), predictions(seed=2, split="test"))
    assert severities(found)["val_has_wrong_split"] == "problem"
    assert severities(found)["test_has_wrong_split"] == "warning"
    found = paired(predictions(seed=1, split="test"), predictions(seed=2, split="train"))
    assert severities(found)["val_has_wrong_split"] == "warning"
