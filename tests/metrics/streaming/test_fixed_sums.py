"""Fixed sums give what evaluate gives, but for what depends on the order of confidences, which is bounded."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import METRICS, evaluate, nll_split
from focalcal.metrics.streaming.fixed_sums import SCALED, FixedSums, batch_predictions, choose_metrics
from focalcal.predictions import Predictions
from oracles import metrics as oracle

APPROXIMATE = ("ada_ece", "ks_error", "smooth_ece")


def summed(preds, rows=50, bins=15):
    sums = FixedSums(preds.num_classes, bins)
    for block in preds.blocks(rows):
        sums.add(block)
    return sums


def random_predictions(n=600, classes=7, scale=2.0, **options):
    logits = torch.randn(n, classes) * scale
    labels = (logits + torch.randn(n, classes) * scale).argmax(1)
    return Predictions.from_logits(logits, labels, **options)


def assert_equal_to_evaluation(preds, sums, bins=15):
    names = choose_metrics(None, preds.num_classes, preds.of)
    expected = evaluate(preds, bins=bins, intervals=False).values
    found, bounds = sums.compute(names), sums.bounds()
    assert bounds.keys() == set(APPROXIMATE)
    for name in names:
        if name in SCALED:
            continue
        if name in APPROXIMATE and bounds[name] > 0.01:
            assert math.isnan(found[name])
            continue
        slack = {"abs": bounds[name] + 1e-12} if name in APPROXIMATE else {"abs": 1e-12, "rel": 1e-9}
        assert found[name] == pytest.approx(expected[name], nan_ok=True, **slack), name


@pytest.mark.slow
@settings(max_examples=30)
@given(oracle.logit_predictions(), st.integers(1, 12), st.integers(1, 9))
def test_any_predictions(preds, bins, rows):
    assert_equal_to_evaluation(preds, summed(preds, rows, bins), bins)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream(weighted):
    preds = random_predictions(weights=torch.rand(600) if weighted else None)
    sums = summed(preds)
    assert_equal_to_evaluation(preds, sums)
    split, found = nll_split(preds), sums.compute(SCALED)
    assert found["scaled_nll"] == pytest.approx(split.refinement, abs=1e-5)
    assert found["temperature"] == pytest.approx(split.temperature, rel=1e-3)
    # The bounds are of use: what they allow is small beside the metrics.
    assert max(sums.bounds().values()) < 1e-3


def test_what_cells_cannot_tell_is_not_told():
    """All confidences lie in one cell: those of wrong answers first, in an order that only the samples know."""
    confidence = 0.6 + torch.arange(100, dtype=torch.float64) * 1e-9
    preds = Predictions.from_probs(torch.stack([confidence, 1 - confidence], 1), (torch.arange(100) < 50).long())
    sums, exact = summed(preds), evaluate(preds, metrics=["ada_ece", "ks_error"], intervals=False)
    found, bounds = sums.compute(["ada_ece", "ks_error", "ece"]), sums.bounds()
    assert math.isnan(found["ada_ece"])
    assert math.isnan(found["ks_error"])
    assert found["ece"] == pytest.approx(0.1)
    mixed = {"ada_ece": 0.1, "ks_error": 0.1}  # as if the cell were well mixed
    for name, value in mixed.items():
        assert abs(exact[name] - value) <= bounds[name] + 1e-6


def test_probabilities_of_0_and_1_and_class_probabilities():
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0], [0.6, 0.2, 0.2]])
    soft = torch.tensor([[1, 0, 0], [0.25, 0.5, 0.25], [0, 0, 1], [0.5, 0.25, 0.25]])
    for labels in (torch.tensor([0, 1, 2, 2]), soft):
        preds = Predictions.from_probs(probs, labels)
        assert_equal_to_evaluation(preds, summed(preds, rows=3))


def test_one_column_is_measured_as_a_score():
    score, labels = torch.rand(200, dtype=torch.float64), torch.randint(2, (200,))
    preds = Predictions.from_probs(score, labels)
    sums = FixedSums(2)
    for part in torch.arange(200).split(64):
        sums.add(batch_predictions(score[part], labels[part], logits=False))
    assert preds.of == sums.of == "score"
    assert_equal_to_evaluation(preds, sums)
    assert "confident_accuracy" not in choose_metrics(None, 2, "score")
    with pytest.raises(ValueError, match=r"confident_accuracy cannot be computed .* measured by the score of class 1"):
        choose_metrics(["confident_accuracy"], 2, "score")


def test_scores_and_classes_are_not_mixed():
    score, labels = torch.rand(20), torch.randint(2, (20,))
    classes = batch_predictions(torch.stack([1 - score, score], 1), labels, logits=False)
    both = FixedSums(2)
    both.add(batch_predictions(score, labels, logits=False))
    with pytest.raises(ValueError, match="always pass one column, or always two"):
        both.add(classes)
    other = FixedSums(2)
    other.add(classes)
    joined = {name: tensor + other.tensors()[name] for name, tensor in both.tensors().items()}
    with pytest.raises(ValueError, match="always pass one column, or always two"):
        _ = FixedSums(2).load(joined).of


def test_parts_add_up_in_any_order():
    preds = random_predictions()
    whole = summed(preds)
    parts = [summed(preds.select(torch.arange(start, 600, 3))) for start in range(3)]
    joined = {name: sum(part.tensors()[name] for part in parts[::-1]) for name in whole.tensors()}
    loaded = FixedSums(7).load(joined)
    names = choose_metrics(None, 7)
    assert loaded.compute(names) == pytest.approx(whole.compute(names), rel=1e-9)
    assert {name: tensor.dtype for name, tensor in loaded.tensors().items()} == {
        **dict.fromkeys(("counts", "scores"), torch.int64),
        **dict.fromkeys(("sums", "cells", "residuals", "temperatures"), torch.float64),
    }


@pytest.mark.parametrize(("classes", "bins"), [(2, 15), (1000, 15), (50_000, 15), (10, 1000)])
def test_at_most_a_megabyte(classes, bins):
    sums = FixedSums.for_metrics(choose_metrics(None, classes), classes, bins)
    assert sum(tensor.nbytes for tensor in sums.tensors().values()) <= 2**20


def test_many_classes_have_no_classwise_sums_unless_asked_for():
    logits, labels = torch.randn(20, 1500), torch.randint(1500, (20,))
    names = choose_metrics(None, 1500)
    assert "classwise_ece" not in names
    for chosen in (names, ("ece", "classwise_ece")):
        sums = FixedSums.for_metrics(chosen, 1500)
        sums.add(batch_predictions(logits, labels, logits=True))
        found = sums.compute(chosen)
        expected = evaluate(Predictions.from_logits(logits, labels), metrics=["ece", "classwise_ece"], intervals=False)
        assert found["ece"] == pytest.approx(expected["ece"])
        if "classwise_ece" in chosen:
            assert found["classwise_ece"] == pytest.approx(expected["classwise_ece"])


def test_nothing_added_is_undefined():
    sums = FixedSums(3)
    sums.add(batch_predictions(torch.randn(2, 3), torch.tensor([-100, -100]), logits=True))
    assert sums.samples == 0
    assert all(math.isnan(value) for value in sums.compute(["ece", "scaled_nll"]).values())


def test_refusals():
    for wrong in (1, True, 2.0, "10"):
        with pytest.raises(ValueError, match="must be an integer of at least 2"):
            FixedSums(wrong)
        with pytest.raises(ValueError, match="must be an integer of at least 2"):
            choose_metrics(None, wrong)
    with pytest.raises(ValueError, match="The outputs have 4 classes, and num_classes is 3"):
        FixedSums(3).add(random_predictions(classes=4))
    with pytest.raises(ValueError, match="top_5_accuracy says nothing with 3 classes"):
        choose_metrics(["top_5_accuracy"], 3)
    with pytest.raises(TypeError, match="a list of names, got the text 'ece'"):
        choose_metrics("ece", 3)
    assert set(choose_metrics(None, 10)) <= {*METRICS, *SCALED}
