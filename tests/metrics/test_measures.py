"""What calibration is measured of: a score against the frequency of class 1, a confidence against being right."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import focalcal as fc
from focalcal.metrics import evaluate
from focalcal.metrics.predicted_classes import calibration_by_class
from focalcal.metrics.samples import confidence_samples, sample_statistics
from focalcal.predictions import Predictions
from focalcal.report.verdict import verdict

pairs = st.lists(
    st.tuples(st.floats(0, 1), st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 3.0])), min_size=1, max_size=30
).filter(lambda rows: sum(weight for *_, weight in rows) > 0)


def slow_binary_ece(scores, outcomes, weights, bins=15):
    """Σ_b |Σ w (p − y)| / Σ w over bins (lower, upper]."""
    gaps = [0.0] * bins
    for p, y, w in zip(scores, outcomes, weights, strict=True):
        gaps[max(0, next(b for b in range(bins) if p <= (b + 1) / bins))] += w * (p - y)
    return sum(map(abs, gaps)) / sum(weights)


@settings(deadline=None, max_examples=150)
@given(pairs)
def test_a_score_is_measured_against_the_frequency_of_class_1(rows):
    scores, outcomes, weights = (list(column) for column in zip(*rows, strict=True))
    preds = Predictions.from_probs(scores, [int(y) for y in outcomes], weights=weights)
    assert preds.of == "score"
    assert fc.metrics.ece(preds) == pytest.approx(slow_binary_ece(scores, outcomes, weights), abs=1e-12)
    total = sum(weights)
    brier = sum(w * (p - y) ** 2 for p, y, w in rows) / total
    assert fc.metrics.brier(preds) == pytest.approx(brier, abs=1e-12)
    gap = sum(w * (p - y) for p, y, w in rows) / total
    assert fc.metrics.signed_gap(preds) == pytest.approx(gap, abs=1e-12)
    error = sum(w * ((p > 1 - p) != y) for p, y, w in rows) / total
    assert fc.metrics.error(preds) == pytest.approx(error, abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(pairs)
def test_pairs_have_the_numbers_of_a_score_of_being_right(rows):
    confidence, correct, weights = (list(column) for column in zip(*rows, strict=True))
    preds = Predictions.from_confidence(confidence, correct, weights=weights)
    assert fc.metrics.ece(preds) == pytest.approx(slow_binary_ece(confidence, correct, weights), abs=1e-12)
    accuracy = sum(w * y for _, y, w in rows) / sum(weights)
    assert fc.metrics.accuracy(preds) == pytest.approx(accuracy, abs=1e-12)
    assert fc.metrics.signed_gap(preds) == pytest.approx(fc.metrics.mean_confidence(preds) - accuracy, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(-12, 12), st.booleans()), min_size=1, max_size=20))
def test_a_logit_and_its_probability_are_the_same_score(rows):
    logits, labels = [z for z, _ in rows], [int(y) for _, y in rows]
    of_logits = sample_statistics(Predictions.from_logits(logits, labels))
    of_probs = sample_statistics(Predictions.from_probs([1 / (1 + math.exp(-z)) for z in logits], labels))
    for name in ("confidence", "nll", "brier", "entropy"):
        np.testing.assert_allclose(getattr(of_logits, name), getattr(of_probs, name), rtol=1e-6, atol=1e-9)
    assert torch.equal(of_logits.correct, of_probs.correct)
    assert torch.equal(confidence_samples(Predictions.from_logits(logits, labels)).correct, of_logits.correct)
    np.testing.assert_allclose(
        confidence_samples(Predictions.from_logits(logits, labels)).confidence, of_logits.confidence, rtol=1e-15
    )


def test_a_score_of_either_class_in_two_columns():
    probs, labels = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 1, 1])
    second = Predictions.from_probs(probs, labels, positive_class=1)
    assert fc.metrics.ece(second) == fc.metrics.ece(Predictions.from_probs(probs[:, 1], labels))
    first = Predictions.from_probs(probs, labels, class_names=["ham", "spam"], positive_class="ham")
    assert first.class_names == ("spam", "ham")
    assert first.labels.tolist() == [1, 0, 0]
    assert fc.metrics.ece(first) == fc.metrics.ece(Predictions.from_probs(probs[:, 0], 1 - labels))
    assert Predictions.from_probs(probs, labels).of == "top"
    top = Predictions.from_probs(probs[:, 1], labels, of="top")
    assert fc.metrics.ece(top) == fc.metrics.ece(Predictions.from_probs(probs, labels))
    flipped = Predictions.from_probs(probs[:, 0], labels, positive_class=0)
    np.testing.assert_allclose(flipped.values, first.values, atol=1e-15)
    assert flipped.labels.tolist() == first.labels.tolist()


def test_the_parts_of_the_brier_score_of_a_score_add_up_to_it():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    preds = Predictions.from_probs(p, (rng.random(500) < p**2).astype(int))
    found = fc.evaluate(preds, intervals=False)
    assert found["brier_calibration"] + found["brier_refinement"] == pytest.approx(found["brier"], abs=1e-12)
    assert found["nll_calibration"] + found["nll_refinement"] == pytest.approx(found["nll"], abs=1e-12)


@pytest.mark.parametrize("kind", ["score", "confidence"])
def test_the_accumulator_gives_what_evaluate_gives(kind):
    rng = np.random.default_rng(1)
    p = rng.random(300)
    y = (rng.random(300) < p).astype(int)
    make = Predictions.from_probs if kind == "score" else Predictions.from_confidence
    whole, accumulator = make(p, y), fc.Accumulator(num_classes=2)
    for rows in (slice(0, 100), slice(100, 300)):
        accumulator.add(make(p[rows], y[rows]))
    found, expected = accumulator.compute(), fc.evaluate(whole, intervals=False)
    assert found.of == expected.of == kind
    for name, value in found.values.items():
        assert value == pytest.approx(expected[name], abs=1e-9), name
    with pytest.raises(ValueError, match="accumulate them apart"):
        accumulator.add(Predictions.from_probs([[0.4, 0.6]], [1]))


def test_metrics_that_need_class_probabilities_are_not_there_for_pairs():
    preds = Predictions.from_confidence([0.9, 0.6, 0.4], [1, 0, 1])
    names = fc.evaluate(preds, intervals=False).values
    assert not {"classwise_ece", "mean_entropy", "top_5_accuracy"} & set(names)
    assert {"ece", "ada_ece", "smooth_ece", "mce", "ks_error", "accuracy", "brier"} <= set(names)
    with pytest.raises(ValueError, match=r"classwise_ece cannot be computed .* the confidence of each answer"):
        fc.evaluate(preds, metrics=["classwise_ece"])


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_a_temperature_repairs_a_score(objective):
    rng = np.random.default_rng(2)
    logits = rng.normal(-1, 2, 4000)
    labels = (rng.random(4000) < 1 / (1 + np.exp(-logits))).astype(int)
    preds = Predictions.from_logits(3 * logits, labels)
    scaler = fc.TemperatureScaling(objective=objective).fit(preds)
    assert scaler.temperature_ == pytest.approx(3, rel=0.15)
    assert scaler.transform(preds).of == "score"
    assert fc.metrics.ece(scaler.transform(preds)) < fc.metrics.ece(preds) / 3


def test_predictions_without_labels_are_calibrated_but_not_measured(tmp_path):
    scaler = fc.TemperatureScaling().fit(Predictions.from_logits([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]], [0, 1, 1]))
    new = Predictions.from_logits([[1.0, 3.0], [0.0, -1.0]])
    assert not new.has_labels
    scored = scaler.transform(new)
    assert not scored.has_labels
    scored.save(tmp_path / "scored.parquet")
    assert torch.equal(Predictions.load(tmp_path / "scored.parquet").values, scored.values)
    with pytest.raises(ValueError, match="have no labels"):
        fc.evaluate(new)
    with pytest.raises(ValueError, match="have no labels"):
        fc.metrics.ece(new)
    with pytest.raises(ValueError, match="have no labels"):
        fc.TemperatureScaling().fit(new)
    with pytest.raises(ValueError, match=r"scored\.parquet: it has no 'labels'"):
        fc.evaluate(tmp_path / "scored.parquet")


def test_measuring_a_score_leaves_it_alone():
    preds = Predictions.from_logits([0.5, -1.0], [1, 0])
    confidence_samples(preds)
    assert preds.values.tolist() == [[0.0, 0.5], [0.0, -1.0]]


def test_arrays_need_a_word_about_what_they_are():
    probs, labels = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0])
    preds = Predictions.from_probs(probs, labels)
    assert fc.metrics.ece(probs, labels, kind="probs") == fc.metrics.ece(preds)
    assert fc.metrics.ece(probs, labels, kind="probs", bins=5) == fc.metrics.ece(preds, bins=5)
    found = fc.evaluate(probs, labels, kind="probs", metrics=["nll"], intervals=False)
    assert found["nll"] == fc.metrics.nll(preds)
    for call in (fc.evaluate, fc.metrics.ece, fc.metrics.nll, fc.metrics.calibration_test):
        with pytest.raises(TypeError, match=rf"call {call.__name__}\(Predictions.from_probs\(probs, labels\)\)"):
            call(probs, labels)
        with pytest.raises(TypeError, match="Predictions"):
            call(probs)
        with pytest.raises(TypeError, match="Predictions alone, which have their labels"):
            call(preds, labels)
    with pytest.raises(TypeError, match="give options by name"):
        fc.evaluate(preds, ["ece"])
    with pytest.raises(ValueError, match="kind must be"):
        fc.metrics.ece(probs, labels, kind="scores")


def test_the_accumulator_ignores_what_it_was_told_to():
    accumulator = fc.Accumulator(num_classes=2, ignore_index=255)
    accumulator.update(probs=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 255])
    assert accumulator.samples == 1
    accumulator.update(probs=[[0.9, 0.1], [0.4, 0.6]], labels=[0, -1], ignore_index=-1)
    assert accumulator.samples == 2
    assert accumulator.all_reduce() is accumulator
    assert list(accumulator.compute(["ece"]).values) == ["ece"]


def test_the_name_of_class_1_is_said():
    score = Predictions.from_probs([0.2, 0.7, 0.9] * 20, ["ok", "fraud", "fraud"] * 20, positive_class="fraud")
    found = evaluate(score, bootstrap=20)
    assert found.event == "fraud"
    assert "calibration of the score of fraud" in repr(found)
    assert "mean score − frequency of fraud" in found.to_markdown()
    assert found.to_dict()["measured"] == "the score, which is the probability of fraud, against how often fraud occurs"
    assert "fraud occurs in 66.67%" in " ".join(verdict(found))
    plain = Predictions.from_probs([0.2, 0.7, 0.9] * 20, [0, 1, 1] * 20)
    assert evaluate(plain, metrics=["ece"]).event is None
    assert "class 1" in repr(evaluate(plain, metrics=["ece"]))


def test_pairs_have_a_table_of_the_classes_that_answers_named():
    named = ["cat"] * 100 + ["dog"] * 100
    right = [True] * 75 + [False] * 25 + [True] * 95 + [False] * 5
    preds = Predictions.from_confidence([0.75] * 100 + [0.5] * 100, right, predicted=named)
    found = calibration_by_class(preds)
    assert found.count.tolist() == [100, 100]
    assert found.confidence.tolist() == [0.75, 0.5]
    assert found.accuracy.tolist() == [0.75, 0.95]
    assert found.significant.tolist() == [False, True]


@pytest.mark.parametrize("name", ["classwise_ece", "mean_entropy", "top_5_accuracy"])
def test_pairs_are_refused_by_metrics_that_need_all_classes(name):
    preds = Predictions.from_confidence([0.75, 0.5, 0.25], [1, 0, 0])
    with pytest.raises(ValueError, match=f"{name} needs the probabilities of all classes"):
        getattr(fc.metrics, name)(preds)
    assert "classwise_ece" not in fc.metrics.calibration_intervals(preds)
