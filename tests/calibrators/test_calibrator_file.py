"""Calibrators in files: the same again, the same bytes, and one sentence for what is not a calibrator."""

import json

import pytest
import torch

from focalcal.calibrators import (
    METHODS,
    FocalInverse,
    HistogramBinning,
    IsotonicCalibration,
    TemperatureScaling,
    VectorScaling,
    load_calibrator,
)
from focalcal.calibrators.calibrator_file import learned_number, learned_tensor, write_json
from focalcal.predictions import Predictions
from oracles.calibrators import build, validation
from oracles.temperature import sampled_predictions


@pytest.fixture(scope="module")
def val():
    return sampled_predictions(200, 3, 2.0, split="val")


@pytest.mark.parametrize("method", METHODS)
def test_what_is_loaded_is_what_was_saved(method, tmp_path):
    val = validation(method, 200, 3, split="val")
    calibrator, path = build(method).fit(val), tmp_path / "calibrator.json"
    calibrator.save(path)
    loaded = load_calibrator(path)
    assert type(loaded) is type(calibrator)
    assert repr(loaded) == repr(calibrator)
    assert loaded.record_ == calibrator.record_
    test = validation(method, 100, 3, seed=1)
    assert torch.equal(loaded.transform(test).values, calibrator.transform(test).values)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_fit_gives_the_same_bytes(method, tmp_path):
    val = validation(method, 200, 3, split="val")
    build(method).fit(val).save(tmp_path / "a.json")
    build(method).fit(val).save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    load_calibrator(tmp_path / "a.json").save(tmp_path / "c.json")
    assert (tmp_path / "c.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json", "c.json"]


def test_the_file_is_json_that_a_person_can_read(val, tmp_path):
    scaler = TemperatureScaling("ece", grid=(1.0, 2.0)).fit(val)
    scaler.save(tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text())
    assert list(content) == ["format", "format_version", "method", "parameters", "learned", "fitted_on"]
    assert content["learned"] == {"temperature": 2.0}
    assert content["parameters"] == {"objective": "ece", "grid": [1.0, 2.0], "bins": 15, "mix_uniform": None}
    assert (content["fitted_on"]["samples"], content["fitted_on"]["split"]) == (200, "val")


def test_an_unfitted_calibrator_that_learns_nothing_can_be_saved(tmp_path):
    FocalInverse(3.0).save(tmp_path / "f.json")
    assert load_calibrator(tmp_path / "f.json").record_ is None


def test_an_infinite_nll_and_empty_bins_survive(tmp_path):
    preds = Predictions.from_probs([[1.0, 0.0], [0.9, 0.1]], [1, 0])
    calibrator = HistogramBinning(3).fit(preds)
    assert calibrator.record_.nll_before == float("inf")
    calibrator.save(tmp_path / "h.json")
    loaded = load_calibrator(tmp_path / "h.json")
    assert loaded.record_ == calibrator.record_
    torch.testing.assert_close(loaded.frequency_, calibrator.frequency_, equal_nan=True)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(val, tmp_path):
    path = tmp_path / "c.json"
    TemperatureScaling().fit(val).save(path)
    old = path.read_bytes()
    with pytest.raises(TypeError):
        write_json({"format": object()}, path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="its folder does not exist"):
        TemperatureScaling().fit(val).save(tmp_path / "missing" / "c.json")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no calibrator file .*none\.json"):
        load_calibrator(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "empty, cut short or not JSON"),
        (b'{"format": "focalcal cal', "empty, cut short or not JSON"),
        (b"\x80\x02}q\x00.", "empty, cut short or not JSON"),
        (b"[" * 100000, "empty, cut short or not JSON"),
        (b"[]", "not a calibrator that focalcal saved"),
        (b'{"temperature": 2}', "not a calibrator that focalcal saved"),
        (b'{"format": "focalcal calibrator", "format_version": 9}', "has calibrator format 9"),
        (b'{"format": "focalcal calibrator", "format_version": 1, "method": "magic"}', "a calibrator 'magic'"),
        (
            b'{"format": "focalcal calibrator", "format_version": 1, "method": ["x"]}',
            "that this focalcal does not have",
        ),
        (b'{"format": "focalcal calibrator", "format_version": 1, "method": "temperature"}', "'parameters' is missing"),
    ],
)
def test_what_is_not_a_calibrator_gets_one_sentence(content, match, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as raised:
        load_calibrator(path)
    assert "x.json" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "key", "value", "match"),
    [
        (TemperatureScaling, ("learned", "temperature"), -1.0, "temperature is -1.0, outside"),
        (TemperatureScaling, ("learned", "temperature"), "2", "temperature is not a number"),
        (TemperatureScaling, ("learned", "temperature"), True, "temperature is not a number"),
        (TemperatureScaling, ("learned",), None, "damaged"),
        (TemperatureScaling, ("learned",), {}, "'temperature' is missing"),
        (TemperatureScaling, ("parameters",), {"depth": 3}, "depth"),
        (TemperatureScaling, ("parameters", "bins"), 0, "bins"),
        (TemperatureScaling, ("fitted_on",), None, "fitted_on is missing"),
        (TemperatureScaling, ("fitted_on", "samples"), "many", "fitted_on is damaged"),
        (TemperatureScaling, ("fitted_on", "nll_after"), "low", "fitted_on is damaged"),
        (VectorScaling, ("learned", "weight"), [1.0, 2.0], "weight has shape .2,. instead of .3,."),
        (VectorScaling, ("learned", "bias"), [1.0, None, 2.0], "bias holds None"),
        (VectorScaling, ("learned", "bias"), [1.0, [2.0], 2.0], "damaged"),
        (HistogramBinning, ("learned", "frequency"), [[2.0] * 15] * 3, "frequency is outside"),
        (IsotonicCalibration, ("learned", "thresholds"), [[0.5]], "thresholds is not one list per class"),
        (IsotonicCalibration, ("learned", "curve"), [[0.5]] * 3, "does not belong to the thresholds"),
        (IsotonicCalibration, ("learned", "curve"), [[]] * 3, "damaged"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(kind, key, value, match, val, tmp_path):
    path = tmp_path / "c.json"
    kind().fit(val).save(path)
    content = json.loads(path.read_text())
    part = content
    for name in key[:-1]:
        part = part[name]
    part[key[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=match) as raised:
        load_calibrator(path)
    assert str(raised.value).count("\n") == 0
    assert "c.json is a damaged calibrator" in str(raised.value)


def test_numbers_of_a_file_are_finite():
    with pytest.raises(ValueError, match="not a number"):
        learned_number({"t": float("nan")}, "t")
    with pytest.raises(ValueError, match="where a number belongs"):
        learned_tensor({"w": [float("inf")]}, "w", (1,))
