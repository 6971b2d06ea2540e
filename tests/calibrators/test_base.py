"""Properties that hold for every calibrator of the registry."""

import warnings

import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import focalcal
from focalcal.calibrators import METHODS, CalibrationWarning, TemperatureScaling
from focalcal.calibrators.base import keep_argmax
from focalcal.metrics.calibration_error import ece
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from oracles.calibrators import LEARNING, STEPS, build, classes_of, validation
from oracles.temperature import sampled_predictions


@pytest.fixture
def val(method):
    names = ["a", "b", "c", "d"][: classes_of(method)]
    return validation(method, split="val", ids=range(300), class_names=names)


@pytest.mark.parametrize("method", LEARNING)
def test_unfitted_use_raises(method, val, tmp_path):
    """PEERS, defect 12: an unfitted scaler that logs an error and returns numbers."""
    for use in (lambda c: c.transform(val), lambda c: c.to_module(), lambda c: c.save(tmp_path / "c.json")):
        with pytest.raises(NotFittedError, match=r"is not fitted yet; call fit with validation predictions\.$"):
            use(build(method))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", LEARNING)
def test_a_failed_second_fit_leaves_nothing_fitted(method, val):
    calibrator = build(method).fit(val)
    masked = Predictions.from_logits(torch.tensor([[0.0, 1.0], [-torch.inf, 1.0]]), [0, 0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            calibrator.fit(masked)
    except ValueError:
        with pytest.raises(NotFittedError):
            calibrator.transform(val)


@pytest.mark.parametrize("method", METHODS)
def test_fit_on_the_test_split_must_be_asked_for_by_name(method, val):
    test = Predictions.from_logits(val.values, val.labels, split="test")
    with pytest.raises(ValueError, match=r"split 'test'.*allow_test=True"):
        build(method).fit(test)
    assert build(method).fit(test, allow_test=True).record_.split == "test"


@pytest.mark.parametrize("method", METHODS)
def test_transform_changes_the_values_alone(method, val):
    calibrator = build(method)
    assert calibrator.fit(val) is calibrator
    calibrated = calibrator.transform(val)
    assert torch.equal(calibrated.labels, val.labels)
    assert (calibrated.ids, calibrated.split, calibrated.class_names) == (val.ids, val.split, val.class_names)
    assert calibrated.values.dtype == val.values.dtype
    torch.testing.assert_close(calibrated.probs().sum(1), torch.ones(300).double())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_the_record_tells_nll_and_ece_before_and_after(method, kind, val):
    preds = val if kind == "logits" else Predictions.from_probs(val.probs(), val.labels, split="val")
    calibrator = build(method).fit(preds)
    record, calibrated = calibrator.record_, calibrator.transform(preds)
    assert (record.focalcal, record.samples, record.classes, record.split) == (
        focalcal.__version__,
        300,
        classes_of(method),
        "val",
    )
    assert (record.nll_before, record.ece_before) == pytest.approx((nll(preds), ece(preds)), rel=1e-9)
    assert (record.nll_after, record.ece_after) == pytest.approx((nll(calibrated), ece(calibrated)), rel=1e-9)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("identity", "focal-inverse", "histogram")])
def test_fitting_repairs_over_confidence(method):
    val, test = validation(method, 4000, scale=3.0), validation(method, 4000, scale=3.0, seed=9)
    calibrated = build(method).fit(val).transform(test)
    assert ece(calibrated) < 0.3 * ece(test)


@pytest.mark.parametrize("method", [m for m in METHODS if build(m).keeps_argmax])
def test_accuracy_is_unchanged_where_that_is_promised(method, val):
    assert accuracy(build(method).fit(val).transform(val)) == accuracy(val)


@pytest.mark.parametrize("method", METHODS)
def test_another_number_of_classes_is_an_error(method, val):
    calibrator = build(method).fit(val)
    with pytest.raises(ValueError, match=r"fitted on \d classes and cannot be applied to predictions of 3\.$"):
        calibrator.transform(sampled_predictions(5, 3))


@pytest.mark.parametrize("method", METHODS)
def test_only_predictions_are_taken(method, val):
    with pytest.raises(TypeError, match="needs Predictions, not Tensor"):
        build(method).fit(val.values)
    with pytest.raises(TypeError, match="needs Predictions, not ndarray"):
        build(method).fit(val).transform(val.values.numpy())


@pytest.mark.parametrize("method", METHODS)
def test_parameters_repr_and_clone(method, val):
    calibrator = build(method).fit(val)
    copy = clone(calibrator)
    assert copy.get_params() == calibrator.get_params()
    assert copy.record_ is None
    assert repr(copy) == repr(calibrator)
    assert repr(calibrator).startswith(type(calibrator).__name__ + "(")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_many_blocks_give_what_one_row_at_a_time_gives(method, kind, val, monkeypatch):
    few = val.select(range(40))
    preds = few if kind == "logits" else Predictions.from_probs(few.probs().float(), few.labels)
    calibrator = build(method).fit(preds)
    whole = calibrator.transform(preds)
    blocks = type(preds).blocks
    monkeypatch.setattr(type(preds), "blocks", lambda self, rows=None: blocks(self, 1))
    torch.testing.assert_close(calibrator.transform(preds).values, whole.values)


@pytest.mark.parametrize("method", METHODS)
def test_modules_give_what_transform_gives(method, val):
    calibrator = build(method).fit(val)
    expected = calibrator.transform(val).probs()
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5), (torch.float16, 2e-2)):
        logits = calibrator.to_module()(val.values.to(dtype))
        assert logits.dtype == dtype
        if method not in STEPS or dtype == torch.float64:  # rounding moves a value past a step
            torch.testing.assert_close(logits.double().softmax(1), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", METHODS)
def test_modules_can_be_appended_exported_and_moved(method, val):
    module = build(method).fit(val).to_module()
    logits = val.values.float()
    network = torch.nn.Sequential(torch.nn.Identity(), module).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.export, about itself
        exported = torch.export.export(
            network, (logits,), dynamic_shapes={"input": {0: torch.export.Dim("samples")}}
        ).module()
    torch.testing.assert_close(exported(logits[:7]), module(logits[:7]))
    twin = build(method).fit(validation(method, scale=3.0, seed=5)).to_module()
    if method not in ("isotonic", "auto"):  # whose curves have other lengths, whose members may be others
        twin.load_state_dict(module.state_dict())


@pytest.mark.parametrize("method", METHODS)
def test_modules_take_the_class_on_axis_one_whatever_follows(method, val):
    """Vector scaling and histogram binning once took the last axis where it was as long as the classes."""
    module, classes = build(method).fit(val).to_module(), classes_of(method)
    logits = val.values[: 15 * classes].reshape(3, 5, classes, classes).movedim(2, 1)
    calibrated = module(logits)
    assert calibrated.shape == logits.shape
    rows = logits.movedim(1, -1).reshape(-1, classes)
    torch.testing.assert_close(calibrated.movedim(1, -1).reshape(-1, classes), module(rows))
    calibrated = module(logits[..., 0])
    torch.testing.assert_close(calibrated, module(logits)[..., 0])


def test_values_of_every_kind_of_float_are_calibrated_alike():
    values = sampled_predictions(200, 4, 2.0).values.half()
    temperatures = [
        TemperatureScaling().fit(Predictions.from_logits(values.to(t), torch.arange(200) % 4)).temperature_
        for t in (torch.float16, torch.float32, torch.float64)
    ]
    assert temperatures == pytest.approx([temperatures[2]] * 3, rel=1e-5)


def test_keep_argmax_raises_the_prediction_by_one_float():
    before = torch.tensor([[1.0, 2.0], [2.0, 2.0], [3.0, 1.0]])
    after = torch.tensor([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    keep_argmax(before, after)
    assert after.argmax(1).tolist() == [1, 0, 0]
    assert after[0, 1] == torch.tensor(1.0).nextafter(torch.tensor(2.0))
    assert torch.equal(after[1:], torch.tensor([[1.0, 1.0], [2.0, 1.0]]))
