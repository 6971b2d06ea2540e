"""AutoCalibration chooses by cross-validation, never does worse there than nothing, and says why."""

import json

import numpy as np
import pytest
import torch

from focalcal.calibrators import (
    AutoCalibration,
    CalibrationWarning,
    StructuredScaling,
    TemperatureScaling,
    load_calibrator,
)
from focalcal.calibrators.auto import options_for
from focalcal.calibrators.cross_validation import draw_folds, log_losses, mean_and_error, predict_held_out
from focalcal.metrics.scores import accuracy, nll
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions


def spoilt_predictions(samples=400, seed=0):
    """Each class over-confident by another factor: vector scaling is right."""
    good = sampled_predictions(samples, 4, 1.0, seed=seed)
    return good.with_values(good.values * torch.tensor([1.0, 2.0, 4.0, 0.5]).double(), "logits")


def test_folds_deal_out_every_class_evenly():
    preds = sampled_predictions(203, 3, 1.0)
    folds = draw_folds(preds, 5, seed=1)
    sizes = torch.bincount(folds)
    assert sizes.max() - sizes.min() <= 1
    for label in range(3):
        counts = torch.bincount(folds[preds.labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert torch.equal(folds, draw_folds(preds, 5, seed=1))
    assert not torch.equal(folds, draw_folds(preds, 5, seed=2))


def test_held_out_samples_are_calibrated_by_the_others():
    preds = sampled_predictions(100, 3, 2.0)
    folds = draw_folds(preds, 4, seed=0)
    found = predict_held_out(TemperatureScaling, preds, folds).log_probs
    for fold in range(4):
        scaler = TemperatureScaling().fit(preds.select(folds != fold))
        expected = scaler.transform(preds.select(folds == fold)).values.log_softmax(1)
        torch.testing.assert_close(found[folds == fold], expected)


def test_mean_and_error_with_weights():
    values = torch.tensor([1.0, 2.0, 4.0, 100.0], dtype=torch.float64)
    mean, error = mean_and_error(values, torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    assert mean == pytest.approx(7 / 3)
    assert error == pytest.approx(np.std([1, 2, 4], ddof=1) / 3**0.5)


def test_soft_labels_have_averaged_losses():
    log_probs = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64))
    labels = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(log_losses(log_probs, labels), torch.tensor([1.5 * np.log(2), 0.0], dtype=torch.float64))


@pytest.mark.parametrize("combine", ["mix", "choose"])
def test_it_finds_what_a_temperature_cannot_repair(combine):
    val, test = spoilt_predictions(), spoilt_predictions(4000, seed=1)
    auto = AutoCalibration(combine=combine).fit(val)
    assert nll(auto.transform(test)) < nll(TemperatureScaling().fit(val).transform(test)) - 0.01
    taken = [one for one in auto.candidates_ if one.weight > 0]
    assert any("structured" in one.name for one in taken)
    assert sum(one.weight for one in auto.candidates_) == pytest.approx(1)
    assert len(taken) == len(auto.members_) == (1 if combine == "choose" else len(taken))


def test_the_simpler_is_chosen_where_nothing_tells_them_apart():
    val = sampled_predictions(300, 4, 3.0)
    auto = AutoCalibration(combine="choose").fit(val)
    assert auto.describe().startswith("temperature was chosen: held-out log-loss ")
    assert "uncalibrated" in auto.describe()
    calibrated = sampled_predictions(300, 4, 1.0)
    assert AutoCalibration(combine="choose").fit(calibrated).describe().startswith("identity was chosen")


@pytest.mark.parametrize("combine", ["mix", "choose"])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_never_worse_than_nothing_on_its_own_cross_validation(combine, seed):
    val = sampled_predictions(60, 3, 1.0, seed=seed)
    auto = AutoCalibration(combine=combine).fit(val)
    folds = draw_folds(val, 5, seed=0)
    options = {option.name: option for option in options_for(3, keep_argmax=False)}
    mixture = sum(
        one.weight * predict_held_out(options[one.name].build, val, folds).log_probs.exp()
        for one in auto.candidates_
        if one.weight > 0
    )
    found = mean_and_error(log_losses(mixture.log(), val.labels), None)[0]
    assert found <= auto.candidates_[0].log_loss + 1e-12


def test_the_argmax_is_kept_where_that_is_asked_for():
    val, test = spoilt_predictions(), spoilt_predictions(500, seed=1)
    auto = AutoCalibration(keep_argmax=True).fit(val)
    assert auto.keeps_argmax
    assert accuracy(auto.transform(test)) == accuracy(test)
    assert {one.name for one in auto.candidates_} == {
        "identity",
        "temperature",
        "temperature with a uniform share",
        "focal-temperature",
    }


def test_two_classes_try_their_own_methods_and_many_no_matrix():
    assert {"platt", "beta", "quadratic"} <= {option.name for option in options_for(2, keep_argmax=False)}
    assert not any("matrix" in option.name for option in options_for(201, keep_argmax=False))


def test_weights_and_soft_labels_count():
    val = spoilt_predictions()
    soft = torch.nn.functional.one_hot(val.labels, 4).double()
    weights = torch.ones(400, dtype=torch.float64)
    hard = AutoCalibration().fit(val)
    same = AutoCalibration().fit(Predictions.from_logits(val.values, soft, weights=weights))
    torch.testing.assert_close(same.transform(val).probs(), hard.transform(val).probs(), rtol=0, atol=1e-4)


def test_the_file_has_the_table_and_no_seconds(tmp_path):
    auto = AutoCalibration().fit(spoilt_predictions())
    assert all(one.seconds > 0 for one in auto.candidates_)
    auto.save(tmp_path / "auto.json")
    content = json.loads((tmp_path / "auto.json").read_text())
    assert "seconds" not in content["learned"]["candidates"][0]
    loaded = load_calibrator(tmp_path / "auto.json")
    assert loaded.candidates_ == auto.candidates_
    assert loaded.describe() == auto.describe()
    table = auto.to_markdown().splitlines()
    assert table[0] == "| candidate | held-out log-loss | ± se | weight | seconds | note |"
    assert len(table) == 2 + len(auto.candidates_)
    content["learned"]["members"][0]["weight"] = 0.5
    (tmp_path / "broken.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="the members' weights do not sum to 1"):
        load_calibrator(tmp_path / "broken.json")


def test_saved_zeros_leave_out_what_cannot_bear_them():
    """A true class of probability 0 makes the log-loss of doing nothing infinite, here or elsewhere."""
    probs = torch.tensor([[0.8, 0.2, 0.0], [0.0, 0.6, 0.4]], dtype=torch.float64).repeat(30, 1)
    auto = AutoCalibration().fit(Predictions.from_probs(probs, [0, 1, 0, 2, 0, 1] * 9 + [2, 0] * 3))
    plain = auto.candidates_[0]
    assert plain.weight == 0
    assert "leaves no room for a mistake" in plain.note
    assert np.isfinite(auto.record_.nll_after)


def test_saved_zeros_of_few_samples_without_a_mistake_still_bear_one(tmp_path):
    """Five neighbours' votes: right in all validation samples, and wrong with probability 0 in a later one."""
    votes = torch.tensor([1.0, 0.8, 0.6], dtype=torch.float64).repeat(40)
    val = Predictions.from_probs(torch.stack([votes, 1 - votes], dim=1), [0] * 120)
    with (
        pytest.warns(CalibrationWarning, match="1 of 2 classes have no validation sample"),
        pytest.warns(CalibrationWarning, match="only mixes in a little of the uniform distribution"),
    ):
        auto = AutoCalibration().fit(val)
    later = Predictions.from_probs([[1.0, 0.0]], [1])
    assert nll(auto.transform(later)) == pytest.approx(np.log(2 * 121))
    auto.save(tmp_path / "auto.json")
    assert nll(load_calibrator(tmp_path / "auto.json").transform(later)) == pytest.approx(np.log(2 * 121))


@pytest.mark.parametrize("samples", [1, 5])
def test_very_few_samples_change_nothing_and_say_so(samples):
    val = sampled_predictions(samples, 3, 2.0)
    with pytest.warns(CalibrationWarning, match=f"changes nothing: {samples} samples are too few"):
        calibrated = AutoCalibration().fit_transform(val)
    torch.testing.assert_close(calibrated.probs(), val.probs())


def test_separable_data_change_nothing_and_say_so():
    """Any sharpening would look good on them; a single mistake elsewhere would cost without bound."""
    values = 3.0 * torch.eye(3, dtype=torch.float64).repeat(20, 1)
    val = Predictions.from_logits(values, [0, 1, 2] * 20)
    with pytest.warns(CalibrationWarning, match="no candidate has a finite optimum"):
        auto = AutoCalibration().fit(val)
    torch.testing.assert_close(auto.transform(val).probs(), val.probs())
    assert auto.candidates_[1].note == "no finite optimum"


def test_parameters_are_checked():
    val = sampled_predictions(20, 2)
    for options, match in (
        ({"combine": "best"}, "combine must be 'mix' or 'choose'"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"keep_argmax": "yes"}, "keep_argmax must be True or False"),
    ):
        with pytest.raises(ValueError, match=match):
            AutoCalibration(**options).fit(val)


def test_two_classes_of_which_one_is_sometimes_masked_are_calibrated():
    """Platt, beta and quadratic calibration have no score there; the others do, and the masked class stays masked."""
    val = sampled_predictions(300, 2, 1.5)
    masked = (torch.arange(300) % 5 == 0)[:, None] & (torch.arange(2) != val.labels[:, None])
    auto = AutoCalibration().fit(Predictions.from_logits(val.logits().masked_fill(masked, -torch.inf), val.labels))
    assert not {"platt", "beta", "quadratic"} & {one.name for one in auto.candidates_}
    one = Predictions.from_logits([[1.0, -np.inf]])
    assert auto.transform(one).probs().tolist() == [[1.0, 0.0]]


def test_fewer_samples_than_classes_are_said_and_change_little():
    val = sampled_predictions(40, 100, 1.5)
    with pytest.warns(CalibrationWarning, match=r"of 100 classes have no validation sample .*AutoCalibration"):
        auto = AutoCalibration().fit(val)
    held_out = sampled_predictions(2000, 100, 1.5, seed=1)
    assert nll(auto.transform(held_out)) < 1.1 * nll(held_out)


def test_probabilities_of_a_product_of_many_find_their_large_temperature():
    """Naive Bayes takes each piece of evidence for independent: hundreds of nats, and some probabilities of 0."""
    good = sampled_predictions(600, 2, 1.0)
    probs = (300.0 * good.values).softmax(1)
    assert bool((probs == 0).any())
    auto = AutoCalibration().fit(Predictions.from_probs(probs, good.labels))
    # What lies below the smallest float32 is lost.
    assert nll(auto.transform(Predictions.from_probs(probs, good.labels))) < nll(good) + 0.1
    assert not any(one.note for one in auto.candidates_[1:])


@pytest.mark.parametrize("classes", [2, 4])
def test_hard_predictions_get_the_share_of_mistakes(classes):
    """With probabilities of 0 and 1 there is nothing for a temperature to do, and a uniform share does it all."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, classes, (400,), generator=draw)
    wrong = torch.rand(400, generator=draw) < 0.3
    said = torch.where(wrong, (labels + 1) % classes, labels)
    val = Predictions.from_probs(torch.eye(classes, dtype=torch.float64)[said], labels)
    found = AutoCalibration().fit_transform(val).probs().amax(1)
    torch.testing.assert_close(found, torch.full_like(found, 1 - float(wrong.double().mean())), rtol=0, atol=0.05)


@pytest.mark.parametrize("values", [[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
def test_constant_logits_give_the_frequencies_and_a_warning(values):
    val = Predictions.from_logits([values] * 200, [0, 1, 1, 2] * 50)
    with pytest.warns(CalibrationWarning, match="The logits say nothing about the labels"):
        found = AutoCalibration().fit_transform(val).probs()[0]
    torch.testing.assert_close(found, torch.tensor([0.25, 0.5, 0.25]).double(), rtol=0, atol=0.03)


@pytest.mark.parametrize("build", [AutoCalibration, lambda: StructuredScaling("vector", strength="cv")])
def test_samples_of_weight_zero_do_not_count(build):
    val = spoilt_predictions(60)
    weights = (torch.arange(60) < 20).double()
    weighted = build().fit(Predictions.from_logits(val.values, val.labels, weights=weights))
    alone = build().fit(val.select(weights > 0))
    torch.testing.assert_close(weighted.transform(val).probs(), alone.transform(val).probs())
