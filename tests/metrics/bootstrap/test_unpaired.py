"""Comparison of sets of different samples."""

import json
import math

import numpy as np
import pytest
import torch

from focalcal.metrics import calibration_intervals, evaluate
from focalcal.metrics.bootstrap.comparison import compare, compare_many
from focalcal.metrics.bootstrap.unpaired import smallest_alpha
from focalcal.metrics.gap_intervals import z_score
from focalcal.predictions import Predictions

HONEST = ("ece", "ada_ece", "debiased_ece", "smooth_ece", "mce", "ks_error", "classwise_ece")


def month(n, seed, sharpness=1.0, classes=5, scale=3.0, **parts):
    """Samples of a model that is calibrated at sharpness 1."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(sharpness * logits, labels, **parts)


def test_every_metric_is_the_difference_of_the_two_values():
    a, b = month(400, 1), month(300, 2, sharpness=2.0)
    found = compare(a, b, paired=False, bootstrap=50, names=("jan", "feb"))
    values = [evaluate(preds, intervals=False).values for preds in (a, b)]
    assert set(found.differences) == set(values[0]) - {"ece_floor"}
    for name, one in found.differences.items():
        assert one.values == pytest.approx((values[0][name], values[1][name]), abs=1e-6), name
        assert one.interval[0] <= one.difference <= one.interval[1], name


def test_calibration_errors_have_the_intervals_of_their_own():
    a, b = month(400, 1), month(300, 2, sharpness=2.0)
    found = compare(a, b, paired=False, bootstrap=20, level=0.8, metrics=HONEST)
    of_a, of_b = calibration_intervals(a, level=0.8, seed=0), calibration_intervals(b, level=0.8, seed=1)
    for name in HONEST:
        expected = of_a[name][0] - of_b[name][1], of_a[name][1] - of_b[name][0]
        assert found[name].interval == pytest.approx(expected), name


@pytest.mark.slow
def test_two_calibrated_sets_differ_no_more_often_than_the_level_says():
    """20,000 and 1,000 samples: by a plain bootstrap, ECE differs in 41% of such pairs at a level of 90%."""
    pairs, metrics = 30, ("error", "nll", "ece", "ada_ece", "ks_error", "classwise_ece", "signed_gap")
    shown, any_shown = dict.fromkeys(metrics, 0), 0
    for seed in range(pairs):
        a, b = month(20_000, 2 * seed), month(1_000, 2 * seed + 1)
        found = compare(a, b, paired=False, metrics=metrics, bootstrap=100)
        any_shown += any(one.is_significant for one in found.differences.values())
        for name, one in found.differences.items():
            shown[name] += one.p_value <= 0.1
    assert any_shown <= 5
    assert all(shown[name] <= 3 for name in ("ece", "ada_ece", "ks_error", "classwise_ece")), shown
    assert all(count <= 7 for count in shown.values()), shown


def test_a_drift_is_said_in_words():
    found = compare(month(2000, 1), month(1000, 2, sharpness=3.0), paired=False, bootstrap=100, names=("jan", "feb"))
    for name in ("nll", "ece", "smooth_ece", "signed_gap", "mean_confidence"):
        assert found[name].verdict == f"jan has the lower {name}"
    assert not found["error"].is_significant
    assert found.verdict.startswith("jan has a significantly lower NLL (nats)")
    assert "feb has a significantly lower mean entropy (nats), mean entropy (right)" in found.verdict
    content = json.loads(json.dumps(found.to_dict()))
    assert (content["paired"], content["verdict"]) == (False, found.verdict)


def test_p_values_are_corrected_over_pairs_and_metrics():
    models = {"a": month(200, 1), "b": month(200, 2, 1.5), "c": month(200, 3)}
    found = compare_many(models, paired=False, metrics=["nll", "signed_gap"], bootstrap=50)
    each = [one for comparison in found for one in comparison.differences.values()]
    smallest = min(each, key=lambda one: one.p_value)
    assert smallest.adjusted_p_value == pytest.approx(min(6 * smallest.p_value, 1))


def test_the_same_samples_twice_are_not_correlated_by_their_draws():
    """Equal draws would give an interval of width 0."""
    a = month(300, 1)
    low, high = compare(a, a, paired=False, metrics=["nll"], bootstrap=100)["nll"].interval
    assert high - low > 0.1


def test_all_right_against_nearly_all_right_is_no_difference():
    """Of ten samples that are all right, resamples are all right too."""
    sure = np.array([[0.99, 0.01]])
    a = Predictions.from_probs(sure.repeat(10, 0), np.zeros(10, dtype=np.int64))
    b = Predictions.from_probs(sure.repeat(2000, 0), (np.arange(2000) < 20).astype(np.int64))
    found = compare(a, b, paired=False, metrics=["error", "confident_accuracy", "ece"], bootstrap=100)
    assert not any(one.is_significant for one in found.differences.values())
    assert found["error"].interval[0] < 0 < found["error"].interval[1]


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_samples_are_shown_and_not_tested(n):
    found = compare(month(200, 1), month(n, 2), paired=False, bootstrap=20)
    assert all(math.isnan(one.p_value) and not one.is_significant for one in found.differences.values())
    assert not math.isnan(found["ece"].difference)
    assert math.isnan(found["ece"].interval[0]) == (n == 1)
    assert found["ece"].verdict == "not tested"
    assert found.verdict == f"Not tested: {len(found.differences)} metrics."


def test_weights_soft_labels_and_masked_classes():
    weights = torch.rand(300, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weighted = compare(month(300, 1, weights=weights), month(200, 2), paired=False, bootstrap=20)
    assert all(math.isfinite(one.difference) for one in weighted.differences.values())
    soft = [Predictions.from_logits(one.values, one.probs()) for one in (month(100, 1), month(90, 2))]
    assert math.isfinite(compare(*soft, paired=False, bootstrap=20)["ece"].p_value)
    masked = []
    for one in (month(200, 1), month(150, 2)):
        keep = one.labels != 4
        masked.append(Predictions.from_logits(one.values[keep], one.labels[keep], masked_classes=[4]))
    assert "nll_calibration" not in compare(*masked, paired=False, bootstrap=20).differences


@pytest.mark.parametrize("kind", ["score", "two columns", "confidence"])
def test_scores_two_columns_and_confidences(kind):
    sets = []
    for n, seed, power in ((800, 1, 1), (500, 2, 3)):
        generator = np.random.default_rng(seed)
        p = generator.random(n)
        outcome = generator.random(n) < p**power
        if kind == "score":
            sets.append(Predictions.from_probs(p, outcome))
        elif kind == "two columns":
            sets.append(Predictions.from_probs(np.column_stack([1 - p, p]), outcome.astype(int)))
        else:
            sets.append(Predictions.from_confidence(p, outcome))
    found = compare(*sets, paired=False, bootstrap=50)
    # Of the predicted class, the errors of both sides cancel.
    metric = "classwise_ece" if kind == "two columns" else "ece"
    assert found[metric].is_significant
    assert found[metric].difference < 0


def test_samples_of_one_cluster_count_as_one():
    a, b = month(40, 1), month(40, 2, sharpness=1.3)
    rows = torch.arange(40).repeat_interleave(50)
    copies = [Predictions.from_logits(one.values[rows], one.labels[rows]) for one in (a, b)]
    clustered = [Predictions.from_logits(one.values[rows], one.labels[rows], clusters=rows) for one in (a, b)]
    wide, narrow = (compare(*sets, paired=False, metrics=["nll", "ece"], bootstrap=200) for sets in (clustered, copies))
    for name in ("nll", "ece"):
        assert np.diff(wide[name].interval) > 2.5 * np.diff(narrow[name].interval)


def test_infinite_losses_have_no_p_value():
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]] * 20, dtype=torch.float64)
    a, b = Predictions.from_probs(probs, [1, 0] * 20), Predictions.from_probs(probs, [0, 1] * 20)
    found = compare(a, b, paired=False, metrics=["nll", "brier"], bootstrap=20)
    assert math.isnan(found["nll"].p_value)
    assert found.verdict.endswith("; not tested: NLL (nats).")
    assert "nan" not in found.to_markdown()
    assert found["brier"].is_significant


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="a has 5 classes and b 3: compare like with like"):
        compare(month(20, 1), month(20, 1, classes=3), paired=False)
    soft = month(20, 1)
    with pytest.raises(ValueError, match="only one of a and b has soft labels"):
        compare(month(20, 1), Predictions.from_logits(soft.values, soft.probs()), paired=False)
    two = Predictions.from_probs([[0.2, 0.8], [0.6, 0.4]], [1, 0])
    with pytest.raises(ValueError, match="a by the predicted class, b by the score of class 1"):
        compare(two, Predictions.from_probs([0.8, 0.4], [1, 0]), paired=False)
    with pytest.raises(ValueError, match="no metric 'ece_floor'"):
        compare(month(20, 1), month(20, 2), paired=False, metrics=["ece_floor"])


@pytest.mark.parametrize("estimate", [0.3, 1.0, 2.5, 3.5])
def test_inverted_intervals_give_the_p_value_of_the_normal_distribution(estimate):
    found = smallest_alpha(lambda level: (estimate - z_score(level), estimate + z_score(level)))
    exact = math.erfc(estimate / math.sqrt(2))
    assert found == pytest.approx(exact, rel=0.02)


def test_inverted_intervals_have_a_smallest_p_value():
    assert smallest_alpha(lambda _: (1.0, 2.0)) == 1e-4
    assert math.isnan(smallest_alpha(lambda _: (math.nan, math.nan)))
