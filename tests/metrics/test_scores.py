import math

import pytest
import torch
from hypothesis import given, settings

from focalcal.metrics import scores
from focalcal.predictions import Predictions
from oracles import metrics as oracle

quick = settings(deadline=None, max_examples=50)

FUNCTIONS = {
    "error": scores.error,
    "accuracy": scores.accuracy,
    "brier": scores.brier,
    "confident_share": scores.confident_share,
    "confident_accuracy": scores.confident_accuracy,
    "mean_confidence": scores.mean_confidence,
    "mean_confidence_right": lambda preds: scores.mean_confidence(preds, among="right"),
    "mean_confidence_wrong": lambda preds: scores.mean_confidence(preds, among="wrong"),
    "mean_entropy": scores.mean_entropy,
    "mean_entropy_right": scores.mean_entropy_right,
    "mean_entropy_wrong": scores.mean_entropy_wrong,
    "signed_gap": scores.signed_gap,
    "top_5_accuracy": scores.top_k_accuracy,
}


@quick
@given(oracle.logit_predictions())
def test_every_score_is_that_of_its_formula(preds):
    expected = oracle.all_metrics(preds)
    for name, function in FUNCTIONS.items():
        if name in expected:
            assert function(preds) == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name


@quick
@given(oracle.logit_predictions(logits=oracle.FINITE_LOGITS, soft_labels=True))
def test_proper_scores_use_soft_labels_and_the_others_the_most_probable_class(preds):
    expected = oracle.all_metrics(preds)
    for name in ("brier", "error", "mean_confidence_right"):
        assert FUNCTIONS[name](preds) == pytest.approx(expected[name], abs=1e-12, nan_ok=True)


@quick
@given(oracle.edge_predictions(bins=10))
def test_nll_of_probabilities(drawn):
    rows, labels, weights = drawn
    preds = Predictions.from_probs(rows, labels, weights=weights)
    assert scores.nll(preds) == pytest.approx(oracle.all_metrics(preds)["nll"], rel=1e-12)


def test_an_infinite_loss_without_weight_does_not_count():
    logits, labels = [[0.0, -math.inf], [0.0, -math.inf]], [1, 0]
    assert scores.nll(Predictions.from_logits(logits, labels)) == math.inf
    assert scores.nll(Predictions.from_logits(logits, labels, weights=[0.0, 1.0])) == 0.0


def test_human_labels_have_an_entropy_that_nll_cannot_go_below():
    counts = [[3, 1], [2, 2]]
    perfect = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], counts, labels_are="counts")
    entropy = scores.mean_entropy(perfect)
    assert scores.nll(perfect) == pytest.approx(entropy)
    assert scores.brier(perfect) == 0.0
    assert scores.nll(Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]], counts, labels_are="counts")) > entropy


def test_confidence_exactly_at_the_threshold_counts():
    for dtype in (torch.float32, torch.float64):
        preds = Predictions.from_probs(torch.tensor([[0.99, 0.01], [0.98, 0.02]], dtype=dtype), [0, 0])
        assert scores.confident_share(preds) == 0.5
    assert math.isnan(scores.confident_accuracy(Predictions.from_probs([[0.5, 0.5]], [0])))
    assert scores.confident_share(Predictions.from_probs([[0.75, 0.25]], [0]), threshold=0.75) == 1.0


def test_means_over_no_sample_are_nan():
    preds = Predictions.from_probs([[0.75, 0.25]], [0])
    assert math.isnan(scores.mean_confidence(preds, among="wrong"))
    assert math.isnan(scores.mean_entropy(preds, among="wrong"))


def test_integer_weights_are_repetitions():
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, times = torch.arange(20) % 4, torch.arange(20) % 3
    weighted = Predictions.from_logits(logits, labels, weights=times)
    repeated = Predictions.from_logits(logits.repeat_interleave(times, 0), labels.repeat_interleave(times))
    for name, function in FUNCTIONS.items():
        if name != "top_5_accuracy":
            assert function(weighted) == pytest.approx(function(repeated), nan_ok=True), name


@pytest.mark.parametrize("k", [0, 4, -1])
def test_top_k_outside_the_number_of_classes_is_refused(k):
    with pytest.raises(ValueError, match="3 classes"):
        scores.top_k_accuracy(Predictions.from_probs([[0.5, 0.3, 0.2]], [0]), k=k)


def test_top_k_of_all_classes_is_1_and_of_one_the_accuracy():
    preds = Predictions.from_logits(
        torch.randn(50, 6, generator=torch.Generator().manual_seed(1)), torch.arange(50) % 6
    )
    assert scores.top_k_accuracy(preds, k=6) == 1.0
    assert scores.top_k_accuracy(preds, k=1) == scores.accuracy(preds)


def test_an_unknown_group_is_refused():
    with pytest.raises(ValueError, match="'all', 'right' or 'wrong'"):
        scores.mean_confidence(Predictions.from_probs([[0.5, 0.5]], [0]), among="correct")
