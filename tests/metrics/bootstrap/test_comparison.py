import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.bootstrap.comparison import COMPARED_METRICS, compare, compare_many
from focalcal.metrics.bootstrap.differences import NO_DIFFERENCE, Difference, holm
from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.bootstrap.replicates import RESAMPLED_METRICS
from focalcal.metrics.refinement import nll_split
from focalcal.predictions import Predictions
from oracles.intervals import METRICS, holm_rejects
from oracles.real_files import REAL_FILES, real_predictions


def models(n: int = 300, classes: int = 4, seed: int = 0, scales: tuple[float, ...] = (1.0, 4.0)) -> list[Predictions]:
    """The first is calibrated at scale 1; all have the same argmax, and another confidence at another scale."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return [Predictions.from_logits(scale * logits, labels, ids=[f"s{i}" for i in range(n)]) for scale in scales]


def test_a_clear_difference_is_shown_in_words():
    good, poor = models()
    found = compare(good, poor, names=("good", "poor"))
    assert tuple(found.differences) == COMPARED_METRICS
    for name in ("nll", "brier", "ece", "ada_ece", "classwise_ece"):
        assert found[name].verdict == f"good has the lower {name}"
        assert found[name].difference == pytest.approx(METRICS[name](good, 15) - METRICS[name](poor, 15))
        assert found[name].interval[0] < found[name].interval[1] < 0
    assert found["error"].verdict == NO_DIFFERENCE
    assert found["error"].p_value == 1


def test_identical_models_show_no_difference():
    (model,) = models(scales=(2.0,))
    names = [name for name in RESAMPLED_METRICS if name != "top_5_accuracy"]
    found = compare(model, model, metrics=names, bootstrap=50)
    for difference in found.differences.values():
        assert difference.difference == 0
        assert difference.interval == (0, 0)
        assert difference.p_value == 1
        assert difference.verdict == NO_DIFFERENCE == "no significant difference"


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.integers(1, 30), st.integers(0, 1000), st.sampled_from(["basic", "percentile"]))
def test_comparing_the_other_way_round_turns_every_sign(n, seed, method):
    a, b = models(n, seed=seed, scales=(1.0, 2.0))
    noise = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    b = b.with_values(b.values + noise, "logits")
    one, other = (
        compare(*pair, bootstrap=40, permutations=40, method=method, names=names)
        for pair, names in (((a, b), ("a", "b")), ((b, a), ("b", "a")))
    )
    for name in COMPARED_METRICS:
        assert one[name].difference == -other[name].difference
        assert one[name].interval == pytest.approx(tuple(-end for end in other[name].interval[::-1]), nan_ok=True)
        assert one[name].p_value == other[name].p_value
        assert one[name].verdict == other[name].verdict


@pytest.mark.parametrize("name", REAL_FILES)
def test_temperature_scaling_repairs_real_networks(name):
    before = real_predictions(name)
    after = before.with_values(before.logits() / nll_split(before).temperature, "logits")
    found = compare(before, after, bootstrap=200, permutations=99, names=("before", "after"))
    assert found["error"].verdict == NO_DIFFERENCE
    for metric in ("nll", "brier", "ece", "ada_ece", "classwise_ece"):
        assert found[metric].verdict == f"after has the lower {metric}"


def test_a_scaled_networks_ece_lies_outside_its_own_percentile_interval():
    before = real_predictions("wideresnet-16-4-cifar-10")
    after = before.with_values(before.logits() / nll_split(before).temperature, "logits")
    basic, percentile = (bootstrap(after, metrics=["ece"], method=method) for method in ("basic", "percentile"))
    assert percentile.intervals["ece"][0] > percentile.estimates["ece"]
    assert basic.intervals["ece"][0] == 0


def test_the_same_seed_gives_the_same_result():
    a, b = models(n=100, scales=(1.0, 1.1))
    first, again, other = (compare(a, b, bootstrap=60, permutations=60, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first["nll"].interval != other["nll"].interval


def test_order_does_not_matter_where_there_are_ids():
    a, b = models(n=60)
    shuffled = b.select(torch.randperm(60, generator=torch.Generator().manual_seed(0)))
    assert compare(a, shuffled, bootstrap=20, permutations=20) == compare(a, b, bootstrap=20, permutations=20)


def test_pairs_share_their_samples_so_that_the_interval_is_narrower_than_of_two_single_ones():
    a, b = models(n=400, scales=(1.0, 1.2))
    paired = np.ptp(compare(a, b, metrics=["nll"])["nll"].interval)
    single = math.hypot(*(np.ptp(bootstrap(p, metrics=["nll"]).intervals["nll"]) for p in (a, b)))
    assert paired < 0.5 * single


def test_one_and_two_samples():
    a, b = models(n=1)
    only = compare(a, b)["nll"]
    assert only.p_value == 1
    assert math.isnan(only.interval[0])
    assert only.verdict == NO_DIFFERENCE
    a, b = models(n=2)
    assert compare(a, b)["nll"].p_value in (0.5, 1.0)


def test_a_metric_that_is_undefined_says_so():
    right = Predictions.from_probs([0.9, 0.8], [1, 1], of="top")
    found = compare(right, right, metrics=["mean_confidence_wrong"])["mean_confidence_wrong"]
    assert found.verdict == "mean_confidence_wrong is not defined on these samples"
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["difference"] is None


def test_errors_in_opposite_directions_are_not_a_difference_in_ece():
    """Swapping cancels them, so that the test alone would see a difference; the interval does not."""
    generator = torch.Generator().manual_seed(1)
    p = 0.5 + 0.4 * torch.rand(600, generator=generator, dtype=torch.float64)
    labels = torch.rand(600, generator=generator) < p
    over, under = (Predictions.from_probs(p + shift, labels) for shift in (0.08, -0.08))
    assert compare(over, under, metrics=["ece"])["ece"].verdict == NO_DIFFERENCE


def difference(p_value: float, interval: tuple[float, float]) -> Difference:
    return Difference("ece", ("a", "b"), (0.1, 0.2), -0.1, interval, p_value, p_value, 0.9)


@pytest.mark.parametrize(
    ("p_value", "interval", "shown"),
    [(0.1, (-0.2, -0.05), True), (0.11, (-0.2, -0.05), False), (0.01, (-0.2, 0.0), False), (0.01, (0.1, 0.2), True)],
)
def test_a_difference_needs_both_the_test_and_the_interval(p_value, interval, shown):
    assert difference(p_value, interval).is_significant == shown


def test_several_models_are_corrected_for_the_number_of_pairs():
    a, b, c = models(n=200, scales=(1.0, 1.15, 1.3))
    found = compare_many({"a": a, "b": b, "c": c}, bootstrap=100, permutations=199)
    assert [comparison.names for comparison in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    for name in COMPARED_METRICS:
        raw = [comparison[name].p_value for comparison in found]
        assert [comparison[name].adjusted_p_value for comparison in found] == holm(raw)
    single = compare(a, b, bootstrap=100, permutations=199)
    assert found[0]["nll"].p_value == single["nll"].p_value
    assert found[0]["nll"].interval == single["nll"].interval


def test_models_against_a_reference():
    a, b, c = models(n=50, scales=(1.0, 2.0, 3.0))
    found = compare_many({"a": a, "b": b, "c": c}, reference="b", bootstrap=20, permutations=20)
    assert [comparison.names for comparison in found] == [("a", "b"), ("c", "b")]
    with pytest.raises(ValueError, match="no model called 'd'"):
        compare_many({"a": a, "b": b}, reference="d")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
@settings(deadline=None)
def test_holm_rejects_what_the_procedure_rejects(p_values, level):
    adjusted = holm(p_values)
    # p · m ≤ level and p ≤ level / m may differ by rounding: stay away from equality.
    if all(abs(p * k - level) > 1e-9 for p in p_values for k in range(1, len(p_values) + 1)):
        assert [p <= level for p in adjusted] == holm_rejects(p_values, level)
    assert all(0 <= p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))


def test_holm_leaves_undefined_p_values_out():
    assert holm([0.02, math.nan, 0.04])[::2] == [0.04, 0.04]
    assert math.isnan(holm([0.02, math.nan])[1])


def test_table_and_json():
    good, poor = models(n=100)
    found = compare(good, poor, metrics=["ece", "nll"], bootstrap=20, permutations=20, names=("good", "poor"))
    table = found.to_markdown().splitlines()
    assert table[0] == "| metric | good | poor | difference | interval | p | verdict |"
    assert len(table) == 4
    assert "good has the lower nll" in table[3]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["names"] == ["good", "poor"]
    assert plain["metrics"]["ece"]["difference"] == found["ece"].difference


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 0}, "permutations must be at least 1, not 0"),
        ({"bootstrap": 0}, "resamples must be at least 1, not 0"),
        ({"level": 0.0}, "level must lie between 0 and 1"),
        ({"metrics": ["nonsense"]}, "no metric 'nonsense'"),
        ({"names": ("a", "a")}, "both models are called 'a'"),
    ],
)
def test_bad_arguments_get_one_sentence(options, message):
    a, b = models(n=5)
    with pytest.raises(ValueError, match=message):
        compare(a, b, **options)
    with pytest.raises(ValueError, match="1 models to compare"):
        compare_many({"a": a})
