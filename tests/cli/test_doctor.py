import json
from importlib import import_module

import numpy as np
import pytest
import torch

from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels, predictions
from oracles.real_files import REAL_FILES, real_predictions


@pytest.fixture
def examined(focalcal, tmp_path):
    """Save predictions (or raw arrays), run the doctor, and return its findings by name."""

    def run(data, *arguments, **arrays):
        path = tmp_path / "test.npz"
        if arrays:
            np.savez(path, **arrays)
        else:
            data.save(path)
        ran = focalcal("doctor", path, "--json", *arguments)
        content = json.loads(ran.out)
        problems = [finding for finding in content["findings"] if finding["severity"] == "problem"]
        assert ran.err == ""
        assert ran.code == (1 if problems else 0)
        assert content["problems"] == len(problems)
        return {finding["name"]: finding for finding in content["findings"]}

    return run


def severities(findings):
    return {name: finding["severity"] for name, finding in findings.items()}


def test_good_file_has_nothing_suspicious(examined, focalcal, tmp_path):
    assert severities(examined(predictions(20_000))) == {"temperature": "info"}
    ran = focalcal("doctor", tmp_path / "test.npz")
    assert ran.code == 0
    assert "Nothing suspicious was found." in ran.out


def test_facts(focalcal, tmp_path):
    path = tmp_path / "facts.parquet"
    preds = predictions(
        300, 3, split="val", class_names=["cat", "dog", "owl"], ids=range(300), provenance={"model": "resnet[50]"}
    )
    preds.save(path)
    content = json.loads(focalcal("doctor", path, "--json").out)
    counts = torch.bincount(preds.labels, minlength=3).tolist()
    expected = {
        "file": "facts.parquet",
        "format": "parquet",
        "kind": "logits",
        "samples": 300,
        "classes": 3,
        "dtype": "float32",
        "split": "val",
        "class_names": ["cat", "dog", "owl"],
        "samples_by_class": counts,
        "ids": True,
        "weights": False,
        "provenance": {"model": "resnet[50]"},
    }
    assert {key: content[key] for key in expected} == expected
    out = focalcal("doctor", path).out
    for text in ("logits, 300 × 3, float32", "cat, dog, owl", "model = resnet[50]", f"{min(counts)} to {max(counts)}"):
        assert text in out


def test_ignored_samples_are_counted(focalcal, tmp_path):
    logits, labels = logits_and_labels(300, 3)
    labels[:20] = -100
    np.savez(tmp_path / "a.npz", logits=logits.numpy(), labels=labels.numpy())
    content = json.loads(focalcal("doctor", tmp_path / "a.npz", "--json").out)
    assert (content["samples"], content["samples_in_file"]) == (280, 300)
    assert "20 samples" in focalcal("doctor", tmp_path / "a.npz").out


class TestKind:
    def test_probabilities_as_logits(self, examined):
        logits, labels = logits_and_labels()
        found = examined(Predictions.from_logits(logits.softmax(1), labels))
        assert found["probabilities_as_logits"]["severity"] == "problem"
        assert "--probs-key logits" in found["probabilities_as_logits"]["advice"]

    def test_advice_names_the_key_that_was_used_and_works(self, examined):
        logits, labels = logits_and_labels()
        arrays = {"scores": logits.softmax(1).numpy(), "labels": labels.numpy()}
        found = examined(None, "--logits-key", "scores", **arrays)
        assert found["probabilities_as_logits"]["advice"] == "Read them with --probs-key scores."
        assert "probabilities_as_logits" not in examined(None, "--probs-key", "scores", **arrays)

    def test_sigmoids_as_logits(self, examined):
        logits, labels = logits_and_labels()
        assert (
            severities(examined(Predictions.from_logits(logits.sigmoid(), labels)))["logits_between_0_and_1"]
            == "warning"
        )

    def test_one_probability_as_a_logit(self, examined):
        logits, labels = logits_and_labels(classes=2)
        found = examined(Predictions.from_logits(logits.softmax(1)[:, 1], labels))
        assert severities(found)["logits_between_0_and_1"] == "warning"

    def test_log_probabilities_are_fine(self, examined):
        logits, labels = logits_and_labels(20_000)
        found = examined(Predictions.from_logits(logits.log_softmax(1), labels))
        assert severities(found) == {"temperature": "info", "log_probabilities": "info"}


class TestPrecision:
    def test_probabilities_of_float16(self, examined):
        logits, labels = logits_and_labels(2000, sharpness=4.0)
        found = examined(None, probs=logits.softmax(1).half().numpy(), labels=labels.numpy())
        assert severities(found)["float16_probabilities"] == "warning"
        assert severities(found)["saturated_confidence"] == "warning"
        assert "0.00049" in found["float16_probabilities"]["what"]

    def test_probabilities_of_bfloat16_saved_as_float32(self, examined):
        logits, labels = logits_and_labels(2000)
        probs = logits.softmax(1).bfloat16().float()
        found = examined(Predictions.from_probs(probs, labels, tolerance=0.1))
        assert severities(found)["bfloat16_probabilities"] == "warning"
        assert severities(found)["row_sums"] == "info"

    def test_logits_of_float16_lose_little(self, examined):
        logits, labels = logits_and_labels(20_000)
        found = examined(Predictions.from_logits(logits.half(), labels))
        assert severities(found) == {"float16_logits": "info", "temperature": "info"}

    def test_few_round_numbers_are_no_float16(self, examined):
        probs = torch.tensor([[0.75, 0.25], [0.5, 0.5]]).repeat(50, 1)
        found = examined(Predictions.from_probs(probs, torch.arange(100) % 2))
        assert not [name for name in found if "float16" in name]

    def test_overflow(self, examined):
        logits, labels = logits_and_labels(200)
        logits[3, 4] = 65504
        assert severities(examined(Predictions.from_logits(logits, labels)))["float16_overflow"] == "problem"

    def test_saturated_logits_are_only_an_info(self, examined):
        logits, labels = logits_and_labels(500, sharpness=10.0)
        assert severities(examined(Predictions.from_logits(logits, labels)))["saturated_confidence"] == "info"

    def test_label_of_probability_zero(self, examined):
        logits, labels = logits_and_labels(200)
        probs = logits.softmax(1)
        probs[5] = torch.eye(10)[(labels[5] + 1) % 10]
        found = examined(Predictions.from_probs(probs, labels))
        assert found["impossible_labels"]["severity"] == "problem"
        assert found["impossible_labels"]["what"].startswith("1 samples")

    def test_masked_label(self, examined):
        logits, labels = logits_and_labels(200)
        logits[5, labels[5]] = -torch.inf
        found = examined(Predictions.from_logits(logits, labels))
        assert "Unmask" in found["impossible_labels"]["advice"]
        assert "temperature" not in found


class TestLabels:
    def test_missing_classes(self, examined):
        logits, labels = logits_and_labels()
        kept = (labels != 3) & (labels != 8)
        found = examined(Predictions.from_logits(logits[kept], labels[kept]))
        assert found["missing_classes"]["severity"] == "warning"
        assert "2 of 10 classes have no sample (3, 8)" in found["missing_classes"]["what"]

    @pytest.mark.parametrize("offset", [-1, 1])
    def test_off_by_one(self, examined, offset):
        logits, labels = logits_and_labels(sharpness=3.0)
        labels = logits.argmax(1)
        kept = (labels + offset >= 0) & (labels + offset < 10)
        found = examined(Predictions.from_logits(logits[kept], labels[kept] + offset))
        assert found["shifted_labels"]["severity"] == "problem"
        assert f"100% with every label {-offset:+d}" in found["shifted_labels"]["what"]
        assert "below_chance" not in found

    def test_swapped(self, examined):
        logits, labels = logits_and_labels(classes=2)
        found = examined(Predictions.from_logits(logits, 1 - labels))
        assert severities(found)["swapped_classes"] == "problem"

    def test_below_chance(self, examined):
        logits, labels = logits_and_labels(2000)
        found = examined(Predictions.from_logits(-logits, labels))
        assert severities(found)["below_chance"] == "problem"
        assert severities(found)["temperature_at_bound"] == "problem"

    def test_labels_of_other_samples(self, examined):
        logits, labels = logits_and_labels(2000)
        found = examined(Predictions.from_logits(logits, labels.roll(1)))
        assert severities(found)["no_better_than_chance"] == "warning"

    def test_most_common_class(self, examined):
        logits, labels = logits_and_labels(1000, 2)
        labels[300:] = 0
        logits[300:700, 0] = logits[300:700, 1] + 1  # right in these, as often as not in the others
        found = examined(Predictions.from_logits(logits, labels))
        assert severities(found)["no_better_than_the_most_common_class"] == "warning"

    def test_one_class_predicted(self, examined):
        logits, labels = logits_and_labels(100)
        logits[:, 4] += 100
        assert severities(examined(Predictions.from_logits(logits, labels)))["one_class_predicted"] == "warning"

    def test_soft_labels(self, examined):
        logits, _ = logits_and_labels(2000)
        found = examined(Predictions.from_logits(logits, logits.softmax(1)))
        assert "missing_classes" not in found


class TestRepeats:
    def test_duplicate_ids(self, examined):
        names = [f"image-{i // 2}" for i in range(600)]
        found = examined(predictions(ids=names, allow_duplicate_ids=True))
        assert found["duplicate_ids"]["severity"] == "problem"
        assert "300 ids occur more than once" in found["duplicate_ids"]["what"]

    def test_duplicate_rows(self, examined):
        preds = predictions(1000)
        found = examined(preds.select(torch.arange(1200) % 1000))
        assert found["duplicate_rows"]["severity"] == "warning"
        assert found["duplicate_rows"]["what"].startswith("16.")

    def test_sure_predictions_repeat_by_rounding(self, examined):
        probs = torch.eye(10).repeat(50, 1)
        found = examined(Predictions.from_probs(probs, probs.argmax(1)))
        assert "duplicate_rows" not in found


class TestFit:
    def test_temperature_is_told(self, examined):
        found = examined(predictions(5000, sharpness=2.0))
        assert "they are over-confident" in found["temperature"]["what"]
        temperature = float(found["temperature"]["what"].split("is ")[1].split(":")[0])
        assert temperature == pytest.approx(2.0, rel=0.1)

    def test_lower_bound(self, examined):
        logits, _ = logits_and_labels(500)
        found = examined(Predictions.from_logits(logits, logits.argmax(1)))
        assert severities(found)["temperature_at_bound"] == "warning"

    def test_scaled_logits(self, examined):
        assert severities(examined(predictions(500, sharpness=40.0)))["unusual_temperature"] == "warning"

    def test_too_few_samples(self, examined):
        found = examined(predictions(40))
        assert found["too_few_samples"]["severity"] == "warning"

    def test_more_samples_are_enough(self, examined):
        assert "too_few_samples" not in examined(predictions(20_000))


class TestPair:
    @pytest.fixture
    def paired(self, examined, tmp_path):
        def run(test, val):
            val.save(tmp_path / "val.safetensors")
            return examined(test, "--val", tmp_path / "val.safetensors")

        return run

    def test_good_pair(self, paired):
        found = paired(predictions(5000, seed=1, split="test"), predictions(5000, seed=2, split="val"))
        assert set(severities(found).values()) == {"info"}

    def test_same_content(self, paired):
        found = paired(predictions(), predictions())
        assert found["val_equals_test"]["severity"] == "problem"
        assert "test.npz and val.safetensors" in found["val_equals_test"]["what"]

    def test_overlap(self, paired):
        test, val = predictions(seed=1), predictions(seed=2)
        both = Predictions.from_logits(
            torch.cat([test.values[:400], val.values]), torch.cat([test.labels[:400], val.labels])
        )
        assert severities(paired(test, both))["val_overlaps_test"] == "problem"
        fewer = Predictions.from_logits(
            torch.cat([test.values[:60], val.values]), torch.cat([test.labels[:60], val.labels])
        )
        assert severities(paired(test, fewer))["val_overlaps_test"] == "warning"

    def test_sure_predictions_are_no_overlap(self, paired):
        probs = torch.eye(10).repeat(50, 1)
        certain = Predictions.from_probs(probs[:400], probs[:400].argmax(1))
        found = paired(certain, Predictions.from_probs(probs, probs.argmax(1)))
        assert "val_overlaps_test" not in found

    def test_common_ids(self, paired):
        names = [f"image-{i}" for i in range(600)]
        same = paired(predictions(seed=1, ids=names), predictions(seed=1, sharpness=1.5, ids=names))
        assert severities(same)["common_ids"] == "problem"
        other = paired(predictions(seed=1, ids=names), predictions(seed=2, ids=names))
        assert severities(other)["common_ids"] == "warning"

    def test_classes(self, paired):
        found = paired(predictions(classes=10), predictions(classes=9, seed=1))
        assert severities(found)["class_count_mismatch"] == "problem"

    def test_class_names(self, paired):
        a = predictions(classes=2, class_names=["no", "yes"])
        b = predictions(classes=2, seed=1, class_names=["yes", "no"])
        assert severities(paired(a, b))["class_names_mismatch"] == "problem"

    def test_splits(self, paired):
        found = paired(predictions(seed=1, split="val"), predictions(seed=2, split="test"))
        assert severities(found)["val_has_wrong_split"] == "problem"
        assert severities(found)["test_has_wrong_split"] == "warning"
        found = paired(predictions(seed=1, split="test"), predictions(seed=2, split="train"))
        assert severities(found)["val_has_wrong_split"] == "warning"

    def test_run_directory(self, focalcal, tmp_path):
        folder = tmp_path / "run" / "predictions"
        folder.mkdir(parents=True)
        for split in ("val", "test"):
            predictions(split=split).save(folder / f"{split}.safetensors")
        ran = focalcal("doctor", tmp_path / "run", "--val", tmp_path / "run", "--json")
        assert "val_equals_test" in [finding["name"] for finding in json.loads(ran.out)["findings"]]


def test_problems_come_first_for_people(focalcal, tmp_path):
    logits, labels = logits_and_labels(40)
    Predictions.from_logits(logits.softmax(1), labels).save(tmp_path / "a.npz")
    ran = focalcal("doctor", tmp_path / "a.npz")
    said = [line.split(":")[0] for line in ran.out.splitlines() if line.split(":")[0] in ("problem", "warning", "info")]
    assert ran.code == 1
    assert said[0] == "problem"
    assert said == sorted(said, key=["problem", "warning", "info"].index)
    assert "Nothing suspicious" not in ran.out


def test_very_large_file_is_examined_in_part(focalcal, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("focalcal.cli.doctor"), "_MOST_VALUES", 700_000)
    predictions(200_000, 5).save(tmp_path / "large.npz")
    content = json.loads(focalcal("doctor", tmp_path / "large.npz", "--json").out)
    assert content["samples_in_file"] == 200_000
    assert 0 < content["samples"] <= 140_000
    assert "part_of_file" in [finding["name"] for finding in content["findings"]]


def test_unreadable_file(refused, tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK nonsense")
    refused("doctor", tmp_path / "a.npz")
    refused("doctor", tmp_path / "b.npz")
    predictions(50).save(tmp_path / "good.npz")
    refused("doctor", tmp_path / "good.npz", "--val", tmp_path / "a.npz")


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_files(examined, name):
    found = examined(real_predictions(name))
    assert "over-confident" in found["temperature"]["what"]
    assert set(severities(found)) <= {"temperature", "saturated_confidence"}
