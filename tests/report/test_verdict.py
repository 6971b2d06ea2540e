import math

import pytest

from focalcal.metrics import Evaluation
from focalcal.report.verdict import verdict


def said(values, intervals=None):
    return " ".join(verdict(Evaluation(values, 100, 2, 15, intervals or {}, 0.9)))


@pytest.mark.parametrize(
    ("gap", "interval", "words"),
    [
        (0.054, (0.05, 0.06), "Over-confident by 5.4 points: mean confidence 95.40%, accuracy 90.00%."),
        (-0.12, (-0.13, -0.11), "Under-confident by 12.0 points: mean confidence 78.00%, accuracy 90.00%."),
        (0.01, (-0.01, 0.03), "Neither over- nor under-confident on the whole: mean confidence 91.00%"),
        (0.01, None, "Over-confident by 1.0 points"),
        (0.0, None, "Neither over- nor under-confident"),
    ],
)
def test_confidence(gap, interval, words):
    values = {"accuracy": 0.9, "signed_gap": gap, "mean_confidence": 0.9 + gap}
    assert words in said(values, None if interval is None else {"signed_gap": interval})


@pytest.mark.parametrize(
    ("ece", "low", "words"),
    [
        (0.05, 0.04, "the model is miscalibrated"),
        (0.05, 0.009, "miscalibration is not shown."),
        (0.005, 0.0, "miscalibration is not shown."),
        (0.05, math.nan, "the model is miscalibrated"),
        (0.015, math.nan, "not shown without an interval"),
        (0.009, math.nan, "miscalibration is not shown."),
    ],
)
def test_ece_and_its_floor(ece, low, words):
    intervals = {} if math.isnan(low) else {"ece": (low, 2 * ece)}
    assert words in said({"ece": ece, "ece_floor": 0.01}, intervals)


def test_nothing_is_said_without_the_numbers():
    assert said({"nll": 1.0}) == ""
    assert said({"signed_gap": math.nan, "ece": math.nan, "ece_floor": math.nan}) == ""
