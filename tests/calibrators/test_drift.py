"""Whether a calibrator that was fitted on earlier data holds on new data."""

import json
import math

import pytest
import torch
from sklearn.exceptions import NotFittedError

from focalcal.calibrators import (
    Identity,
    IsotonicCalibration,
    TemperatureScaling,
    VectorScaling,
    calibrator_drift,
)
from focalcal.metrics import nll
from focalcal.predictions import Predictions


def month(n, seed, sharpness=2.0, **parts):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(sharpness * logits, labels, **parts)


@pytest.mark.parametrize("kind", [TemperatureScaling, VectorScaling, IsotonicCalibration])
def test_a_calibrator_holds_until_the_data_change(kind):
    january = kind().fit(month(2000, 1))
    same, other = calibrator_drift(january, month(1000, 2)), calibrator_drift(january, month(1000, 3, sharpness=4.0))
    assert same.holds
    assert same.helps
    said = "no lower NLL;" if same.loss.mean <= 0 else "no significantly lower NLL (p = "
    assert same.verdict.startswith(f"still holds: a refit on the new data has {said}")
    assert not other.holds
    assert other.verdict.startswith("no longer holds: a refit on the new data would lower the NLL by")
    assert other.loss.interval[0] > 0


def test_scores_are_those_of_the_metrics():
    january, february = TemperatureScaling().fit(month(500, 1)), month(300, 2)
    found = calibrator_drift(january, february)
    assert found.uncalibrated == pytest.approx(nll(february))
    assert found.calibrated == pytest.approx(nll(january.transform(february)))
    assert found.gain.mean == pytest.approx(found.uncalibrated - found.calibrated)
    assert found.loss.mean == pytest.approx(found.calibrated - found.refitted)
    assert found.refitted >= nll(TemperatureScaling().fit_transform(february))


def test_a_calibrator_that_holds_is_said_to_fail_no_more_often_than_the_level_says():
    failed = 0
    for seed in range(40):
        january = TemperatureScaling().fit(month(4000, 2 * seed))
        failed += not calibrator_drift(january, month(300, 2 * seed + 1)).holds
    assert failed <= 6


def test_a_calibrator_that_harms_is_named():
    found = calibrator_drift(TemperatureScaling().fit(month(1000, 1, sharpness=4.0)), month(1000, 2, sharpness=1.0))
    assert not found.helps
    assert "is higher than" in found.verdict


def test_what_learns_nothing_is_compared_with_temperature_scaling():
    assert not calibrator_drift(Identity(), month(500, 1)).holds
    assert calibrator_drift(Identity(), month(500, 1, sharpness=1.0)).holds


def test_an_infinite_loss_is_judged_by_the_brier_score():
    january = IsotonicCalibration(smoothing=0).fit(month(30, 1))
    found = calibrator_drift(january, month(200, 2))
    assert found.score == "brier"
    assert "Brier score" in found.verdict
    assert math.isfinite(found.loss.p_value)


def test_copies_in_clusters_are_no_more_than_one_of_each():
    """40 copies of each of 60 samples: blind to clusters, every small difference would be significant."""
    january, once = TemperatureScaling().fit(month(1000, 1)), month(60, 2, sharpness=1.7)
    rows = torch.arange(60).repeat_interleave(40)
    copies = once.select(rows)
    clustered = Predictions.from_logits(copies.values, copies.labels, clusters=rows)
    expected, found, blind = (calibrator_drift(january, each) for each in (once, clustered, copies))
    assert (expected.clusters, found.clusters, found.n) == (None, 60, 2400)
    assert found.gain.mean == pytest.approx(expected.gain.mean)
    wide, narrow = (one.gain.interval[1] - one.gain.interval[0] for one in (found, blind))
    once_wide = expected.gain.interval[1] - expected.gain.interval[0]
    assert wide == pytest.approx(once_wide, rel=0.05)
    assert narrow < wide / 5
    assert "rough" not in found.verdict
    # A refit that had seen copies of the sample would look better than it is.
    assert found.refitted == pytest.approx(expected.refitted, abs=0.02)


def test_few_clusters_are_said_to_be_few_and_fewer_refused():
    january, preds = TemperatureScaling().fit(month(1000, 1)), month(200, 2)
    few = Predictions.from_logits(preds.values, preds.labels, clusters=torch.arange(200) % 12)
    assert "Judged by 12 clusters, which are few" in calibrator_drift(january, few).verdict
    fewer = Predictions.from_logits(preds.values, preds.labels, clusters=torch.arange(200) % 9)
    with pytest.raises(ValueError, match="cannot be judged by the samples of 9 clusters"):
        calibrator_drift(january, fewer)


def test_weights_and_json():
    weights = torch.ones(200, dtype=torch.float64)
    weights[100:] = 0
    january = TemperatureScaling().fit(month(500, 1))
    found = calibrator_drift(january, month(200, 2, weights=weights))
    first = january.transform(month(200, 2)).select(list(range(100)))
    assert found.calibrated == pytest.approx(nll(first))
    content = json.loads(json.dumps(found.to_dict()))
    assert (content["method"], content["holds"]) == ("temperature", found.holds)


def test_bad_input_is_one_sentence():
    with pytest.raises(NotFittedError):
        calibrator_drift(TemperatureScaling(), month(20, 1))
    with pytest.raises(ValueError, match="cannot be judged by 5 samples"):
        calibrator_drift(TemperatureScaling().fit(month(100, 1)), month(5, 2))
