"""Calibration of probabilities: the calibrators themselves, with labels of any type."""

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import focalcal as fc
from focalcal.integrations.sklearn import ProbabilityCalibrator
from oracles.temperature import sampled_predictions

METHODS = ["temperature", "structured-vector", "isotonic", "histogram"]


def sampled(n=200, classes=3, seed=0):
    preds = sampled_predictions(n, classes, 2.0, seed)
    return preds.probs().numpy(), preds.labels.numpy()


@settings(max_examples=25)
@given(
    st.sampled_from(["temperature", "structured-vector", "isotonic", "histogram"]), st.integers(2, 6), st.integers(0, 9)
)
def test_it_is_the_calibrator(method, classes, seed):
    p, y = sampled(80, classes, seed)
    new, _ = sampled(30, classes, seed + 1)
    found = ProbabilityCalibrator(method).fit(p, y).predict_proba(new)
    calibrator = fc.build_calibrator(method).fit(fc.Predictions.from_probs(p, y))
    expected = calibrator.transform(fc.Predictions.from_probs(new, np.zeros(30, int))).probs().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-15)


def test_one_column_is_the_second_class():
    p, y = sampled(classes=2)
    two = ProbabilityCalibrator("beta").fit(p, y)
    for column in (p[:, 1], p[:, 1:], p[:, 1].tolist(), pandas.Series(p[:, 1]).to_frame()):
        one = ProbabilityCalibrator("beta").fit(column, np.array(["no", "yes"])[y])
        np.testing.assert_allclose(one.predict_proba(column), two.predict_proba(p), atol=1e-9)
        assert one.classes_.tolist() == ["no", "yes"]


def test_logits():
    preds = sampled_predictions(100, 4, 2.0)
    found = ProbabilityCalibrator("vector", kind="logits").fit(preds.values.numpy(), preds.labels.numpy())
    expected = fc.VectorScaling().fit(preds).transform(preds).probs().numpy()
    np.testing.assert_allclose(found.predict_proba(preds.values.numpy()), expected, atol=1e-12)


def test_columns_and_classes():
    p, y = sampled()
    missing = y < 2
    numbers = ProbabilityCalibrator("temperature").fit(p[missing], y[missing])
    assert numbers.classes_.tolist() == [0, 1, 2]
    names = np.array(["cat", "dog", "eel"])[y]
    with pytest.raises(ValueError, match="3 columns and 2 classes in y, so that it is not clear"):
        ProbabilityCalibrator("temperature").fit(p[missing], names[missing])
    with pytest.raises(ValueError, match="3 columns and 2 classes in y, so that it is not clear"):
        ProbabilityCalibrator("temperature").fit(p[missing], y[missing] + 1)  # numbered from 1, without the last
    given_names = ProbabilityCalibrator("temperature", classes=["cat", "dog", "eel"]).fit(p[missing], names[missing])
    np.testing.assert_array_equal(given_names.predict_proba(p), numbers.predict_proba(p))
    assert given_names.predict(p)[p[:, 2].argmax()] == "eel"
    swapped = ProbabilityCalibrator("temperature", classes=["eel", "dog", "cat"]).fit(p[:, ::-1], names)
    np.testing.assert_array_equal(swapped.predict(p[:, ::-1]), names[[list(y).index(k) for k in p.argmax(1)]])


def test_weights_and_calibrators_as_arguments():
    p, y = sampled()
    weights = torch.linspace(0.1, 3, len(y)).double().numpy()
    found = ProbabilityCalibrator(fc.TemperatureScaling("ece", bins=10)).fit(p, y, sample_weight=weights)
    expected = fc.TemperatureScaling("ece", bins=10).fit(fc.Predictions.from_probs(p, y, weights=weights))
    assert found.calibrator_.temperature_ == expected.temperature_


def test_bad_input():
    p, y = sampled()
    with pytest.raises(ValueError, match="sum to 2, not to 1"):
        ProbabilityCalibrator("temperature").fit(np.ones((4, 2)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="kind must be 'logits' or 'probs'"):
        ProbabilityCalibrator("temperature", kind="scores").fit(p, y)
    with pytest.raises(ValueError, match="classes must be 3 different labels"):
        ProbabilityCalibrator("temperature", classes=[0, 1]).fit(p, y)
    with pytest.raises(ValueError, match="The label '2' is not one of the classes, 0, 1, 5"):
        ProbabilityCalibrator("temperature", classes=[0, 1, 5]).fit(p, y)
    with pytest.raises(ValueError, match="platt is for two classes, and y has 3"):
        ProbabilityCalibrator("platt").fit(p, y)
    fitted = ProbabilityCalibrator("temperature").fit(p, y)
    with pytest.raises(ValueError, match="2 features, but ProbabilityCalibrator is expecting 3"):
        fitted.predict_proba(p[:, :2])
    with pytest.raises(ValueError, match="Every sample_weight is zero"):
        fitted.fit(p, y, np.zeros(len(y)))
