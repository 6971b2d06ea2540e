"""The record of a fit."""

import json
import math

import pytest
import torch

from focalcal.calibrators import PlattScaling, TemperatureScaling, VectorScaling, load_calibrator
from focalcal.calibrators.record import FitRecord, Quality, quality
from focalcal.metrics.calibration_error import ece
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions


def test_quality_is_nll_and_ece():
    preds = sampled_predictions(200, 3, 2.0)
    weighted = Predictions.from_logits(preds.values, preds.labels, weights=torch.linspace(0, 1, 200))
    for each in (preds, weighted):
        assert quality(each) == pytest.approx((nll(each), ece(each)), rel=1e-12)


def test_a_record_survives_a_dictionary():
    record = FitRecord.of_fit(sampled_predictions(9, 3, split="val"), Quality(math.inf, 0.5), Quality(1.0, 0.25))
    content = record.to_dict()
    assert FitRecord.from_dict(content) == record
    assert FitRecord.from_dict({**content, "nll_before": None}) == record
    with pytest.raises(KeyError):
        FitRecord.from_dict({})


def test_predictions_of_another_network_are_refused():
    names = ("cat", "dog", "eel")
    val = sampled_predictions(60, 3, class_names=names)
    scaler = VectorScaling().fit(val)
    assert scaler.record_.class_names == names
    with pytest.raises(ValueError, match=r"other classes: class 1 is 'dog' there and 'fox' here"):
        scaler.transform(sampled_predictions(9, 3, class_names=("cat", "fox", "eel")))
    with pytest.raises(ValueError, match=r"another order \(cat, dog, eel there, eel, dog, cat here\)"):
        scaler.transform(sampled_predictions(9, 3, class_names=names[::-1]))
    scaler.transform(sampled_predictions(9, 3))  # without names nothing is known
    TemperatureScaling().fit(val).transform(sampled_predictions(9, 3, class_names=names[::-1]))
    pairs = Predictions.from_confidence([0.5, 0.75], [0, 1])
    score = Predictions.from_probs([0.9, 0.8, 0.3, 0.2, 0.9, 0.1], [1, 0, 0, 0, 1, 1])
    with pytest.raises(ValueError, match="fitted on the score of class 1, and these are predictions of the confidence"):
        PlattScaling().fit(score).transform(pairs)


def test_names_are_saved_and_files_without_them_are_read(tmp_path):
    scaler = VectorScaling().fit(sampled_predictions(60, 3, class_names=("a", "b", "c")))
    scaler.save(tmp_path / "v.json")
    assert load_calibrator(tmp_path / "v.json").record_ == scaler.record_
    text = json.loads((tmp_path / "v.json").read_text())
    for name in ("of", "class_names"):
        del text["fitted_on"][name]
    (tmp_path / "old.json").write_text(json.dumps(text))
    assert load_calibrator(tmp_path / "old.json").record_.class_names is None
    text["fitted_on"]["class_names"] = ["a", "b"]
    (tmp_path / "old.json").write_text(json.dumps(text))
    with pytest.raises(ValueError, match="damaged"):
        load_calibrator(tmp_path / "old.json")
