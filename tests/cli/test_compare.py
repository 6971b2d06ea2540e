import json
import shutil

import numpy as np
import pytest

from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import compare_many
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels, predictions


@pytest.fixture
def trio(tmp_path):
    """Three models of the same samples: calibrated, nearly the same, and far too sure."""
    paths = []
    for name, sharpness in (("good", 1.0), ("same", 1.01), ("sharp", 4.0)):
        paths.append(tmp_path / f"{name}.npz")
        predictions(sharpness=sharpness, split="test").save(paths[-1])
    return paths


def test_two_files_give_a_table_and_a_verdict(focalcal, trio):
    ran = focalcal("compare", trio[0], trio[2], "--bootstrap", 200)
    assert (ran.code, ran.err) == (0, "")
    assert "good.npz compared with sharp.npz, sample by sample" in ran.out
    assert "90% interval" in ran.out
    summary = " ".join(" ".join(ran.out.splitlines()[-3:]).split())
    assert "good.npz has a significantly lower NLL (nats), Brier score, ECE" in summary
    assert "no significant difference in error" in summary


def test_json_is_what_compare_many_gives(focalcal, trio):
    options = ("--bootstrap", 100, "--seed", 3, "--level", 0.8, "--bins", 10, "--metrics", "NLL,ada-ece")
    ran = focalcal("compare", *trio, *options, "--json")
    names = ["good.npz", "same.npz", "sharp.npz"]
    models = {name: Predictions.load(path) for name, path in zip(names, trio, strict=True)}
    expected = compare_many(
        models, metrics=["nll", "ada_ece"], bootstrap=100, permutations=100, level=0.8, seed=3, bins=10
    )
    content = json.loads(ran.out)
    assert content["comparisons"] == json.loads(json.dumps([one.to_dict() for one in expected]))
    assert {key: content[key] for key in ("level", "seed", "bins", "bootstrap")} == {
        "level": 0.8,
        "seed": 3,
        "bins": 10,
        "bootstrap": 100,
    }


def test_reference_limits_the_pairs(focalcal, refused, trio):
    ran = focalcal("compare", *trio, "--reference", trio[2], "--bootstrap", 50, "--metrics", "nll", "--json")
    names = [one["names"] for one in json.loads(ran.out)["comparisons"]]
    assert names == [["good.npz", "sharp.npz"], ["same.npz", "sharp.npz"]]
    assert "--reference must be one of the files" in refused("compare", *trio[:2], "--reference", trio[2])


def test_run_directories_are_called_by_their_names(focalcal, refused, trio, tmp_path):
    for name, path in (("a", trio[0]), ("b", trio[2])):
        (tmp_path / name / "predictions").mkdir(parents=True)
        Predictions.load(path).save(tmp_path / name / "predictions" / "test.safetensors")
    ran = focalcal("compare", tmp_path / "a", tmp_path / "b", "--bootstrap", 50, "--metrics", "nll", "--json")
    assert json.loads(ran.out)["comparisons"][0]["names"] == ["a", "b"]
    shutil.rmtree(tmp_path / "b" / "predictions")
    assert "without predictions/test.safetensors" in refused("compare", tmp_path / "a", tmp_path / "b")


def test_a_file_compared_with_itself_shows_no_difference(focalcal, trio):
    ran = focalcal("compare", trio[0], trio[0], "--bootstrap", 50)
    assert ran.code == 0
    assert "good.npz (1) compared with good.npz (2)" in ran.out
    assert "No significant difference in error" in ran.out


def test_keys_choose_what_is_read(focalcal, tmp_path):
    logits, labels = logits_and_labels(200)
    for name, factor in (("a", 1.0), ("b", 3.0)):
        np.savez(tmp_path / f"{name}.npz", scores=factor * logits.numpy(), truth=labels.numpy())
    keys = ("--logits-key", "scores", "--labels-key", "truth")
    ran = focalcal("compare", tmp_path / "a.npz", tmp_path / "b.npz", *keys, "--bootstrap", 50, "--json")
    assert ran.code == 0, ran.err


class TestUnpaired:
    @pytest.fixture
    def months(self, tmp_path):
        """January and March are calibrated by T = 2, February by T = 3."""
        for name, n, sharpness, seed in (("jan", 900, 2.0, 1), ("feb", 500, 3.0, 2), ("mar", 300, 2.0, 3)):
            predictions(n, sharpness=sharpness, seed=seed).save(tmp_path / f"{name}.npz")
        return [tmp_path / f"{name}.npz" for name in ("jan", "feb", "mar")]

    def test_table_verdict_and_calibrator_in_words(self, focalcal, months):
        ran = focalcal("compare", *months[:2], "--unpaired", "--bootstrap", 100)
        assert (ran.code, ran.err) == (0, "")
        text = " ".join(ran.out.split())
        assert "jan.npz compared with feb.npz, different samples" in text
        assert "jan.npz has a significantly lower" in text
        assert "On feb.npz, temperature calibration fitted on jan.npz no longer holds: a refit on the new data" in text

    def test_json_is_what_compare_many_gives(self, focalcal, months):
        ran = focalcal("compare", *months, "--unpaired", "--bootstrap", 50, "--metrics", "nll,ece", "--json")
        models = {path.name: Predictions.load(path) for path in months}
        expected = compare_many(models, metrics=["nll", "ece"], bootstrap=50, paired=False)
        found = json.loads(ran.out)["comparisons"]
        calibrators = [one.pop("calibrator") for one in found]
        assert found == json.loads(json.dumps([one.to_dict() for one in expected]))
        assert [one["holds"] for one in calibrators] == [False, True, False]

    def test_a_reference_is_the_earlier_set(self, focalcal, months):
        options = ("--unpaired", "--bootstrap", 20, "--metrics", "error", "--json")
        ran = focalcal("compare", *months, "--reference", months[0], *options)
        feb, mar = json.loads(ran.out)["comparisons"]
        assert (feb["names"], feb["calibrator"]["holds"]) == (["feb.npz", "jan.npz"], False)
        assert (mar["names"], mar["calibrator"]["holds"]) == (["mar.npz", "jan.npz"], True)

    def test_a_saved_calibrator_a_method_or_none(self, focalcal, refused, months, tmp_path):
        saved = tmp_path / "t.json"
        TemperatureScaling().fit(Predictions.load(months[0])).save(saved)
        options = ("--unpaired", "--bootstrap", 20, "--metrics", "error")
        said = " ".join(focalcal("compare", months[0], months[2], *options, "--calibrator", saved).out.split())
        assert "On mar.npz, t.json still holds" in said
        said = " ".join(focalcal("compare", months[0], months[2], *options, "--calibrator", "vector").out.split())
        assert "On mar.npz, vector calibration fitted on jan.npz" in said
        assert "holds" not in focalcal("compare", months[0], months[2], *options, "--calibrator", "none").out
        assert "did you mean 'vector'" in refused("compare", *months[:2], *options, "--calibrator", "vektor")
        assert "no calibrator file" in refused("compare", *months[:2], *options, "--calibrator", tmp_path / "no.json")
        assert "add --unpaired" in refused("compare", *months[:2], "--calibrator", saved)

    def test_few_samples_are_shown_and_not_tested(self, focalcal, months, tmp_path):
        predictions(5).save(tmp_path / "few.npz")
        ran = focalcal("compare", months[0], tmp_path / "few.npz", "--unpaired", "--bootstrap", 20, "--json")
        assert "No calibrator of jan.npz is judged on few.npz" in ran.err
        metrics = json.loads(ran.out)["comparisons"][0]["metrics"]
        assert {one["p_value"] for one in metrics.values()} == {None}


class TestBadInput:
    def test_one_file(self, refused, trio):
        assert "give at least two" in refused("compare", trio[0])

    def test_other_samples(self, refused, trio, tmp_path):
        predictions(100).save(tmp_path / "fewer.npz")
        assert "600 samples and fewer.npz 100" in refused("compare", trio[0], tmp_path / "fewer.npz")

    def test_other_classes(self, refused, trio, tmp_path):
        predictions(classes=9).save(tmp_path / "nine.npz")
        assert "10 classes and nine.npz 9" in refused("compare", trio[0], tmp_path / "nine.npz")

    def test_other_labels(self, refused, trio, tmp_path):
        logits, labels = logits_and_labels()
        Predictions.from_logits(logits, (labels + 1) % 10).save(tmp_path / "other.npz")
        assert "label" in refused("compare", trio[0], tmp_path / "other.npz")

    def test_other_ids(self, refused, tmp_path):
        for name, first in (("a", 0), ("b", 1)):
            predictions(ids=[f"id-{first + i}" for i in range(600)]).save(tmp_path / f"{name}.npz")
        assert "2 ids are in only one of a.npz and b.npz" in refused("compare", tmp_path / "a.npz", tmp_path / "b.npz")

    def test_missing_file(self, refused, trio, tmp_path):
        assert "There is no file" in refused("compare", trio[0], tmp_path / "nothing.npz")

    @pytest.mark.parametrize(
        ("option", "value"), [("--level", "90"), ("--bins", "0"), ("--seed", "-1"), ("--bootstrap", "0")]
    )
    def test_numbers_that_make_no_sense(self, refused, trio, option, value):
        assert option.strip("-") in refused("compare", *trio[:2], option, value)

    def test_unknown_metric(self, refused, trio):
        assert "adaece" in refused("compare", *trio[:2], "--metrics", "adaece")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("cifar10/resnet8", "--losses", "cross-entropy,fl-3", "--seeds", "3", "--out", "runs/c"),
            ("cifar10/resnet8", "epochs=2"),
            ("digits/mlp", "--out", "runs/c", "--measure-only", "--quiet", "--no-report", "--by-date"),
        ],
    )
    def test_what_sweep_does_now_is_named(self, refused, arguments):
        assert f"use `focalcal sweep {arguments[0]}" in refused("compare", *arguments)
