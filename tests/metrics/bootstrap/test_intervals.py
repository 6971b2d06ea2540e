import math

import numpy as np
import pytest
import torch

from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.bootstrap.replicates import INTERVAL_METRICS
from focalcal.metrics.catalogue import METRICS as CATALOGUE
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from oracles.intervals import LOSS_PARTS, METRICS

ALL_METHODS = ("basic", "percentile", "bca")


def some_predictions(n: int = 400, classes: int = 10, seed: int = 0) -> Predictions:
    """Confident, and wrong in a third."""
    generator = torch.Generator().manual_seed(seed)
    logits = 8 * torch.randn(n, classes, generator=generator)
    noisy = torch.rand(n, generator=generator) < 0.3
    labels = torch.where(noisy, torch.randint(classes, (n,), generator=generator), logits.argmax(1))
    return Predictions.from_logits(logits, labels)


def test_estimates_are_the_metrics():
    preds = some_predictions()
    found = bootstrap(preds, bootstrap=10).estimates
    assert set(found) == set(INTERVAL_METRICS)
    for name, value in found.items():
        expected = LOSS_PARTS[name](preds) if name in LOSS_PARTS else METRICS[name](preds, 15)
        tolerance = 5e-5 if name == "smooth_ece" else 1e-6 if name in LOSS_PARTS else 1e-12
        assert value == pytest.approx(expected, abs=tolerance), name


@pytest.mark.parametrize("method", ALL_METHODS)
def test_the_same_seed_gives_the_same_intervals_and_another_seed_others(method):
    preds = some_predictions(200)
    first, again, other = (bootstrap(preds, bootstrap=50, seed=seed, method=method) for seed in (7, 7, 8))
    assert first.intervals == again.intervals
    assert all(
        np.array_equal(first.replicates[name], again.replicates[name], equal_nan=True) for name in first.replicates
    )
    assert first.intervals["nll"] != other.intervals["nll"]


def test_a_mean_has_the_standard_error_that_statistics_gives_it():
    preds = some_predictions(1000)
    replicates = bootstrap(preds, metrics=["nll"], bootstrap=4000).replicates["nll"]
    expected = sample_statistics(preds).nll.std(correction=0) / math.sqrt(1000)
    # The standard deviation of 4,000 values is known to 1 / √8000.
    assert replicates.std() == pytest.approx(float(expected), rel=4 / math.sqrt(8000))


@pytest.mark.parametrize("method", ALL_METHODS)
def test_intervals_stay_inside_the_range_and_widen_with_the_level(method):
    preds = some_predictions(60)
    narrow, wide = (bootstrap(preds, bootstrap=200, level=level, method=method).intervals for level in (0.5, 0.95))
    for name in INTERVAL_METRICS:
        low, high = CATALOGUE[name].range
        assert low <= wide[name][0] <= narrow[name][0] <= narrow[name][1] <= wide[name][1] <= high, name


def test_basic_takes_off_what_resampling_puts_on_a_calibrated_models_ece():
    generator = torch.Generator().manual_seed(3)
    p = 0.5 + 0.5 * torch.rand(1000, generator=generator, dtype=torch.float64)
    calibrated = Predictions.from_probs(p, torch.rand(1000, generator=generator) < p)
    basic, percentile = (bootstrap(calibrated, metrics=["ece"], method=method) for method in ("basic", "percentile"))
    estimate, middle = basic.estimates["ece"], np.median(basic.replicates["ece"])
    assert middle > 1.3 * estimate
    assert sum(percentile.intervals["ece"]) / 2 > estimate > sum(basic.intervals["ece"]) / 2
    assert basic.intervals["ece"][0] < 0.1 * estimate


def test_one_sample_has_no_interval():
    result = bootstrap(Predictions.from_probs([[0.75, 0.25]], [0]), bootstrap=20)
    assert result.estimates["ece"] == 0.25
    assert all(math.isnan(end) for ends in result.intervals.values() for end in ends)
    weighted = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 0], weights=[1.0, 0.0])
    assert math.isnan(bootstrap(weighted, metrics=["ece"], bootstrap=20).intervals["ece"][0])


@pytest.mark.parametrize("method", ALL_METHODS)
def test_two_samples(method):
    preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
    result = bootstrap(preds, bootstrap=200, method=method)
    assert result.replicates["error"].min() == 0
    assert result.replicates["error"].max() == 1
    # A quarter of the resamples has no wrong sample at all.
    assert math.isnan(result.intervals["mean_confidence_wrong"][0])
    assert not math.isnan(result.intervals["mean_confidence"][0])


@pytest.mark.parametrize("method", ALL_METHODS)
def test_everything_right(method):
    p = torch.linspace(0.6, 0.99, 50)
    result = bootstrap(
        Predictions.from_probs(p, torch.ones(50, dtype=torch.int64), of="top"), bootstrap=100, method=method
    )
    assert result.intervals["error"] == (0.0, 0.0)
    assert math.isnan(result.estimates["mean_entropy_wrong"])
    assert math.isnan(result.intervals["mean_entropy_wrong"][1])
    low, high = result.intervals["mean_confidence"]
    assert low < result.estimates["mean_confidence"] < high


@pytest.mark.parametrize("classes", [2, 1000])
def test_few_and_many_classes(classes):
    result = bootstrap(some_predictions(100, classes), bootstrap=30)
    assert ("top_5_accuracy" in result.estimates) == (classes > 5)
    assert all(math.isfinite(result.intervals[name][1]) for name in ("ece", "ada_ece", "classwise_ece", "nll"))


def test_weights_of_two_are_not_two_samples():
    """Two copies are two pieces of evidence, one sample of weight two is one: its interval is wider."""
    preds = some_predictions(100)
    doubled = preds.select(torch.arange(100).repeat(2))
    heavy = Predictions.from_logits(preds.values, preds.labels, weights=torch.full((100,), 2.0))
    spread = {
        name: np.ptp(bootstrap(p, metrics=["nll"]).intervals["nll"]) for name, p in (("two", doubled), ("heavy", heavy))
    }
    assert bootstrap(heavy, metrics=["nll"]).intervals["nll"] == pytest.approx(
        bootstrap(preds, metrics=["nll"]).intervals["nll"]
    )
    assert spread["heavy"] > 1.2 * spread["two"]


def test_statistics_at_hand_save_a_pass_and_change_nothing():
    preds = some_predictions(50)
    given = bootstrap(preds, bootstrap=20, statistics=sample_statistics(preds))
    assert given.intervals == bootstrap(preds, bootstrap=20).intervals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["ece_floor"]}, "There is no metric 'ece_floor'"),
        ({"metrics": ["top_5_accuracy"]}, "There is no metric 'top_5_accuracy'"),
        ({"bootstrap": 0}, "at least 1, not 0"),
        ({"level": 1.0}, "level must lie between 0 and 1, not 1.0"),
        ({"level": float("nan")}, "level must lie between 0 and 1, not nan"),
        ({"method": "normal"}, "method must be one of basic, percentile, bca"),
        ({"bins": 0}, "the number of bins must be at least 1"),
        ({"seed": -1}, "the seed must be at least 0, not -1"),
    ],
)
def test_bad_arguments_get_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(Predictions.from_probs([[0.75, 0.25]], [0]), **options)


def test_one_name_must_be_in_a_list():
    with pytest.raises(TypeError, match=r"pass \['ece'\]"):
        bootstrap(Predictions.from_probs([[0.75, 0.25]], [0]), metrics="ece")


def test_a_number_of_resamples_is_whole():
    with pytest.raises(TypeError, match=r"number of resamples must be an integer, not 2\.5"):
        bootstrap(Predictions.from_probs([[0.75, 0.25]], [0]), bootstrap=2.5)
