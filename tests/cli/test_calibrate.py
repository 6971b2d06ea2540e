import json
import shutil

import numpy as np
import pytest
import torch

from focalcal.calibrators import METHODS, TemperatureScaling, build_calibrator, load_calibrator
from focalcal.cli.calibrate import COMPARED
from focalcal.metrics import evaluate
from focalcal.predictions import Predictions
from oracles.calibrators import TWO_CLASSES
from oracles.known_truth import predictions
from oracles.real_files import REAL_FILES, real_predictions
from oracles.temperature import sampled_predictions

ENDINGS = ("safetensors", "npz", "parquet", "csv")


def as_json(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.fixture
def nothing_written(tmp_path):
    """Fails if the test adds a file to, or changes one in, the folder that it was given."""

    def snapshot():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    class Unchanged:
        def __enter__(self):
            self.before = snapshot()

        def __exit__(self, *_):
            assert snapshot() == self.before

    return Unchanged()


def test_json_has_what_the_library_gives(focalcal, pair):
    content = as_json(focalcal("calibrate", *pair, "--json"))
    val, test = map(Predictions.load, pair)
    scaler = TemperatureScaling().fit(val)
    assert content["method"] == "temperature"
    assert content["temperature"] == scaler.temperature_
    assert content["fitted_on"] == scaler.record_.to_dict()
    assert content["before"] == evaluate(test, metrics=COMPARED, bootstrap=0).values
    assert content["after"] == evaluate(scaler.transform(test), metrics=COMPARED, bootstrap=0).values
    assert content["after"]["ece"] < content["before"]["ece"] / 2
    assert content["after"]["error"] == content["before"]["error"]
    assert (content["val"], content["test"], content["n"], content["bins"]) == ("val.npz", "test.npz", 600, 15)
    assert (content["out"], content["saved_calibrator"], content["warnings"]) == (None, None, [])


def test_table_shows_before_and_after(focalcal, pair):
    ran = focalcal("calibrate", *pair)
    before = evaluate(Predictions.load(pair[1]), bootstrap=0).values
    temperature = TemperatureScaling().fit(Predictions.load(pair[0])).temperature_
    rows = {cells[1].strip(): cells for line in ran.out.splitlines() if len(cells := line.split("│")) == 6}
    assert (ran.code, ran.err) == (0, "")
    assert rows["ECE"][2].strip() == f"{100 * before['ece']:.2f}%"
    assert rows["NLL (nats)"][2].strip() == f"{before['nll']:.4f}"
    assert rows["error"][4].strip() == "+0.00 pt"
    assert [cell.strip() for cell in rows["temperature T, by validation NLL"][2:4]] == ["1", f"{temperature:.4g}"]
    assert "NLL falls from" in ran.out


@pytest.mark.parametrize("ending", ENDINGS)
def test_calibrated_predictions_are_written(focalcal, pair, tmp_path, ending):
    out = tmp_path / f"calibrated.{ending}"
    ran = focalcal("calibrate", *pair, "--out", out)
    written = Predictions.load(out)
    scaler = TemperatureScaling().fit(Predictions.load(pair[0]))
    expected = scaler.transform(Predictions.load(pair[1]))
    assert f"Wrote {out}." in ran.out
    assert torch.equal(written.values, expected.values)
    assert torch.equal(written.labels, expected.labels)
    assert written.split == "test"
    assert written.provenance["calibrated_by"] == f"temperature (temperature {scaler.temperature_:.6g})"


def test_calibrator_is_saved(focalcal, pair, tmp_path):
    saved = tmp_path / "t.json"
    fitted = as_json(focalcal("calibrate", *pair, "--save-calibrator", saved, "--json"))
    assert load_calibrator(saved).temperature_ == fitted["temperature"]


def test_applying_is_a_command_of_its_own(refused, pair):
    assert "use `focalcal apply t.json" in " ".join(refused("calibrate", pair[1], "--calibrator", "t.json").split())


def test_objective_grid_and_bins_reach_the_calibrator(focalcal, pair):
    content = as_json(focalcal("calibrate", *pair, "--objective", "ece", "--grid", "1,2.5,3", "--bins", 10, "--json"))
    assert content["parameters"] == {"objective": "ece", "grid": [1.0, 2.5, 3.0], "bins": 10, "mix_uniform": None}
    assert content["temperature"] == 2.5
    assert (
        content["before"]["ece"]
        == evaluate(Predictions.load(pair[1]), metrics=["ece"], bins=10, bootstrap=0).values["ece"]
    )


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(TWO_CLASSES)))
def test_every_method_runs(focalcal, pair, tmp_path, method):
    options = ("--gamma", 2) if method == "focal-inverse" else ()
    out, saved = tmp_path / "out.npz", tmp_path / "c.json"
    ran = focalcal("calibrate", *pair, "--method", method, *options, "--json", "--out", out, "--save-calibrator", saved)
    content = as_json(ran)
    parameters = {"gamma": 2.0} if method == "focal-inverse" else {}
    calibrator = build_calibrator(method, **parameters).fit(Predictions.load(pair[0]))
    expected = calibrator.transform(Predictions.load(pair[1]))
    torch.testing.assert_close(Predictions.load(out).values, expected.values)
    assert content["method"] == calibrator.method == load_calibrator(saved).method


@pytest.mark.parametrize("method", TWO_CLASSES)
def test_methods_of_two_classes_run(focalcal, refused, tmp_path, method):
    for name, seed in (("val", 0), ("test", 1)):
        sampled_predictions(200, 2, 3.0, seed=seed).save(tmp_path / f"{name}.npz")
    content = as_json(focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz", "--method", method, "--json"))
    assert content["method"] == method
    assert content["phi"] == pytest.approx(1 - content["after"]["nll"] / content["before"]["nll"])
    assert content["phi"] > 0
    three = [tmp_path / "val-3.npz", tmp_path / "test-3.npz"]
    for seed, path in enumerate(three):
        sampled_predictions(50, 3, 3.0, seed=seed).save(path)
    assert "is for two classes" in refused("calibrate", *three, "--method", method)


def test_auto_says_what_it_chose_and_why(focalcal, pair):
    content = as_json(
        focalcal("calibrate", *pair, "--method", "auto", "--keep-argmax", "--combine", "choose", "--json")
    )
    assert [one["name"] for one in content["candidates"]][:2] == ["identity", "temperature"]
    assert sum(one["weight"] for one in content["candidates"]) == 1
    assert content["after"]["error"] == content["before"]["error"]
    ran = focalcal("calibrate", *pair, "--method", "auto")
    assert ran.code == 0
    assert "held-out log-loss" in ran.out
    assert "PHI" in ran.out
    assert "uncalibrated" in ran.out


def test_a_strength_is_a_number_or_cv(focalcal, refused, pair):
    for given in ("2.5", "cv"):
        ran = focalcal("calibrate", *pair, "--method", "structured-vector", "--strength", given, "--json")
        assert as_json(ran)["parameters"]["strength"] == (2.5 if given == "2.5" else "cv")
    said = refused("calibrate", *pair, "--method", "structured-vector", "--strength", "x")
    assert "--strength must be a number or cv" in said


def test_saved_zeros_are_said(focalcal, tmp_path):
    probs = torch.tensor([[1.0, 0.0], [0.3, 0.7]], dtype=torch.float64).repeat(20, 1)
    for name in ("val", "test"):
        Predictions.from_probs(probs, [0, 1] * 18 + [1, 1, 0, 0]).save(tmp_path / f"{name}.npz")
    ran = focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz", "--allow-test")
    assert ran.code == 0
    assert "uniform distribution is mixed in" in " ".join(ran.out.split())


def test_method_without_a_fit_needs_no_validation_data(focalcal, pair):
    ran = focalcal("calibrate", pair[1], "--method", "focal-inverse", "--gamma", 3)
    assert ran.code == 0
    assert "focal-inverse, not fitted" in ran.out


def test_run_directory_has_both(focalcal, refused, pair, tmp_path):
    folder = tmp_path / "run" / "predictions"
    folder.mkdir(parents=True)
    Predictions.load(pair[1]).save(folder / "test.safetensors")
    assert "without predictions/val.safetensors" in refused("calibrate", tmp_path / "run")
    Predictions.load(pair[0]).save(folder / "val.safetensors")
    of_files = as_json(focalcal("calibrate", *pair, "--json"))
    for arguments in ((tmp_path / "run",), (tmp_path / "run", tmp_path / "run"), (pair[0], tmp_path / "run")):
        assert as_json(focalcal("calibrate", *arguments, "--json"))["after"] == of_files["after"]


class TestTestDataIsNotFittedOn:
    def test_split_test(self, focalcal, refused, tmp_path, pair):
        wrong = tmp_path / "wrong.npz"
        predictions(seed=5, split="test").save(wrong)
        assert "calls itself 'test'" in (said := refused("calibrate", wrong, pair[1]))
        assert "--allow-test" in said
        ran = focalcal("calibrate", wrong, pair[1], "--allow-test")
        assert ran.code == 0
        assert "warning: wrong.npz is used as validation data but calls itself 'test'" in ran.err

    def test_same_file(self, focalcal, refused, pair, tmp_path, nothing_written):
        with nothing_written:
            said = refused("calibrate", pair[0], pair[0], "--out", tmp_path / "out.npz")
        assert "hold the same predictions" in said
        assert focalcal("calibrate", pair[0], pair[0], "--allow-test").code == 0

    def test_same_content_in_another_file_format_and_order(self, refused, pair, tmp_path):
        val = Predictions.load(pair[0])
        shuffled = val.select(torch.randperm(len(val), generator=torch.Generator().manual_seed(0)))
        shuffled.save(tmp_path / "copy.parquet")
        assert "hold the same predictions" in refused("calibrate", pair[0], tmp_path / "copy.parquet")

    def test_many_common_samples(self, refused, focalcal, pair, tmp_path):
        val, test = map(Predictions.load, pair)
        mixed = Predictions.from_logits(
            torch.cat([val.values[:350], test.values[:250]]), torch.cat([val.labels[:350], test.labels[:250]])
        )
        mixed.save(tmp_path / "mixed.npz")
        assert "58.3% of the smaller" in refused("calibrate", tmp_path / "mixed.npz", pair[0])
        ran = focalcal("calibrate", tmp_path / "mixed.npz", pair[1])
        assert ran.code == 0
        assert "warning: 41.7% of the smaller" in ran.err

    def test_common_ids(self, refused, tmp_path):
        ids = [f"image-{i}" for i in range(600)]
        predictions(seed=1, ids=ids).save(tmp_path / "a.npz")
        predictions(seed=1, sharpness=2.0, ids=ids).save(tmp_path / "b.npz")
        assert "600 ids (100% of the smaller one's)" in refused("calibrate", tmp_path / "a.npz", tmp_path / "b.npz")

    def test_row_numbers_as_ids_are_only_warned_about(self, focalcal, tmp_path):
        for seed, name in ((1, "a.npz"), (2, "b.npz")):
            predictions(seed=seed, ids=range(600)).save(tmp_path / name)
        ran = focalcal("calibrate", tmp_path / "a.npz", tmp_path / "b.npz", "--json")
        assert as_json(ran)["warnings"] == ["600 ids (100% of the smaller one's) are in both b.npz and a.npz."]


class TestRefusals:
    def test_other_number_of_classes(self, refused, pair, tmp_path):
        predictions(classes=7).save(tmp_path / "seven.npz")
        assert "10 classes and seven.npz 7" in refused("calibrate", tmp_path / "seven.npz", pair[1])

    def test_other_class_names(self, refused, tmp_path):
        predictions(100, 2, seed=1, class_names=["cat", "dog"]).save(tmp_path / "a.npz")
        predictions(100, 2, seed=2, class_names=["dog", "cat"]).save(tmp_path / "b.npz")
        assert "'dog' in b.npz and 'cat' in a.npz" in refused("calibrate", tmp_path / "a.npz", tmp_path / "b.npz")

    def test_one_file_or_three(self, refused, pair):
        assert "VAL and TEST" in refused("calibrate", pair[0])
        assert "VAL and TEST" in refused("calibrate", *pair, pair[0])

    def test_unknown_method_gets_the_nearest(self, refused, pair):
        assert "did you mean 'temperature'" in refused("calibrate", *pair, "--method", "temprature")

    def test_option_of_another_method(self, refused, pair):
        assert "no option 'gamma'" in refused("calibrate", *pair, "--gamma", 2)
        assert "needs the option 'gamma'" in refused("calibrate", *pair, "--method", "focal-inverse")
        assert "'nll' or 'ece'" in refused("calibrate", *pair, "--objective", "mce")
        assert "--grid" in refused("calibrate", *pair, "--objective", "ece", "--grid", "1,two")

    @pytest.mark.parametrize("out", ["out.txt", "out.npy", "no/out.npz", "folder", "val.npz", "test.npz"])
    def test_places_that_cannot_be_written(self, refused, pair, tmp_path, out, nothing_written):
        (tmp_path / "folder").mkdir()
        with nothing_written:
            refused("calibrate", *pair, "--out", tmp_path / out, "--save-calibrator", tmp_path / "t.json")

    @pytest.mark.parametrize("saved", ["t.txt", "no/t.json"])
    def test_places_where_no_calibrator_can_be_saved(self, refused, pair, tmp_path, saved, nothing_written):
        with nothing_written:
            refused("calibrate", *pair, "--out", tmp_path / "out.npz", "--save-calibrator", tmp_path / saved)

    def test_corrupt_test_file(self, refused, pair, tmp_path, nothing_written):
        pair[1].write_bytes(pair[1].read_bytes()[:500])
        with nothing_written:
            refused("calibrate", *pair, "--out", tmp_path / "out.npz", "--save-calibrator", tmp_path / "t.json")

    def test_failure_while_writing_leaves_the_old_file(self, refused, pair, tmp_path, monkeypatch, nothing_written):
        shutil.copy(pair[1], tmp_path / "out.npz")

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with nothing_written:
            assert "No space left" in refused("calibrate", *pair, "--out", tmp_path / "out.npz")


def test_temperature_at_its_bound_is_said(focalcal, tmp_path, pair):
    logits = np.eye(10)[np.arange(50) % 10]
    Predictions.from_logits(logits, np.arange(50) % 10).save(tmp_path / "right.npz")
    ran = focalcal("calibrate", tmp_path / "right.npz", pair[1], "--json")
    assert "warning: The temperature stopped at its lower bound" in ran.err
    assert len(as_json(ran)["warnings"]) == 1


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_networks(focalcal, tmp_path, name):
    preds = real_predictions(name)
    order = torch.randperm(len(preds), generator=torch.Generator().manual_seed(0))
    preds.select(order[:5000]).save(tmp_path / "val.npz")
    preds.select(order[5000:]).save(tmp_path / "test.npz")
    ran = focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz", "--json")
    content = as_json(ran)
    assert ran.err == ""
    assert 2.0 < content["temperature"] < 2.2
    assert content["after"]["ece"] < content["before"]["ece"] / 5
    assert content["after"]["nll"] < content["before"]["nll"]


@pytest.mark.parametrize("method", ["isotonic", "histogram"])
def test_an_nll_that_became_infinite_is_said_with_its_remedy(focalcal, tmp_path, method):
    """A class that validation lacks gets the probability 0."""
    scores = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]]).double()
    Predictions(scores, "probs", torch.tensor([0, 1])).save(tmp_path / "val.npz")
    Predictions(scores.flip(0) * 0.9 + 0.1 / 3, "probs", torch.tensor([1, 2])).save(tmp_path / "test.npz")
    files = (tmp_path / "val.npz", tmp_path / "test.npz")
    assert as_json(focalcal("calibrate", *files, "--method", method, "--json"))["after"]["nll"] < 10
    content = as_json(focalcal("calibrate", *files, "--method", method, "--smoothing", "0", "--json"))
    assert content["after"]["nll"] in ("inf", "Infinity", float("inf"), None)
    assert any("--smoothing 0.01" in warning for warning in content["warnings"])
    smoothed = as_json(focalcal("calibrate", *files, "--method", method, "--smoothing", "0.01", "--json"))
    assert 0 < smoothed["after"]["nll"] < 10
    assert not any("--smoothing" in warning for warning in smoothed["warnings"])


def test_shards(focalcal, refused, tmp_path):
    val, test = predictions(sharpness=2.5, seed=1, split="val"), predictions(sharpness=2.5, seed=2, split="test")
    val.save(tmp_path / "val.npz")
    test.save(tmp_path / "test.npz")
    for name, whole in (("val", val), ("test", test)):
        (tmp_path / name).mkdir()
        for part in range(3):
            whole.select(list(range(200 * part, 200 * part + 200))).save(tmp_path / name / f"{part}.parquet")
    patterns = [f"{tmp_path}/val/*.parquet", f"{tmp_path}/test/*.parquet"]
    one = json.loads(focalcal("calibrate", tmp_path / "val.npz", tmp_path / "test.npz", "--json").out)
    files = ["--out", tmp_path / "out", "--save-calibrator", tmp_path / "t.json"]
    ran = focalcal("calibrate", *patterns, "--workers", 1, "--json", *files)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["temperature"] == pytest.approx(one["temperature"], rel=1e-9)
    for name in ("error", "nll", "brier", "ece", "classwise_ece"):
        assert found["after"][name] == pytest.approx(one["after"][name], rel=1e-6)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "0.parquet",
        "1.parquet",
        "2.parquet",
        "calibrator.json",
    ]
    assert "0 files written" in focalcal("calibrate", *patterns, "--workers", 1, *files).err
    assert "a temperature is fitted by NLL" in refused("calibrate", *patterns, "--method", "auto")
    assert "is among both" in refused("calibrate", patterns[0], patterns[0])
    assert "has split 'test'" in refused("calibrate", patterns[1], patterns[0])
    assert "Give two patterns" in refused("calibrate", patterns[0])
