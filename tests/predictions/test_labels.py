"""Labels and tables as people have them: text, booleans, floats, gaps, other separators, compressed, JSON lines."""

import gzip
import json

import numpy as np
import pandas
import pytest
import torch

from focalcal.base.notices import PredictionsWarning
from focalcal.predictions import Predictions, concatenate, open_predictions

PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])


def test_text_is_sorted_or_matched_with_the_names_of_the_classes():
    sorted_names = Predictions.from_probs(PROBS, ["cat", "dog", "eel"])
    assert (sorted_names.labels.tolist(), sorted_names.class_names) == ([0, 1, 2], ("cat", "dog", "eel"))
    named = Predictions.from_probs(PROBS, np.array(["cat", "cat", "eel"]), class_names=["eel", "dog", "cat"])
    assert named.labels.tolist() == [2, 2, 0]
    with pytest.raises(ValueError, match=r"2 different values \('cat', 'dog'\) for 3 columns; pass class_names"):
        Predictions.from_probs(PROBS, ["cat", "dog", "cat"])
    with pytest.raises(ValueError, match="label of row 1 is 'cow', which is not the name of a class"):
        Predictions.from_probs(PROBS, ["cat", "cow", "eel"], class_names=["cat", "dog", "eel"])


def test_the_score_of_a_text():
    preds = Predictions.from_probs([0.9, 0.2], ["fraud", "ok"], positive_class="fraud")
    assert (preds.labels.tolist(), preds.class_names, preds.of) == ([1, 0], ("ok", "fraud"), "score")
    many = Predictions.from_probs([0.9, 0.2, 0.1], ["fraud", "ok", "late"], positive_class="fraud")
    assert (many.labels.tolist(), many.class_names) == ([1, 0, 0], ("not fraud", "fraud"))
    with pytest.raises(ValueError, match="say of which with positive_class"):
        Predictions.from_probs([0.9, 0.2], ["fraud", "ok"])
    with pytest.raises(ValueError, match="No label is 'Fraud', which positive_class names"):
        Predictions.from_probs([0.9, 0.2], ["fraud", "ok"], positive_class="Fraud")


@pytest.mark.parametrize("labels", [[True, False], ["True", "False"], ["true", "false"], [1.0, 0.0], [1, 0]])
def test_truth_in_every_form(labels):
    assert Predictions.from_probs([0.9, 0.2], labels).labels.tolist() == [1, 0]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("rows", [None, 1])
def test_text_labels_of_a_table_are_the_same_in_all_blocks(tmp_path, rows):
    text = "p_cat,p_dog,p_eel,truth\n0.7,0.2,0.1,eel\n0.1,0.8,0.1,cat\n0.2,0.2,0.6,dog\n"
    path = write(tmp_path / "a.csv", text)
    for key in ("p_cat,p_dog,p_eel", "p_", "p"):
        file = open_predictions(path, probs_key=key, labels_key="truth", class_names=["cat", "dog", "eel"])
        assert concatenate(list(file.blocks(rows))).labels.tolist() == [2, 0, 1]
    loose = Predictions.load(path, probs_key="p", labels_key="truth")
    assert (loose.class_names, loose.labels.tolist()) == (("cat", "dog", "eel"), [2, 0, 1])
    unnamed = write(tmp_path / "b.csv", text.replace("p_cat,p_dog,p_eel", "probs_0,probs_1,probs_2"))
    whole = concatenate(list(open_predictions(unnamed, labels_key="truth").blocks(rows)))
    assert (whole.class_names, whole.labels.tolist()) == (("cat", "dog", "eel"), [2, 0, 1])


def test_separators_compression_and_json_lines(tmp_path):
    rows = [(0.25, 1), (0.75, 0)]
    paths = [
        write(tmp_path / "a.csv", "score;y\n0,25;1\n0,75;0\n"),
        write(tmp_path / "b.csv", "score;y\n0.25;1\n0.75;0\n"),
        write(tmp_path / "c.tsv", "score\ty\n0.25\t1\n0.75\t0\n"),
        write(tmp_path / "d.csv", "score\ty\n0.25\t1\n0.75\t0\n"),
        write(tmp_path / "e.jsonl", "".join(json.dumps({"score": p, "y": y}) + "\n" for p, y in rows)),
        tmp_path / "f.csv.gz",
        tmp_path / "g.jsonl.gz",
    ]
    paths[-2].write_bytes(gzip.compress(b"score,y\n0.25,1\n0.75,0\n"))
    paths[-1].write_bytes(gzip.compress(paths[4].read_bytes()))
    for path in paths:
        preds = Predictions.load(path, probs_key="score", labels_key="y")
        assert (preds.values[:, 1].tolist(), preds.labels.tolist(), preds.of) == ([0.25, 0.75], [1, 0], "score")
        assert open_predictions(path, probs_key="score", labels_key="y").num_samples == 2


def test_a_compressed_csv_is_written_alike_each_time_and_read_again(tmp_path):
    preds = Predictions.from_probs(PROBS, [0, 1, 2])
    for name in ("a.csv.gz", "b.csv.gz"):
        preds.save(tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert torch.equal(Predictions.load(tmp_path / "a.csv.gz").values, preds.values)
    (tmp_path / "a.csv.gz").write_bytes((tmp_path / "b.csv.gz").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a\.csv\.gz"):
        Predictions.load(tmp_path / "a.csv.gz")


@pytest.mark.parametrize(
    "text", ["[1, 2]\n", "{broken\n", '{"probs": [0.5, 0.5], "label": 0}\n{"probs": "x", "label": 1}\n']
)
def test_wrong_json_lines_are_refused_in_one_sentence(tmp_path, text):
    with pytest.raises(ValueError, match=r"a\.jsonl: it"):
        Predictions.load(write(tmp_path / "a.jsonl", text))


GAPS = "probs,label,weight,region\n0.25,1,1,n\n,0,1,n\n0.5,,1,s\n0.75,0,,s\n0.125,1,2,\n1,1,1,s\n"


def gap_files(folder):
    csv = write(folder / "a.csv", GAPS)
    frame = pandas.read_csv(csv)
    frame.to_parquet(folder / "a.parquet")
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    return [csv, folder / "a.parquet", folder / "a.jsonl"]


def test_rows_without_a_value_are_refused_with_their_number_or_dropped_and_counted(tmp_path):
    for path in gap_files(tmp_path):
        with pytest.raises(ValueError, match=r"row [12].*drop_missing|row 2 is missing|row 1 hold NaN"):
            Predictions.load(path)
        with pytest.warns(PredictionsWarning, match="4 of 6 rows lack a value and are left out"):
            preds = Predictions.load(path, drop_missing=True, groups_key=["region"])
        assert (preds.values[:, 1].tolist(), preds.labels.tolist()) == ([0.25, 1.0], [1, 1])
        assert preds.groups["region"].texts() == ["n", "s"]


def test_the_row_of_an_error_is_that_of_the_file_after_dropping(tmp_path):
    path = write(tmp_path / "a.csv", "probs,label\n,1\n0.5,0\n1.5,1\n")
    with pytest.raises(ValueError, match="probabilities of row 2 hold"):
        Predictions.load(path, drop_missing=True)


def test_arrays_with_nan_are_dropped(tmp_path):
    values = np.where(np.arange(3)[:, None] == 1, np.nan, PROBS)
    np.savez(tmp_path / "a.npz", probs=values, labels=[0, 1, 2])
    with pytest.warns(PredictionsWarning, match="1 of 3 rows"):
        assert Predictions.load(tmp_path / "a.npz", drop_missing=True).labels.tolist() == [0, 2]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_pairs_from_tables(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    columns = {"conf": [0.9, 0.5, 0.4], "ok": [True, False, True], "pred": ["a", "b", "c"], "true": ["a", "a", "c"]}
    if ending == ".npz":
        np.savez(path, **columns)
    else:
        frame = pandas.DataFrame(columns)
        frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    by_correct = Predictions.load(path, confidence_key="conf", correct_key="ok")
    by_class = Predictions.load(path, confidence_key="conf", predicted_key="pred", labels_key="true")
    for preds in (by_correct, by_class):
        assert (preds.of, preds.labels.tolist(), preds.values[:, 1].tolist()) == (
            "confidence",
            [1, 0, 1],
            [0.9, 0.5, 0.4],
        )
    assert by_class.groups["predicted"].texts() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="nothing says which answers are right"):
        open_predictions(path, confidence_key="conf").check_labels()
    for wrong in ({"correct_key": "ok"}, {"confidence_key": "conf", "probs_key": "conf"}):
        with pytest.raises(ValueError, match="confidence"):
            open_predictions(path, **wrong)
