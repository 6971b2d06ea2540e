import json

import numpy as np
import torch

from focalcal.diagnosis import diagnose
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels, predictions


def test_good_file_has_nothing_suspicious(focalcal, tmp_path):
    predictions(20_000).save(tmp_path / "test.npz")
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


def test_problems_come_first_for_people(focalcal, tmp_path):
    logits, labels = logits_and_labels(40)
    Predictions.from_logits(logits.softmax(1), labels).save(tmp_path / "a.npz")
    ran = focalcal("doctor", tmp_path / "a.npz")
    said = [line.split(":")[0] for line in ran.out.splitlines() if line.split(":")[0] in ("problem", "warning", "info")]
    assert ran.code == 1
    assert said[0] == "problem"
    assert said == sorted(said, key=["problem", "warning", "info"].index)
    assert "Nothing suspicious" not in ran.out


def test_unreadable_file(refused, tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK nonsense")
    refused("doctor", tmp_path / "a.npz")
    refused("doctor", tmp_path / "b.npz")
    predictions(50).save(tmp_path / "good.npz")
    refused("doctor", tmp_path / "good.npz", "--val", tmp_path / "a.npz")


def test_json_is_what_diagnose_gives(focalcal, pair):
    ran = focalcal("doctor", pair[1], "--val", pair[0], "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == json.loads(json.dumps(diagnose(pair[1], val=pair[0]).to_dict()))


def test_advice_names_the_option_that_was_used_and_works(focalcal, tmp_path):
    logits, labels = logits_and_labels()
    np.savez(tmp_path / "a.npz", scores=logits.softmax(1).numpy(), labels=labels.numpy())
    ran = focalcal("doctor", tmp_path / "a.npz", "--logits-key", "scores", "--json")
    assert ran.code == 1
    (problem,) = [finding for finding in json.loads(ran.out)["findings"] if finding["severity"] == "problem"]
    assert problem["advice"] == "Read them with --probs-key scores."
    shown = focalcal("doctor", tmp_path / "a.npz", "--logits-key", "scores").out
    assert "Read them with --probs-key scores." in " ".join(shown.split())
    assert focalcal("doctor", tmp_path / "a.npz", "--probs-key", "scores").code == 0


def test_run_directory(focalcal, tmp_path):
    folder = tmp_path / "run" / "predictions"
    folder.mkdir(parents=True)
    for split in ("val", "test"):
        predictions(split=split).save(folder / f"{split}.safetensors")
    ran = focalcal("doctor", tmp_path / "run", "--val", tmp_path / "run", "--json")
    assert "val_equals_test" in [finding["name"] for finding in json.loads(ran.out)["findings"]]
