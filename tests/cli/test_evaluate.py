import json
import math
import shutil
from importlib import import_module

import numpy as np
import pytest

from focalcal.metrics import METRICS, ece, evaluate, mce
from focalcal.predictions import Predictions
from focalcal.report.readings import format_value
from oracles.known_truth import logits_and_labels, predictions
from oracles.real_files import REAL_FILES, real_predictions

CORRUPT = {
    "safetensors": b"\x10\x00\x00\x00\x00\x00\x00\x00not a json header",
    "npz": b"PK\x03\x04 and then nothing",
    "parquet": b"PAR1 but no footer",
    "csv": b"logits_0,logits_1,labels\n1.0,oops,0\n",
}


def test_table_has_every_metric_as_the_library_gives_it(focalcal, over_confident):
    ran = focalcal("evaluate", over_confident, "--bootstrap", 50)
    expected = evaluate(Predictions.load(over_confident), bootstrap=50)
    assert (ran.code, ran.err) == (0, "")
    rows = {cells[1].strip(): cells for line in ran.out.splitlines() if len(cells := line.split("│")) == 6}
    assert list(rows) == [METRICS[name].heading for name in expected.values]
    for name, value in expected.values.items():
        assert rows[METRICS[name].heading][2].strip() == format_value(name, value)
        low, high = expected.intervals.get(name, (math.nan, math.nan))
        interval = rows[METRICS[name].heading][3].strip()
        assert interval == ("" if math.isnan(low) else f"{format_value(name, low)} – {format_value(name, high)}")


def test_json_has_the_numbers_of_the_library(focalcal, over_confident):
    ran = focalcal("evaluate", over_confident, "--json", "--bootstrap", 50, "--bins", 10, "--level", 0.8, "--seed", 7)
    content = json.loads(ran.out)
    expected = evaluate(Predictions.load(over_confident), bins=10, bootstrap=50, level=0.8, seed=7)
    assert (ran.code, ran.err) == (0, "")
    assert content["file"] == "over.safetensors"
    assert {key: content[key] for key in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    settings = {"n": 600, "num_classes": 10, "bins": 10, "level": 0.8, "seed": 7, "bootstrap": 50, "split": "test"}
    assert {key: content[key] for key in settings} == settings
    assert str(over_confident.parent) not in ran.out


def test_undefined_is_null_in_json(focalcal, tmp_path):
    path = tmp_path / "right.npz"
    Predictions.from_probs([[0.75, 0.25], [0.25, 0.75]], [0, 1]).save(path)
    content = json.loads(focalcal("evaluate", path, "--json").out)
    assert content["values"]["mean_confidence_wrong"] is None
    assert content["values"]["error"] == 0


def test_infinite_nll_is_null_in_json_and_fails_a_bound(focalcal, tmp_path):
    path = tmp_path / "impossible.npz"
    Predictions.from_probs([[1.0, 0.0], [0.25, 0.75]], [1, 1]).save(path)
    ran = focalcal("evaluate", path, "--json", "--max-nll", 5, "--metrics", "nll")
    assert ran.code == 1
    assert json.loads(ran.out)["gates"] == [{"metric": "nll", "max": 5.0, "value": None, "met": False}]
    assert "nll is inf, above --max-nll 5" in ran.err


@pytest.mark.parametrize("ending", ["safetensors", "npz", "parquet", "csv"])
def test_formats_give_the_same(focalcal, tmp_path, ending):
    preds = predictions(200, sharpness=2.5)
    preds.save(tmp_path / f"test.{ending}")
    content = json.loads(focalcal("evaluate", tmp_path / f"test.{ending}", "--json", "--bootstrap", 0).out)
    expected = evaluate(preds, bootstrap=0)
    assert content["values"] == pytest.approx(expected.values, rel=1e-12)
    assert set(content["intervals"]) == set(content["interval_methods"]) == set(expected.intervals)
    assert set(content["interval_methods"].values()) == {"honest"}
    plain = json.loads(focalcal("evaluate", tmp_path / f"test.{ending}", "--json", "--no-intervals").out)
    assert plain["intervals"] == {}


def test_a_threshold_for_the_upper_end(focalcal, refused, tmp_path):
    preds = predictions(400, sharpness=2.5)
    preds.save(tmp_path / "test.npz")
    found = evaluate(preds, metrics=["ece", "accuracy"])
    between = round((found["ece"] + found.intervals["ece"][1]) / 2, 4)
    command = ("evaluate", tmp_path / "test.npz", "--max-ece", between)
    assert focalcal(*command).code == 0
    ran = focalcal(*command, "--judge", "upper")
    assert ran.code == 1
    assert f"the upper end of the interval of ece is {found.intervals['ece'][1]:.6g}, above --max-ece" in ran.err
    below = round((found["accuracy"] + found.intervals["accuracy"][0]) / 2, 4)
    ran = focalcal("evaluate", tmp_path / "test.npz", "--min-accuracy", below, "--judge", "upper")
    assert ran.code == 1
    assert "the lower end of the interval of accuracy" in ran.err
    assert "--judge is 'lower'; it must be estimate or upper" in refused(*command, "--judge", "lower")
    assert "ece has no interval here" in refused(*command, "--judge", "upper", "--no-intervals")


def test_a_table_of_classes_has_both_views(focalcal, tmp_path):
    predictions(300).save(tmp_path / "test.npz")
    out = focalcal("evaluate", tmp_path / "test.npz", "--metrics", "ece", "--classes").out
    assert "Classes where they are predicted, and where they are the label" in " ".join(out.split())
    for heading in ("predicted", "labelled", "recall"):
        assert heading in out


def test_a_method_for_all_intervals(focalcal, refused, tmp_path):
    predictions(200).save(tmp_path / "test.npz")
    command = ("evaluate", tmp_path / "test.npz", "--json", "--metrics", "ece,error")
    content = json.loads(focalcal(*command, "--method", "percentile").out)
    assert content["interval_methods"] == {"ece": "percentile", "error": "percentile"}
    assert "method must be one of" in refused(*command, "--method", "normal")


def test_keys_kind_and_labels_choose_what_is_read(focalcal, refused, tmp_path):
    logits, labels = logits_and_labels(200)
    np.savez(tmp_path / "odd.npz", scores=logits.numpy(), truth=labels.numpy())
    np.save(tmp_path / "scores.npy", logits.numpy())
    np.save(tmp_path / "truth.npy", labels.numpy())
    assert "--logits-key or --probs-key" in refused("evaluate", tmp_path / "odd.npz")
    assert "no 'wrong', which --labels-key names" in refused(
        "evaluate", tmp_path / "odd.npz", "--logits-key", "scores", "--labels-key", "wrong"
    )
    keys = focalcal("evaluate", tmp_path / "odd.npz", "--json", "--logits-key", "scores", "--labels-key", "truth")
    array = focalcal(
        "evaluate", tmp_path / "scores.npy", "--json", "--kind", "logits", "--labels", tmp_path / "truth.npy"
    )
    expected = evaluate(Predictions.from_logits(logits, labels)).to_dict()["values"]
    assert json.loads(keys.out)["values"] == expected
    assert json.loads(array.out)["values"] == expected


def test_run_directory_stands_for_its_test_predictions(focalcal, refused, over_confident, tmp_path):
    run = tmp_path / "run"
    (run / "predictions").mkdir(parents=True)
    assert "without predictions/test.safetensors" in refused("evaluate", run)
    shutil.copy(over_confident, run / "predictions" / "test.safetensors")
    arguments = ("--json", "--bootstrap", 0)
    of_run, of_file = (json.loads(focalcal("evaluate", path, *arguments).out) for path in (run, over_confident))
    assert of_run["values"] == of_file["values"]
    assert of_run["file"] == "test.safetensors"


class TestThresholds:
    def test_met(self, focalcal, over_confident):
        ran = focalcal("evaluate", over_confident, "--bootstrap", 0, "--max-ece", 0.9, "--min-accuracy", 0.1)
        assert (ran.code, ran.err) == (0, "")
        assert "--max-ece 0.9: passed" in ran.out
        assert "--min-accuracy 0.1: passed" in ran.out

    def test_exceeded(self, focalcal, over_confident):
        ran = focalcal(
            "evaluate", over_confident, "--bootstrap", 0, "--max-ece", 0.02, "--min-accuracy", 0.99, "--max-nll", 99
        )
        values = evaluate(Predictions.load(over_confident), bootstrap=0).values
        assert ran.code == 1
        assert f"ece is {values['ece']:.6g}, above --max-ece 0.02." in ran.err
        assert f"accuracy is {values['accuracy']:.6g}, below --min-accuracy 0.99." in ran.err
        assert "nll" not in ran.err
        assert "--max-nll 99: passed" in ran.out

    def test_json_is_complete_where_a_bound_is_not_kept(self, focalcal, over_confident):
        ran = focalcal("evaluate", over_confident, "--json", "--bootstrap", 0, "--max-ece", 0.02, "--max-error", 1)
        content = json.loads(ran.out)
        assert ran.code == 1
        assert content["gates_met"] is False
        assert [(gate["metric"], gate["met"]) for gate in content["gates"]] == [("error", True), ("ece", False)]

    def test_value_on_the_bound_keeps_it(self, focalcal, tmp_path):
        path = tmp_path / "half.npz"
        Predictions.from_probs([[0.75, 0.25], [0.25, 0.75]], [0, 0]).save(path)
        bounds = ("--max-error", 0.5, "--min-error", 0.5)
        assert focalcal("evaluate", path, "--bootstrap", 0, *bounds).code == 0

    def test_undefined_keeps_no_bound(self, focalcal, tmp_path):
        path = tmp_path / "unsure.npz"
        Predictions.from_probs([[0.75, 0.25]], [0]).save(path)
        ran = focalcal("evaluate", path, "--bootstrap", 0, "--min-confident-accuracy", 0)
        assert ran.code == 1
        assert "confident_accuracy is undefined" in ran.err

    def test_metric_that_cannot_be_had(self, refused, tmp_path):
        path = tmp_path / "three.npz"
        predictions(100, classes=3).save(path)
        assert "leave out --min-top-5-accuracy 0.9" in refused("evaluate", path, "--min-top-5-accuracy", 0.9)

    @pytest.mark.parametrize("limit", ["2", "nan", "-0.1", "inf"])
    def test_fractions_only(self, refused, over_confident, limit):
        assert "--max-ece" in refused("evaluate", over_confident, "--max-ece", limit)

    def test_finite_numbers_only(self, refused, over_confident):
        assert "finite" in refused("evaluate", over_confident, "--max-nll", "nan")

    def test_metric_with_a_bound_need_not_be_asked_for(self, focalcal, over_confident):
        ran = focalcal("evaluate", over_confident, "--json", "--metrics", "nll", "--max-ada-ece", 0.001)
        assert ran.code == 1
        assert list(json.loads(ran.out)["values"]) == ["nll", "ada_ece"]

    @pytest.mark.parametrize("metric", METRICS)
    @pytest.mark.parametrize("side", ["max", "min"])
    def test_every_metric_has_both(self, focalcal, over_confident, metric, side):
        value = evaluate(Predictions.load(over_confident), metrics=[metric], bootstrap=0).values[metric]
        option = f"--{side}-{metric.replace('_', '-')}"
        arguments = ("evaluate", over_confident, "--metrics", metric, "--bootstrap", 0)
        beyond = math.nextafter(value, -math.inf if side == "max" else math.inf)
        assert focalcal(*arguments, option, repr(value)).code == 0
        assert focalcal(*arguments, option, repr(beyond)).code == 1


class TestConvention:
    @pytest.fixture
    def saturated(self, tmp_path):
        """Confidence 1.0, too high, and 0.95, too low: in one bin for us, in two for torchmetrics."""
        path = tmp_path / "saturated.npz"
        probs = [[1.0, 0.0]] * 20 + [[0.95, 0.05]] * 20
        Predictions.from_probs(probs, [0] * 18 + [1] * 2 + [0] * 20).save(path)
        return path

    @pytest.mark.parametrize("name", ["torchmetrics", "netcal"])
    def test_json_tells_how_far_the_number_moves(self, focalcal, saturated, name):
        ran = focalcal("evaluate", saturated, "--json", "--bootstrap", 0, "--convention", name)
        content, preds = json.loads(ran.out), Predictions.load(saturated)
        assert content["convention"]["name"] == name
        assert content["convention"]["values"] == {
            "ece": ece(preds, convention=name),
            "mce": mce(preds, convention=name),
        }
        moved = ece(preds, convention=name) - ece(preds)
        assert content["convention"]["moved"]["ece"] == pytest.approx(moved, abs=1e-15)
        assert content["values"]["ece"] == ece(preds)

    def test_table_tells_it_in_words(self, focalcal, saturated):
        out = focalcal("evaluate", saturated, "--bootstrap", 0, "--convention", "torchmetrics").out
        preds = Predictions.load(saturated)
        theirs, ours = ece(preds, convention="torchmetrics"), ece(preds)
        assert (theirs, ours) == pytest.approx((0.075, 0.025))
        assert f"In the bins of torchmetrics, ECE is {100 * theirs:.2f}% (+{100 * (theirs - ours):.4f} points)" in out

    def test_unknown(self, refused, saturated):
        assert "'focalcal', 'torchmetrics' or 'netcal'" in refused("evaluate", saturated, "--convention", "sklearn")


def test_comparing_is_a_command_of_its_own(refused, over_confident):
    said = refused("evaluate", over_confident, "--compare", "b.npz")
    assert "use `focalcal compare" in said
    assert "over.safetensors b.npz`" in " ".join(said.split())


class TestBadInput:
    def test_missing_file(self, refused, tmp_path):
        assert "There is no file" in refused("evaluate", tmp_path / "nothing.npz")

    def test_folder(self, refused, tmp_path):
        assert "is a folder" in refused("evaluate", tmp_path)

    @pytest.mark.parametrize("ending", CORRUPT)
    def test_corrupt_file(self, refused, tmp_path, ending):
        path = tmp_path / f"corrupt.{ending}"
        path.write_bytes(CORRUPT[ending])
        assert "corrupt." in refused("evaluate", path)

    @pytest.mark.parametrize("ending", ["safetensors", "npz", "parquet"])
    @pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
    def test_truncated_file(self, refused, tmp_path, ending, kept):
        path = tmp_path / f"short.{ending}"
        predictions(50).save(path)
        content = path.read_bytes()
        path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
        assert "short." in refused("evaluate", path)

    def test_unknown_ending(self, refused, tmp_path):
        path = tmp_path / "predictions.txt"
        path.write_text("0.5")
        assert ".safetensors" in refused("evaluate", path)

    def test_pickle_is_not_read(self, refused, tmp_path):
        path = tmp_path / "pickled.npz"
        np.savez(path, logits=np.array([[1.0, 2.0]], dtype=object), labels=np.array([0]))
        assert "pickle" in refused("evaluate", path)

    def test_unknown_metric(self, refused, over_confident):
        assert "did you mean 'ada_ece'" in refused("evaluate", over_confident, "--metrics", "ece,adaece")

    def test_no_metric(self, refused, over_confident):
        assert "--metrics" in refused("evaluate", over_confident, "--metrics", ",")

    @pytest.mark.parametrize("arguments", [("--bins", "0"), ("--bins", "x"), ("--seed", "-1"), ("--level", "90")])
    def test_numbers_that_make_no_sense(self, refused, over_confident, arguments):
        assert arguments[0] in refused("evaluate", over_confident, *arguments)

    def test_unknown_option_gets_the_nearest(self, refused, over_confident):
        assert "--max-ece" in refused("evaluate", over_confident, "--max-ecee", 0.1)

    def test_logits_called_probabilities(self, refused, tmp_path):
        path = tmp_path / "logits.npz"
        np.savez(path, probs=np.array([[2.0, -1.0]]), labels=np.array([0]))
        assert "--logits-key" in refused("evaluate", path)


def test_metric_names_may_have_dashes_and_blanks(focalcal, over_confident):
    ran = focalcal("evaluate", over_confident, "--json", "--bootstrap", 0, "--metrics", "ada-ece, NLL")
    assert sorted(json.loads(ran.out)["values"]) == ["ada_ece", "nll"]


def test_file_in_blocks_says_what_is_left_out(focalcal, over_confident, monkeypatch):
    whole = json.loads(focalcal("evaluate", over_confident, "--json", "--convention", "netcal").out)
    monkeypatch.setattr(import_module("focalcal.metrics.evaluating"), "READ_WHOLE_BYTES", 0)
    blocks = json.loads(focalcal("evaluate", over_confident, "--json", "--convention", "netcal").out)
    assert "nll_refinement" not in blocks["values"]
    assert blocks["values"] == pytest.approx({name: whole["values"][name] for name in blocks["values"]}, rel=1e-9)
    assert blocks["convention"] == whole["convention"]
    assert "blocks" in blocks["notes"][0]
    assert "read in blocks" in focalcal("evaluate", over_confident).out


def test_names_with_brackets_are_no_markup(focalcal, tmp_path):
    path = tmp_path / "[bold]run :smile:[] .npz"
    predictions(50).save(path)
    assert "[bold]run :smile:[] .npz" in focalcal("evaluate", path, "--bootstrap", 0).out


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_networks_are_over_confident(focalcal, tmp_path, name):
    path = tmp_path / "real.safetensors"
    preds = real_predictions(name)
    preds.save(path)
    ran = focalcal("evaluate", path, "--bootstrap", 0, "--max-ece", 0.02)
    gap = evaluate(preds, metrics=["signed_gap"], bootstrap=0).values["signed_gap"]
    assert ran.code == 1
    assert f"Over-confident by {100 * gap:.1f} points" in ran.out
    assert "the model is miscalibrated (p < 0.001)" in " ".join(ran.out.split())


def test_out_of_distribution_data(focalcal, refused, tmp_path):
    test, other = tmp_path / "test.npz", tmp_path / "other.npz"
    predictions(sharpness=2.5, seed=1, split="test").save(test)
    predictions(sharpness=0.5, seed=2).save(other)
    assert "false alarms when 95% are found" in focalcal("evaluate", test, "--ood", f"other={other}").out
    found = json.loads(focalcal("evaluate", test, "--ood", f"other={other}", "--json", "--bootstrap", "0").out)["ood"]
    assert [(one["data"], one["score"], one["temperature_scaling"]) for one in found] == [
        ("other", "entropy", "pre"),
        ("other", "confidence", "pre"),
    ]
    assert 0.5 < found[0]["auroc"] < 1
    assert "--ood must be NAME=FILE" in refused("evaluate", test, "--ood", "other.npz")


def test_a_run_brings_its_out_of_distribution_data(focalcal, tmp_path):
    folder = tmp_path / "predictions"
    folder.mkdir()
    for name, sharpness in (("val", 2.5), ("test", 2.5), ("svhn", 0.5)):
        predictions(sharpness=sharpness, seed=3).save(folder / f"{name}.safetensors")
    found = json.loads(focalcal("evaluate", tmp_path, "--json", "--bootstrap", "0").out)["ood"]
    assert [one["temperature_scaling"] for one in found] == ["pre", "post", "pre", "post"]
    assert {one["data"] for one in found} == {"svhn"}


@pytest.fixture
def shards(tmp_path):
    """Three shards of one file."""
    whole, folder = predictions(sharpness=2.5, split="test"), tmp_path / "shards"
    folder.mkdir()
    whole.save(tmp_path / "whole.npz")
    for number in range(3):
        whole.select(list(range(200 * number, 200 * number + 200))).save(folder / f"{number}.parquet")
    return folder


def test_shards_are_measured_as_one(focalcal, shards, tmp_path):
    names = ["--metrics", "error,ece,nll", "--json"]
    whole = json.loads(focalcal("evaluate", tmp_path / "whole.npz", *names).out)
    for given in ([f"{shards}/*.parquet"], sorted(shards.iterdir())):
        ran = focalcal("evaluate", *given, *names, "--workers", 1, "--max-ece", 0.5)
        assert ran.code == 0, ran.err
        found = json.loads(ran.out)
        assert (found["n"], found["split"], found["kind"]) == (600, "test", "logits")
        assert found["values"] == pytest.approx(whole["values"], rel=1e-12)
        assert found["intervals"]["ece"] == pytest.approx(whole["intervals"]["ece"], rel=1e-9)


def test_bad_shards(focalcal, refused, shards):
    (shards / "9.parquet").write_bytes(b"nothing")
    pattern = f"{shards}/*.parquet"
    assert "9.parquet is corrupt or truncated" in refused("evaluate", pattern, "--workers", 1)
    ran = focalcal("evaluate", pattern, "--workers", 1, "--skip-bad-shards", "--json")
    assert (ran.code, "1 of 4 shards was skipped" in json.loads(ran.out)["notes"][0]) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing/*.parquet"], "No file matches nothing/*.parquet"),
        (["{shards}/*", "--ood", "x=y.npz"], "--ood does not work on shards"),
        (["{shards}/*", "--convention", "netcal"], "--convention does not work on shards"),
        (["{shards}/*", "--metrics", "debiased_ece"], "cannot be computed from shards"),
        (["{shards}/*", "--on", "spark"], "--on must be local or ray, not 'spark'"),
        (["{shards}/*", "--address", "auto"], "--address belongs to --on ray, and this is --on local"),
        (["{shards}/0.parquet", "{shards}/1.parquet", "--report", "r.html"], "as one pattern in quotes"),
        (["s3://bucket/*.parquet"], "pip install 'focalcal[s3]'"),
    ],
)
def test_bad_input_of_shards(refused, shards, arguments, sentence):
    assert sentence in refused("evaluate", *(text.format(shards=shards) for text in arguments))
