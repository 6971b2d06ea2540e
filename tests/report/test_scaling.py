import pytest
import torch

from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import ece, evaluate
from focalcal.predictions import Predictions, open_predictions
from focalcal.report import scaling as module
from focalcal.report.scaling import Scaling, fit_scaling
from report.conftest import world


def test_fitted_on_validation_predictions():
    test, val = world(500, 4, split="test"), world(700, 4, seed=1, split="val")
    scaling, notes = fit_scaling(test, val)
    scaler = TemperatureScaling().fit(val)
    assert scaling == Scaling((scaler.temperature_,), "val", 700)
    assert notes == []
    torch.testing.assert_close(scaling.apply(test).values, scaler.transform(test).values, rtol=1e-6, atol=0)


def test_fitted_by_ece_on_the_paper_s_grid():
    test, val = world(500, 4, split="test"), world(700, 4, seed=1, split="val")
    scaling, _ = fit_scaling(test, val, "ece")
    assert scaling == Scaling((TemperatureScaling(objective="ece").fit(val).temperature_,), "val", 700, "ece")
    assert scaling.criterion == "validation ECE"
    assert fit_scaling(test, None, "nll")[0].criterion == "NLL"


def test_cross_fitted_each_part_on_the_others():
    preds = world(503, 4, split="test")
    scaling, _ = fit_scaling(preds, None)
    assert scaling.source == "cross"
    part = torch.arange(503) % 5
    for i in range(5):
        others = TemperatureScaling().fit(preds.select(part != i), allow_test=True)
        assert scaling.temperatures[i] == pytest.approx(others.temperature_)
        wanted = others.transform(preds.select(part == i)).values
        torch.testing.assert_close(scaling.apply(preds).values[part == i], wanted, rtol=1e-6, atol=1e-6)
    assert scaling.temperature == pytest.approx(2.0, rel=0.25)
    assert ece(scaling.apply(preds)) < 0.5 * ece(preds)


def test_predictions_of_parts_are_those_of_the_whole():
    preds = world(50, 3)
    scaling = Scaling((1.0, 2.0, 3.0), "cross", 30)
    parts = [scaling.apply(preds.select(range(a, b)), first=a).values for a, b in ((0, 17), (17, 50))]
    assert torch.equal(torch.cat(parts), scaling.apply(preds).values)


@pytest.fixture
def large_file(tmp_path, monkeypatch):
    """A file that is treated as too large to be read whole, and predictions too many to be fitted on."""
    preds = world(2000, 4)
    preds.save(tmp_path / "large.safetensors")
    monkeypatch.setattr(module, "_FITTED_VALUES", 2000)
    monkeypatch.setattr(module, "_MANY_VALUES", 1000)
    return open_predictions(tmp_path / "large.safetensors"), preds


def test_a_large_file_is_fitted_on_every_few_samples(large_file):
    file, preds = large_file
    scaling, _ = fit_scaling(file, None)
    rows = torch.arange(0, 2000, 5)  # 8000 outputs: every fourth sample would do, and an odd step is taken
    assert scaling.fitted_samples == 200
    for i in range(2):
        wanted = TemperatureScaling().fit(preds.select(rows[rows % 2 != i])).temperature_
        assert scaling.temperatures[i] == pytest.approx(wanted)


def test_a_large_file_is_scaled_as_it_is_read(large_file):
    file, preds = large_file
    scaling, _ = fit_scaling(file, None)
    scaled = scaling.scale(file)
    blocks = torch.cat([block.values for block in scaled.blocks(300)])
    assert torch.equal(blocks, scaling.apply(preds).values)
    one, other = (evaluate(p, metrics=["nll"], bootstrap=0) for p in (scaled, scaling.apply(preds)))
    assert one.values == other.values


def test_no_finite_temperature():
    logits = world(200, 3).values
    scaling, notes = fit_scaling(Predictions.from_logits(logits, logits.argmax(1)), None)
    assert scaling is None
    assert notes[0].startswith("No temperature is proposed. The temperature stopped at its lower bound")


def test_too_few_samples():
    scaling, notes = fit_scaling(world(9, 3), None)
    assert scaling is None
    assert "9 samples are too few" in notes[0]


def test_validation_predictions_of_another_network():
    with pytest.raises(ValueError, match="have 4 classes and the others 3"):
        fit_scaling(world(50, 3), world(50, 4))


def test_the_same_samples_are_cross_fitted_and_never_called_validation():
    scaling, notes = fit_scaling(world(50, 3), world(50, 3))
    assert scaling == fit_scaling(world(50, 3), None)[0]
    assert notes == ["The validation predictions are those that are reported on, and were not used."]


def test_test_data_are_refused_as_validation_data():
    with pytest.raises(ValueError, match="split 'test'"):
        fit_scaling(world(50, 3), world(50, 3, split="test"))


def test_no_prediction_changes_where_rounding_makes_outputs_equal():
    top = torch.tensor(1.0)
    below = top.nextafter(torch.tensor(0.0))
    preds = Predictions.from_logits(torch.stack([below, top]).repeat(50, 1), torch.ones(50, dtype=torch.int64))
    temperatures = tuple(1 + i / 49 for i in range(50))
    plain = preds.values / torch.tensor(temperatures)[:, None]
    assert (plain.argmax(1) == 0).any()
    assert (Scaling(temperatures, "cross", 1).apply(preds).values.argmax(1) == 1).all()
