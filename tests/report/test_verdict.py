import math

import pytest

from focalcal.metrics import CalibrationTest, Evaluation
from focalcal.report.verdict import BALANCED, UNDECIDED, shows_miscalibration, tendency, verdict


def said(values, intervals=None, test=None):
    return " ".join(verdict(Evaluation(values, 100, 2, 15, intervals or {}, 0.9, calibration_test=test)))


@pytest.mark.parametrize(
    ("gap", "interval", "words"),
    [
        (0.054, (0.05, 0.06), "Over-confident by 5.4 points: mean confidence 95.40%, accuracy 90.00%."),
        (-0.12, (-0.13, -0.11), "Under-confident by 12.0 points: mean confidence 78.00%, accuracy 90.00%."),
        (0.01, (-0.01, 0.03), "Neither over- nor under-confident on the whole: mean confidence 91.00%"),
        (0.01, (-0.02, 0.04), "Too few samples to show over- or under-confidence either way: mean confidence 91.00%"),
        (0.08, None, "Over-confident by 8.0 points"),
        (0.01, None, "Too few samples to show over- or under-confidence either way"),
    ],
)
def test_confidence(gap, interval, words):
    values = {"accuracy": 0.9, "signed_gap": gap, "mean_confidence": 0.9 + gap}
    assert words in said(values, None if interval is None else {"signed_gap": interval})


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (0.41, "no miscalibration detected (p = 0.41)."),
        (0.051, "no miscalibration detected (p = 0.051)."),
        (0.049, "the model is miscalibrated (p = 0.049)."),
        (0.0002, "the model is miscalibrated (p < 0.001)."),
    ],
)
def test_the_test_of_calibration_decides(p_value, words):
    """An ECE of 1.22% was "within what a perfect model would show (0.99%)": now there is a range, and a p-value."""
    sentence = said({"ece": 0.0122}, test=CalibrationTest(p_value, 0.0122, (0.0071, 0.0138)))
    facts = "ECE is 1.22%; a perfectly calibrated model would show 0.71% to 1.38% on these samples (5% to 95%)"
    assert sentence == f"{facts}: {words}"


def test_balance_without_an_interval_takes_many_samples():
    values = {"accuracy": 0.9, "signed_gap": 0.0, "mean_confidence": 0.9}
    assert tendency(Evaluation(values, 100, 2, 15)) == UNDECIDED
    assert tendency(Evaluation(values, 1000, 2, 15)) == BALANCED


@pytest.mark.parametrize(
    ("n", "accuracy", "confidence", "decided"),
    [(20, 1.0, 0.9, False), (20, 1.0, 0.7, True), (20, 0.0, 0.1, False), (20, 0.0, 0.9, True), (1, 0.0, 0.999, False)],
)
def test_samples_that_are_all_right_or_all_wrong(n, accuracy, confidence, decided):
    gap = confidence - accuracy
    values = {
        "accuracy": accuracy,
        "signed_gap": gap,
        "mean_confidence": confidence,
        "ece": abs(gap),
    }
    ends = {"signed_gap": (gap - 0.01, gap + 0.01), "ece": (abs(gap) - 0.01, abs(gap) + 0.01)}
    found = Evaluation(values, n, 2, 15, ends, 0.9, calibration_test=CalibrationTest(0.01, abs(gap), (0.0, 0.05)))
    assert (tendency(found) != UNDECIDED) == decided
    assert shows_miscalibration(found) == decided
    assert ("too few to detect miscalibration" in " ".join(verdict(found))) == (not decided)


def test_an_infinite_loss():
    assert said({"nll": math.inf}) == "Labels were given probability 0: NLL is infinite; clip or smooth before use."
    assert verdict(Evaluation({"nll": math.inf}, 9, 2, 15), 1)[0].startswith("1 label was given probability 0")


def test_nothing_is_said_without_the_numbers():
    assert said({"nll": 1.0}) == ""
    assert said({"signed_gap": math.nan, "ece": math.nan}) == ""


def test_a_gap_alone_is_judged_by_what_chance_could_make():
    assert tendency(Evaluation({"signed_gap": -0.0035}, 1500, 2, 15)) == BALANCED
    assert tendency(Evaluation({"signed_gap": -0.0035}, 100, 2, 15)) == UNDECIDED
    assert tendency(Evaluation({"signed_gap": -0.05}, 1500, 2, 15)) == "Under-confident by 5.0 points"
