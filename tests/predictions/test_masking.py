"""Masked classes: everything that measures looks at the probabilities of the others, as they are."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from focalcal import metrics
from focalcal.calibrators import TemperatureScaling
from focalcal.calibrators.temperature_scaling import PAPER_GRID
from focalcal.metrics import Accumulator, evaluate
from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.evaluation import EvaluationRequest
from focalcal.metrics.streaming.large_files import evaluate_file
from focalcal.predictions import Predictions, open_predictions
from focalcal.predictions.masking import drop_masked
from oracles.masked import MASKED, oracle, three_classes


def test_evaluate_measures_the_answers():
    preds = three_classes()
    found = evaluate(preds, bootstrap=50)
    for name, value in oracle(preds).items():
        assert found.values[name] == pytest.approx(value, rel=1e-12), name
    assert found.num_classes == 2
    assert "nll_calibration" not in found.values
    assert "neutral" in found.notes[0]
    assert set(found.intervals) >= {"error", "ece", "classwise_ece"}


def test_every_metric_of_its_own_agrees_with_evaluate():
    preds = three_classes()
    found = evaluate(preds, bootstrap=0).values
    assert metrics.ece(preds) == found["ece"]
    assert metrics.error(preds) == found["error"]
    assert metrics.classwise_ece(preds) == found["classwise_ece"]
    assert metrics.ada_ece(preds) == found["ada_ece"]
    assert metrics.nll(preds) == found["nll"]


def test_a_part_of_the_losses_that_is_asked_for_by_name_is_refused():
    with pytest.raises(ValueError, match="nll_calibration cannot be computed where classes are masked"):
        evaluate(three_classes(), metrics=["nll_calibration"])
    with pytest.raises(ValueError, match="nll_calibration cannot be computed where classes are masked"):
        bootstrap(three_classes(), metrics=["nll_calibration"])
    with pytest.raises(ValueError, match="cannot be computed where classes are masked"):
        metrics.nll_split(three_classes())
    assert "nll_calibration" not in bootstrap(three_classes(), bootstrap=10).estimates


def test_a_file_in_blocks_gives_the_same(tmp_path):
    preds = three_classes()
    preds.save(tmp_path / "a.safetensors")
    request = EvaluationRequest(("error", "ece", "classwise_ece"), True, 15, False, None, 0, 0.9, 0)
    streamed = evaluate_file(open_predictions(tmp_path / "a.safetensors"), request)
    whole = evaluate(tmp_path / "a.safetensors", metrics=["error", "ece", "classwise_ece"], bootstrap=0)
    assert streamed.values == pytest.approx(whole.values)
    assert (streamed.num_classes, whole.num_classes) == (2, 2)


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_a_temperature_acts_on_all_classes_and_is_judged_by_the_answers(objective):
    preds = three_classes()
    scaler = TemperatureScaling(objective=objective).fit(preds)
    if objective == "ece":
        best = min(PAPER_GRID, key=lambda temperature: oracle(preds, temperature)["ece"])
        assert scaler.temperature_ == best
    after = oracle(preds, scaler.temperature_)
    assert metrics.ece(scaler.transform(preds)) == pytest.approx(after["ece"], abs=1e-12)
    assert scaler.record_.ece_after == pytest.approx(after["ece"], abs=1e-12)
    assert scaler.record_.nll_after == pytest.approx(after["nll"], abs=1e-12)
    assert scaler.record_.ece_before == pytest.approx(oracle(preds)["ece"], abs=1e-12)


def test_a_logit_far_behind_has_a_finite_nll():
    values = torch.tensor([[0.0, 500.0, -90.0]], dtype=torch.float32)
    preds = Predictions.from_logits(values, [2], masked_classes=MASKED)
    assert metrics.nll(preds) == pytest.approx(590.0)


@pytest.mark.parametrize("logits", [[-900.0, 0.0, -800.0], [0.0, 30_000.0, 29_000.0], [-5000.0, 0.0, -100.0]])
def test_the_order_of_answers_far_behind_is_kept(logits):
    for dtype in (torch.float32, torch.float64):
        right = Predictions.from_logits(torch.tensor([logits], dtype=dtype), [2], masked_classes=MASKED)
        wrong = Predictions.from_logits(torch.tensor([logits], dtype=dtype), [0], masked_classes=MASKED)
        assert (metrics.error(right), metrics.error(wrong)) == (0.0, 1.0)
        assert metrics.nll(right) < metrics.nll(wrong) <= 708.001


def test_a_logit_of_minus_infinity_has_an_infinite_nll():
    preds = Predictions.from_logits(torch.tensor([[0.0, 1.0, -torch.inf]]), [2], masked_classes=MASKED)
    assert metrics.nll(preds) == torch.inf


def test_labels_do_not_matter_out_of_distribution():
    inside, outside = three_classes(), three_classes(seed=3)
    changed = replace(outside, labels_or_none=torch.ones_like(outside.labels))
    assert metrics.ood_auroc(inside, changed) == metrics.ood_auroc(inside, outside)
    with pytest.raises(ValueError, match="have other masked classes"):
        metrics.ood_auroc(inside, replace(outside, masked_classes=()))


def test_comparisons_and_plots_look_at_the_answers():
    a, b = three_classes(seed=1), three_classes(seed=1)
    b = b.with_values(b.values * 0.5, "logits")
    found = metrics.compare(a, b, bootstrap=50, permutations=50)
    expected = evaluate(a, bootstrap=0).values["ece"] - evaluate(b, bootstrap=0).values["ece"]
    assert found["ece"].difference == pytest.approx(expected)


def test_the_accumulator_counts_answers():
    preds = three_classes()
    total = Accumulator(num_classes=2)
    total.add(preds)
    assert total.compute().values["ece"] == pytest.approx(metrics.ece(preds))


@pytest.mark.parametrize("wrong", [["x"], [3], (0, 1), [-1], "1", [1.0], [True], [[1]], None, 1])
def test_what_is_not_a_list_of_classes_is_one_sentence(wrong):
    with pytest.raises(ValueError, match=r"masked_classes is .* classes from 0 to 2 that leave at least two others\.$"):
        Predictions.from_logits([[1.0, 0.0, 2.0]], [2], masked_classes=wrong)


def test_a_provenance_that_would_have_masked_classes_is_refused():
    with pytest.raises(ValueError, match="does not mask classes; pass masked_classes="):
        Predictions.from_logits([[1.0, 0.0, 2.0]], [2], provenance={"masked_classes": "1"})


def test_a_label_that_is_masked_is_refused_with_its_row():
    preds = Predictions.from_logits(torch.randn(3, 3), [0, 1, 2], masked_classes=MASKED)
    with pytest.raises(ValueError, match="row 1 is a class that is masked"):
        metrics.error(preds)
    soft = Predictions.from_logits(torch.randn(2, 3), [[0.5, 0.0, 0.5], [0.2, 0.3, 0.5]], masked_classes=MASKED)
    with pytest.raises(ValueError, match="row 1 is a class that is masked"):
        metrics.error(soft)


def test_many_masked_classes_take_no_time():
    preds = Predictions.from_logits(torch.zeros(2, 20_000), [0, 1], masked_classes=range(2, 20_000))
    assert drop_masked(preds).num_classes == 2
    assert repr(preds) == "Predictions(2 samples, 20000 classes, logits, 19998 masked classes)"


def test_they_are_kept_in_order_and_shown():
    preds = Predictions.from_logits(torch.zeros(2, 5), [0, 1], masked_classes=np.array([4, 2, 4]))
    assert preds.masked_classes == (2, 4)
    assert repr(preds) == "Predictions(2 samples, 5 classes, logits, masked_classes=(2, 4))"
    assert preds.select([1]).masked_classes == next(preds.blocks(1)).masked_classes == (2, 4)
    assert preds.with_values(preds.probs(), "probs").masked_classes == (2, 4)


def test_without_masked_classes_nothing_is_copied():
    preds = Predictions.from_logits([[1.0, 0.0, 2.0]], [2])
    assert drop_masked(preds) is preds
    assert preds.masked_classes == ()
