import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal import metrics
from focalcal.metrics import METRICS, evaluate
from focalcal.metrics.bootstrap.intervals import check_names
from focalcal.metrics.streaming import large_files
from focalcal.predictions import Predictions, open_predictions
from oracles import metrics as oracle
from oracles.real_files import REAL_FILES, real_predictions

evaluate_module = __import__("focalcal.metrics.evaluating", fromlist=["evaluate"])

FUNCTIONS = {name: getattr(metrics, name) for name in METRICS}


def random_predictions(n=600, num_classes=8, weighted=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, num_classes, generator=generator) * 2
    labels = (logits + torch.randn(n, num_classes, generator=generator) * 2).argmax(dim=1)
    weights = torch.rand(n, generator=generator).double() if weighted else None
    return Predictions.from_logits(logits, labels, weights=weights, split="test")


@settings(deadline=None, max_examples=50)
@given(oracle.logit_predictions(), st.integers(1, 20))
def test_every_metric_of_one_pass_is_that_of_its_formula(preds, bins):
    expected = oracle.all_metrics(preds, bins)
    values = evaluate(preds, metrics=list(expected), bins=bins, bootstrap=0).values
    assert list(values) == list(expected)
    for name in set(expected) - {"nll"}:  # from logits the loss is finer than the oracle's, which has only p
        assert values[name] == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluate_gives_what_each_function_gives(weighted):
    preds = random_predictions(weighted=weighted)
    values = evaluate(preds, bootstrap=0).values
    assert list(values) == list(METRICS)
    for name, function in FUNCTIONS.items():
        assert values[name] == pytest.approx(function(preds), rel=1e-9), name


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_networks(name):
    preds = real_predictions(name)
    values = evaluate(preds, bootstrap=0).values
    for metric, function in FUNCTIONS.items():
        assert values[metric] == pytest.approx(function(preds), rel=1e-9), metric
    assert values["signed_gap"] > 0
    assert values["ece_floor"] < values["ece"]


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_a_subset_is_in_the_order_asked_for_and_without_the_rest(convert):
    preds = Predictions.from_logits(convert(random_predictions().values), random_predictions().labels)
    result = evaluate(preds, metrics=["ada_ece", "error", "ada_ece", "smooth_ece"], intervals=False)
    assert list(result.values) == ["ada_ece", "error", "smooth_ece"]
    assert list(result.bounds) == ["smooth_ece"]
    assert result.intervals == {}
    assert result.level is None


def test_few_classes_have_no_top_5():
    assert "top_5_accuracy" not in evaluate(random_predictions(50, 5), bootstrap=0).values
    assert "top_5_accuracy" in evaluate(random_predictions(50, 6), bootstrap=0).values
    with pytest.raises(ValueError, match="no metric 'top_5_accuracy'"):
        evaluate(random_predictions(50, 5), metrics=["top_5_accuracy"])


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("ada-ece", "ada_ece"), ("ECE", "ece"), ("classwise", "classwise_ece"), ("acuracy", "accuracy")],
)
def test_an_unknown_name_gets_the_nearest(asked, meant):
    with pytest.raises(ValueError, match=f"no metric '{asked}'; did you mean '{meant}'"):
        check_names([asked], 10, tuple(METRICS))


def test_one_name_in_place_of_a_list_is_refused():
    with pytest.raises(TypeError, match=r"pass \['ece'\]"):
        evaluate(random_predictions(), metrics="ece")


HONEST = {"ece", "ada_ece", "classwise_ece", "debiased_ece", "mce", "ks_error", "smooth_ece"}


def test_intervals_hold_the_values_and_depend_on_the_seed_alone():
    preds = random_predictions()
    first, again, other = (evaluate(preds, bootstrap=100, seed=seed) for seed in (0, 0, 1))
    assert first.to_dict() == again.to_dict()
    assert first.intervals["error"] != other.intervals["error"]
    assert first.level == 0.9
    for name, (low, high) in first.intervals.items():
        assert math.isnan(low) or low <= first.values[name] <= high, name


def test_calibration_errors_have_honest_intervals_by_default_and_the_rest_resamples():
    preds = random_predictions()
    found = evaluate(preds, bootstrap=50)
    assert set(found.methods) == set(found.intervals) == set(METRICS) - {"ece_floor"}
    assert {name for name, method in found.methods.items() if method == "honest"} == HONEST
    assert {method for name, method in found.methods.items() if name not in HONEST} == {"basic"}
    assert found.to_dict()["interval_methods"]["ece"] == "honest"


@pytest.mark.parametrize("bootstrap", [0, None])
def test_without_resamples_only_honest_intervals_are_left(bootstrap):
    found = evaluate(random_predictions(), bootstrap=bootstrap)
    assert set(found.intervals) == HONEST
    assert evaluate(random_predictions(), bootstrap=bootstrap, method="basic").intervals == {}


def test_intervals_can_be_turned_off():
    found = evaluate(random_predictions(), intervals=False)
    assert (found.intervals, found.methods, found.level) == ({}, {}, None)


def test_a_method_by_name():
    preds, names = random_predictions(), ["ece", "error"]
    basic, percentile, bca = (
        evaluate(preds, metrics=names, bootstrap=99, method=method) for method in ("basic", "percentile", "bca")
    )
    for found, method in ((basic, "basic"), (percentile, "percentile"), (bca, "bca")):
        assert found.methods == dict.fromkeys(names, method)
    assert len({basic.intervals["ece"], percentile.intervals["ece"], bca.intervals["ece"]}) == 3
    honest = evaluate(preds, metrics=names, method="honest")
    assert (set(honest.intervals), honest.methods) == ({"ece"}, {"ece": "honest"})
    with pytest.raises(ValueError, match="method must be one of honest, basic, percentile, bca, not 'normal'"):
        evaluate(preds, method="normal")


def test_the_test_of_calibration_comes_with_the_ece():
    preds = random_predictions()
    assert evaluate(preds).calibration_test == metrics.calibration_test(preds)
    assert evaluate(preds, intervals=False).to_dict()["calibration_test"]["p_value"] < 0.001
    assert evaluate(preds, metrics=["nll"]).calibration_test is None


@pytest.mark.parametrize("options", [{"bins": 0}, {"bootstrap": -1}, {"level": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        evaluate(random_predictions(), **options)


def test_one_sample_all_right():
    result = evaluate(Predictions.from_probs([[0.75, 0.25]], [0]), bootstrap=10)
    assert result.values["ece"] == result.values["ada_ece"] == result.values["mce"] == 0.25
    assert math.isnan(result.values["mean_confidence_wrong"])
    assert result.to_dict()["values"]["mean_confidence_wrong"] is None
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("ending", ["safetensors", "npz", "parquet"])
def test_a_small_file_gives_what_its_predictions_give(ending, tmp_path):
    preds = random_predictions()
    path = tmp_path / f"test.{ending}"
    preds.save(path)
    expected = evaluate(preds, bootstrap=20)
    for source in (path, str(path), open_predictions(path)):
        found = evaluate(source, bootstrap=20)
        assert found.to_dict() == expected.to_dict()


LEFT_OUT = {"nll_calibration", "nll_refinement", "brier_calibration", "brier_refinement"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ending", ["safetensors", "npz", "parquet", "csv"])
def test_a_file_in_blocks_gives_the_same_numbers_and_intervals(ending, weighted, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate_module, "READ_WHOLE_BYTES", 0)
    preds = random_predictions(weighted=weighted)
    path = tmp_path / f"test.{ending}"
    preds.save(path)
    expected, found = evaluate(preds, bootstrap=30), evaluate(path, bootstrap=30)
    assert set(expected.values) - set(found.values) == LEFT_OUT
    assert set(expected.intervals) - set(found.intervals) == LEFT_OUT
    assert found.calibration_test.p_value == expected.calibration_test.p_value
    assert found.methods == {name: expected.methods[name] for name in found.methods}
    for name, value in found.values.items():
        assert value == pytest.approx(expected.values[name], rel=1e-9), name
    for name, ends in found.intervals.items():
        if name == "classwise_ece":  # of a stream, standard errors are bounded
            assert ends[0] <= expected.intervals[name][0] <= expected.intervals[name][1] <= ends[1]
        else:
            assert ends == pytest.approx(expected.intervals[name], rel=1e-9, abs=1e-9, nan_ok=True), name
    assert "read in blocks" in found.notes[0]
    assert len(found.notes) == 1


@pytest.fixture
def few_are_kept(monkeypatch):
    """As if 600 samples were more than is kept, or resampled one by one."""
    from focalcal.metrics.streaming import large_files, sketch

    monkeypatch.setattr(evaluate_module, "READ_WHOLE_BYTES", 0)
    for module in (large_files, sketch):
        monkeypatch.setattr(module, "KEPT_SAMPLES", 200)
    monkeypatch.setattr(large_files, "ONE_BY_ONE", 100)


@pytest.mark.parametrize("weighted", [False, True])
def test_more_samples_than_are_kept_give_an_accumulator(weighted, tmp_path, few_are_kept):
    preds = random_predictions(weighted=weighted)
    preds.save(tmp_path / "test.safetensors")
    expected, found = evaluate(preds, bootstrap=300), evaluate(tmp_path / "test.safetensors", bootstrap=300)
    assert set(expected.values) - set(found.values) == LEFT_OUT | {"debiased_ece"}
    assert abs(found.values["ada_ece"] - expected.values["ada_ece"]) <= found.bounds["ada_ece"] + 1e-12
    for name in set(found.values) - {"ada_ece"}:
        assert found.values[name] == pytest.approx(expected.values[name], rel=1e-9), name
    with pytest.raises(ValueError, match="debiased_ece cannot be computed from a file that is read in blocks"):
        evaluate(tmp_path / "test.safetensors", metrics=["debiased_ece"])
    # Groups are resampled in place of samples: the same intervals up to the chance of either.
    assert set(expected.intervals) - set(found.intervals) == LEFT_OUT | {"debiased_ece"}
    for name in ("ece", "mce"):
        assert found.intervals[name] == pytest.approx(expected.intervals[name], rel=1e-9), name
    for name in ("error", "ada_ece", "ks_error", "smooth_ece", "nll", "mean_confidence_right"):
        (low, high), (other_low, other_high) = expected.intervals[name], found.intervals[name]
        assert abs(low - other_low) + abs(high - other_high) < 0.5 * (high - low), name


def test_samples_without_weight_are_no_trouble_for_a_file_in_blocks(tmp_path, few_are_kept):
    preds = random_predictions()
    some = Predictions.from_logits(preds.values, preds.labels, weights=(torch.arange(600) % 4 == 0).double())
    some.save(tmp_path / "test.safetensors")
    found = evaluate(tmp_path / "test.safetensors", bootstrap=20)
    expected = evaluate(some, bootstrap=0)
    assert found.n == expected.n == 150
    assert found.values["ece"] == pytest.approx(expected.values["ece"], rel=1e-9)


@pytest.mark.parametrize("few", [True, False])
def test_weights_that_grow_along_a_file_count_alike_in_resamples(few, tmp_path, monkeypatch, few_are_kept):
    """Sums so far are divided when a larger weight comes; what is resampled has to be, too."""
    preds = random_predictions(2000, 4, seed=3)
    weights = torch.where(torch.arange(2000) < 1000, 1.0, 16.0).double()
    preds = Predictions.from_logits(preds.values, preds.labels, weights=weights)
    preds.save(tmp_path / "p.safetensors")
    monkeypatch.setattr(large_files, "_ROWS_READ", 500)
    monkeypatch.setattr(large_files, "ONE_BY_ONE", 10_000 if few else 100)
    found = evaluate(tmp_path / "p.safetensors", metrics=["error", "nll"], bootstrap=400)
    expected = evaluate(preds, metrics=["error", "nll"], bootstrap=400)
    for name, (low, high) in expected.intervals.items():
        own = found.intervals[name]
        assert own[1] - own[0] == pytest.approx(high - low, rel=0.2), name
        assert own[0] <= found.values[name] <= own[1], name


def test_classwise_spread_of_some_samples_is_that_of_all(monkeypatch):
    module = __import__("focalcal.metrics.classwise_interval", fromlist=["x"])
    preds = random_predictions(6000, 5, seed=1)
    expected = evaluate(preds, metrics=["classwise_ece"]).intervals["classwise_ece"]
    monkeypatch.setattr(module, "_ROWS_OF_VARIANCE", 600)
    found = evaluate(preds, metrics=["classwise_ece"]).intervals["classwise_ece"]
    assert found != expected
    estimate = evaluate(preds, metrics=["classwise_ece"], intervals=False)["classwise_ece"]
    assert found[1] - estimate == pytest.approx(expected[1] - estimate, rel=0.1)


def test_a_metric_that_needs_all_outputs_is_refused_by_name_for_a_file_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate_module, "READ_WHOLE_BYTES", 0)
    random_predictions().save(tmp_path / "test.safetensors")
    with pytest.raises(ValueError, match="nll_refinement cannot be computed"):
        evaluate(tmp_path / "test.safetensors", metrics=["error", "nll_refinement"])
    assert list(evaluate(tmp_path / "test.safetensors", metrics=["ece", "error"]).values) == ["ece", "error"]


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        evaluate(tmp_path / "nothing.safetensors")
