"""``focalcal apply``, and the tables that it and ``calibrate --out`` write."""

import json

import numpy as np
import pandas
import pytest

import focalcal as fc
from focalcal.predictions import Predictions
from oracles.known_truth import predictions


@pytest.fixture
def calibrator(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(500)
    fitted = fc.IsotonicCalibration().fit(Predictions.from_probs(p, rng.random(500) < p**2))
    fitted.save(tmp_path / "c.json")
    return fitted


def frame():
    return pandas.DataFrame({"id": ["007", "008"], "score": [0.5, 0.9], "note": ["a,b", 'say "x"'], "n": [1, 2]})


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".jsonl"])
def test_a_table_keeps_its_other_columns_and_needs_no_labels(focalcal, tmp_path, calibrator, ending):
    source, out = tmp_path / f"new{ending}", tmp_path / f"out{ending}"
    if ending == ".parquet":
        frame().astype({"score": "float32"}).to_parquet(source)
    elif ending == ".jsonl":
        frame().to_json(source, orient="records", lines=True)
    else:
        frame().to_csv(source, index=False, sep="\t" if ending == ".tsv" else ",")
    result = focalcal("apply", tmp_path / "c.json", source, "--probs-key", "score", "--out", out)
    assert result.code == 0, result.err
    assert "with all other columns" in result.out
    if ending == ".parquet":
        found = pandas.read_parquet(out)
        assert found["score"].dtype == np.float32
    elif ending == ".jsonl":
        found = pandas.DataFrame([json.loads(line) for line in out.read_text().splitlines()])
    else:
        found = pandas.read_csv(out, sep="\t" if ending == ".tsv" else ",", dtype={"id": str})
    expected = calibrator.transform(Predictions.from_probs([0.5, 0.9])).values[:, 1]
    np.testing.assert_allclose(found["score"], expected, rtol=1e-6)
    pandas.testing.assert_frame_equal(found.drop(columns="score"), frame().drop(columns="score"))


def test_arrays_and_other_endings_become_predictions(focalcal, tmp_path, calibrator):
    np.savez(tmp_path / "new.npz", probs=np.array([0.5, 0.9]))
    result = focalcal("apply", tmp_path / "c.json", tmp_path / "new.npz", "--out", tmp_path / "out.parquet", "--json")
    assert json.loads(result.out)["kept_all_columns"] is False
    loaded = Predictions.load(tmp_path / "out.parquet")
    assert (loaded.of, loaded.has_labels) == ("score", False)


def test_columns_that_another_kind_of_file_does_not_keep_are_said_to_be_lost(focalcal, tmp_path, calibrator):
    frame().to_csv(tmp_path / "new.csv", index=False)
    ran = focalcal(
        "apply", tmp_path / "c.json", tmp_path / "new.csv", "--probs-key", "score", "--out", tmp_path / "o.npz"
    )
    assert ran.code == 0, ran.err
    assert "without the other columns, which an --out of the input's kind keeps" in ran.out


def test_columns_of_classes_and_decimal_commas(focalcal, tmp_path):
    fc.TemperatureScaling().fit(Predictions.from_probs([[0.9, 0.1]] * 3, [0, 0, 1])).save(tmp_path / "t.json")
    source = tmp_path / "new.csv"
    source.write_text("who;p_cat;p_dog\nx;0,75;0,25\n")
    result = focalcal("apply", tmp_path / "t.json", source, "--probs-key", "p_cat,p_dog", "--out", tmp_path / "o.csv")
    assert result.code == 0, result.err
    header, row = (tmp_path / "o.csv").read_text().splitlines()
    assert header == "who;p_cat;p_dog"
    first, second = (float(cell.replace(",", ".")) for cell in row.split(";")[1:])
    assert first + second == pytest.approx(1)
    assert 0.5 < first < 0.75


def test_what_is_refused_writes_nothing(focalcal, tmp_path, calibrator):
    source = tmp_path / "new.csv"
    source.write_text('score,note\n0.5,"a\n')
    result = focalcal("apply", tmp_path / "c.json", source, "--probs-key", "score", "--out", tmp_path / "o.csv")
    assert result.code == 2
    three = tmp_path / "three.csv"
    three.write_text("probs_0,probs_1,probs_2\n0.5,0.25,0.25\n")
    result = focalcal("apply", tmp_path / "c.json", three, "--out", tmp_path / "o.csv")
    assert result.code == 2
    assert "cannot be applied to" in result.err
    assert not (tmp_path / "o.csv").exists()


def test_shards_are_calibrated_into_a_folder_and_again_only_what_is_missing(focalcal, refused, tmp_path):
    whole = predictions(sharpness=2.5, split="val")
    whole.save(tmp_path / "val.npz")
    (tmp_path / "new").mkdir()
    for part in range(3):
        whole.select(list(range(200 * part, 200 * part + 200))).save(tmp_path / "new" / f"{part}.parquet")
    calibrator = tmp_path / "t.json"
    focalcal("calibrate", tmp_path / "val.npz", tmp_path / "val.npz", "--allow-test", "--save-calibrator", calibrator)
    new, out = f"{tmp_path}/new/*.parquet", tmp_path / "scored"
    ran = focalcal("apply", calibrator, new, "--out", out, "--workers", 1)
    assert (ran.code, f"Wrote 3 files to {out}." in ran.out) == (0, True), ran.err
    (out / "1.parquet").unlink()
    again = json.loads(focalcal("apply", calibrator, new, "--out", out, "--workers", 1, "--json").out)
    assert (again["written"], again["finished"], again["skipped"]) == (1, 2, 0)
    (tmp_path / "new" / "9.parquet").write_bytes(b"nothing")
    assert "9.parquet is corrupt" in refused("apply", calibrator, new, "--out", out, "--workers", 1)


def test_columns_in_another_order_are_refused_where_the_order_matters(focalcal, tmp_path):
    preds = predictions(300, 3, class_names=("cat", "dog", "eel"))
    fc.VectorScaling().fit(preds).save(tmp_path / "v.json")
    fc.TemperatureScaling().fit(preds).save(tmp_path / "t.json")
    turned = preds.values[:4].softmax(1)[:, [1, 0, 2]].numpy()
    pandas.DataFrame(turned, columns=["dog", "cat", "eel"]).to_csv(tmp_path / "new.csv", index=False)
    tell = ("--probs-key", "dog,cat,eel", "--class-names", "dog,cat,eel", "--out", tmp_path / "out.csv")
    refused = focalcal("apply", tmp_path / "v.json", tmp_path / "new.csv", *tell)
    assert refused.code == 2
    assert "the same classes in another order (cat, dog, eel there, dog, cat, eel here)" in refused.err
    assert not (tmp_path / "out.csv").exists()
    # One temperature for all classes.
    assert focalcal("apply", tmp_path / "t.json", tmp_path / "new.csv", *tell).code == 0
