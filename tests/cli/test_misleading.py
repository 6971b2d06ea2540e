"""Data that used to be called fine, or wrong in the wrong way, as a new user would bring it."""

import io
import json
import os

import numpy as np
import pytest

import focalcal as fc
from focalcal.cli import inputs
from focalcal.predictions import Predictions

DATA = os.environ.get("FOCALCAL_DATA")


def save(path, **columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_a_score_whose_square_is_right_does_not_pass(focalcal, tmp_path):
    rng = np.random.default_rng(0)
    score = rng.random(20_000)
    happened = (rng.random(20_000) < score**2).astype(int)
    path = save(tmp_path / "scores.csv", probs=score, label=happened)
    result = focalcal("evaluate", path, "--max-ece", "0.05", "--bootstrap", "0")
    assert result.code == 1
    assert "Scores too high by 16." in result.out
    assert "how often class 1 occurs" in result.out
    top = Predictions.from_probs(score, happened, of="top")
    assert fc.metrics.ece(top) < 0.05  # what it was before: the errors of the two halves cancel
    assert fc.metrics.ece(Predictions.from_probs(score, happened)) == pytest.approx(1 / 6, abs=0.01)


def test_a_score_three_times_too_high_is_not_called_under_confident(focalcal, tmp_path):
    rng = np.random.default_rng(1)
    truth = rng.beta(2, 18, 20_000)
    path = save(tmp_path / "s.csv", probs=np.minimum(3 * truth, 1), label=(rng.random(20_000) < truth).astype(int))
    content = json.loads(focalcal("evaluate", path, "--json", "--bootstrap", "0").out)
    assert content["of"] == "score"
    assert content["verdict"][0].startswith("Scores too high by 19.")
    assert content["values"]["signed_gap"] == pytest.approx(0.2, abs=0.01)


def test_pairs_are_told_apart_from_scores(focalcal, tmp_path):
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.3, 1.0, 2000)
    correct = (rng.random(2000) < confidence).astype(int)
    path = save(tmp_path / "pairs.csv", conf=confidence, ok=correct)
    pairs = json.loads(focalcal("evaluate", path, "--confidence-key", "conf", "--correct-key", "ok", "--json").out)
    assert pairs["of"] == "confidence"
    assert pairs["values"]["accuracy"] == pytest.approx(correct.mean())
    assert "classwise_ece" not in pairs["values"]
    assert any("probabilities of all classes" in note for note in pairs["notes"])
    score = json.loads(focalcal("evaluate", path, "--probs-key", "conf", "--labels-key", "ok", "--json").out)
    assert score["values"]["ece"] == pytest.approx(pairs["values"]["ece"])
    assert score["values"]["accuracy"] != pytest.approx(pairs["values"]["accuracy"], abs=0.01)
    advice = focalcal("doctor", path, "--probs-key", "conf", "--labels-key", "ok").out
    assert "--confidence-key and --correct-key" in " ".join(advice.split())


def test_multi_hot_labels_are_refused(refused, tmp_path):
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "a.npz", logits=rng.normal(size=(20, 4)), labels=(rng.random((20, 4)) < 0.5).astype(float))
    assert "if these are counts of votes pass --labels-are counts" in refused("evaluate", tmp_path / "a.npz")


def test_gaps_are_refused_or_counted(focalcal, refused, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("probs,label\n0.5,1\n,0\n0.25,0\n0.75,\n" + "0.5,0\n" * 20)
    assert "row 1" in refused("evaluate", path)
    result = focalcal("evaluate", path, "--drop-missing", "--metrics", "error", "--bootstrap", "0")
    assert result.code == 0
    assert "2 of 24 rows lack a value and are left out" in result.err


@pytest.mark.parametrize(
    ("header", "row", "options", "column"),
    [
        (
            "conf,pred,true",
            "0.7,dog,",
            ["--confidence-key", "conf", "--predicted-key", "pred", "--labels-key", "true"],
            "true",
        ),
        (
            "conf,pred,true",
            "0.7,,dog",
            ["--confidence-key", "conf", "--predicted-key", "pred", "--labels-key", "true"],
            "pred",
        ),
        ("conf,ok,g", "0.7,true,", ["--confidence-key", "conf", "--correct-key", "ok", "--by", "g"], "g"),
        ("conf,ok,g", "0.7,true,", ["--confidence-key", "conf", "--correct-key", "ok", "--clusters-key", "g"], "g"),
        ("p,y,g", "0.7,,north", ["--probs-key", "p", "--labels-key", "y", "--positive-label", "fraud"], "y"),
    ],
)
def test_an_empty_text_is_a_missing_value(focalcal, refused, tmp_path, header, row, options, column):
    """It is not a class that nothing can be, nor a group or an image without a name."""
    path = tmp_path / "a.csv"
    full = {"conf,pred,true": "0.5,cat,cat", "conf,ok,g": "0.5,true,a", "p,y,g": "0.5,fraud,north"}[header]
    path.write_text("\n".join([header, full, row, full]) + "\n")
    assert f"its column {column!r} has no value in row 1; fill it, or pass --drop-missing" in refused(
        "evaluate", path, *options
    )
    dropped = focalcal("evaluate", path, *options, "--drop-missing", "--bootstrap", "0", "--json")
    assert (dropped.code, json.loads(dropped.out)["n"]) == (0, 2)


def test_the_score_of_class_0_is_said_to_be_one(focalcal, tmp_path):
    path = save(tmp_path / "a.csv", p=[0.2, 0.9, 0.8], y=[1, 0, 0])
    keys = ("--probs-key", "p", "--labels-key", "y", "--positive-label", "0", "--bootstrap", "0")
    out = focalcal("evaluate", path, *keys).out
    assert "how often class 0 occurs" in out
    assert "class 1" not in out
    preds = Predictions.from_probs([0.2, 0.9], [True, False], positive_class="false")
    assert fc.evaluate(preds, bootstrap=0).event == "false"


def test_an_error_that_has_not_occurred_may_occur(focalcal, tmp_path):
    path = save(tmp_path / "a.csv", conf=[0.9] * 30, ok=[1] * 30)
    keys = ("--confidence-key", "conf", "--correct-key", "ok", "--bootstrap", "50")
    content = json.loads(focalcal("evaluate", path, *keys, "--json").out)
    low, high = content["intervals"]["error"]
    assert (low, content["interval_methods"]["error"]) == (0, "normal")
    assert high == pytest.approx(1.645**2 / (30 + 1.645**2), abs=1e-3)  # Wilson's
    assert content["intervals"]["accuracy"] == [pytest.approx(1 - high), 1]
    assert focalcal("evaluate", path, *keys, "--max-error", "0.05", "--judge", "upper").code == 1
    basic = json.loads(focalcal("evaluate", path, *keys, "--json", "--method", "basic").out)
    assert basic["intervals"]["error"] == [0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--probs-key", "p", "--labels-key", "y"], "say of which with --positive-label"),
        (["--probs-key", "p", "--labels-key", "y", "--positive-label", "maybe"], "No label is 'maybe'"),
        (
            ["--confidence-key", "p", "--correct-key", "y"],
            "correct is 'no' in row 0; it must be 0 or 1, or true or false",
        ),
        (["--confidence-key", "p"], "pass --correct-key, or --predicted-key and --labels-key"),
        (["--probs-key", "p"], "it has no 'labels' or 'ground_truth' but"),
        (["--probs-key", "p", "--labels-key", "k"], "if it is the confidence of each answer use from_confidence"),
        ([], "name them with --logits-key or --probs-key, or one confidence per answer with --confidence-key"),
    ],
)
def test_what_is_not_clear_is_asked(refused, tmp_path, options, words):
    path = save(tmp_path / "a.csv", p=[0.2, 0.9], y=["no", "yes"], k=[1, 2])
    assert words in refused("evaluate", path, *options)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"p,y\n0.5,0\n1.5,1\n", "focalcal: stdin: The probabilities of row 1 hold 1.5, outside [0, 1]"),
        (b"p,y\n0.5,0\n-0.25,1\n", "focalcal: stdin: The probabilities of row 1 hold -0.25, outside [0, 1]"),
        (b"", "focalcal: stdin is empty."),
    ],
)
def test_what_is_wrong_with_stdin_is_said_of_stdin(refused, monkeypatch, content, words):
    """Not of the temporary file that it is kept in, nor of the probability of class 0, which nobody wrote."""
    inputs._save_input.cache_clear()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert refused("evaluate", "-", "--probs-key", "p", "--labels-key", "y").startswith(words)
    inputs._save_input.cache_clear()


def test_a_regression_on_a_score_is_described_and_not_by_a_temperature(focalcal, tmp_path):
    """Its slope is not 1/T: the score is divided by T first, and then has a coefficient."""
    rng = np.random.default_rng(5)
    score = rng.random((2, 300))
    happened = (rng.random((2, 300)) < score**2).astype(int)
    val, test = (save(tmp_path / f"{name}.csv", p=score[i], y=happened[i]) for i, name in enumerate(("val", "test")))
    out = focalcal("calibrate", val, test, "--probs-key", "p", "--labels-key", "y", "--method", "platt").out
    assert "temperature T" not in out
    assert "Platt with T = " in out
    assert "coefficients and offset" in out


def test_metrics_of_all_classes_are_refused_for_pairs_by_either_name():
    pairs = Predictions.from_confidence([0.5, 0.75], [1, 0])
    for metric in (fc.metrics.top_k_accuracy, fc.metrics.top_5_accuracy):
        with pytest.raises(ValueError, match="needs the probabilities of all classes"):
            metric(pairs)


@pytest.mark.skipif(DATA is None, reason="needs FOCALCAL_DATA")
@pytest.mark.parametrize(
    ("name", "samples", "accuracy", "ece"),
    [
        ("snacks.csv", 952, 0.8634, 0.0280),
        ("cifar100-resnet110.csv", 10_000, 0.7148, 0.1848),
        ("imagenet-resnet101.csv.gz", 50_000, 0.7737, 0.0492),
    ],
)
def test_real_networks_of_which_only_the_top_answer_was_kept(focalcal, name, samples, accuracy, ece):
    keys = ("--confidence-key", "confidence", "--predicted-key", "pred_label", "--labels-key", "true_label")
    result = focalcal("evaluate", f"{DATA}/confidences/{name}", *keys, "--bootstrap", "0", "--json")
    content = json.loads(result.out)
    assert (content["n"], content["of"]) == (samples, "confidence")
    assert content["values"]["accuracy"] == pytest.approx(accuracy, abs=5e-5)
    assert content["values"]["ece"] == pytest.approx(ece, abs=5e-5)
