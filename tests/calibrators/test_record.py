"""The record of a fit."""

import math

import pytest
import torch

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
    record = FitRecord.of(sampled_predictions(9, 3, split="val"), Quality(math.inf, 0.5), Quality(1.0, 0.25))
    content = record.to_dict()
    assert FitRecord.from_dict(content) == record
    assert FitRecord.from_dict({**content, "nll_before": None}) == record
    with pytest.raises(KeyError):
        FitRecord.from_dict({})
