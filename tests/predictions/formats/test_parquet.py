"""Parquet as others write it: one column a class or lists, in any number type, in row groups of any size."""

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from focalcal.predictions import Predictions, concatenate, open_predictions

RNG = np.random.default_rng(0)


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3, 11])
@pytest.mark.parametrize("row_group_size", [4, 1000])
def test_one_column_a_class(tmp_path, dtype, classes, row_group_size):
    path, values = tmp_path / "preds.parquet", RNG.standard_normal((25, classes)).astype(dtype)
    # Backwards: the numbers in the names count, not the order of the columns.
    columns = {f"logits_{k}": values[:, k] for k in reversed(range(classes))}
    write(
        path,
        {"image": pa.array([b"x"] * 25), **columns, "label": RNG.integers(0, classes, 25)},
        row_group_size=row_group_size,
    )
    assert Predictions.load(path).values.tolist() == values.tolist()
    blocks = list(open_predictions(path).blocks(rows=6))
    assert max(map(len, blocks)) <= 6
    assert concatenate(blocks).values.tolist() == values.tolist()


@pytest.mark.parametrize("lists", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 3)])
def test_a_list_column(tmp_path, lists):
    path, values = tmp_path / "preds.parquet", RNG.standard_normal((9, 3)).astype(np.float32)
    write(path, {"scores": pa.array(values.tolist(), lists), "y": np.zeros(9, np.int32)}, row_group_size=4)
    blocks = list(open_predictions(path, logits_key="scores", labels_key="y").blocks(rows=2))
    assert concatenate(blocks).values.tolist() == values.tolist()


def test_many_columns_are_read_in_stretches(tmp_path, monkeypatch):
    monkeypatch.setattr("focalcal.predictions.formats.parquet._STRETCH_BYTES", 40 * 8 * 7)
    monkeypatch.setattr("focalcal.predictions.formats.parquet._STRETCHES", 1000)
    monkeypatch.setattr("focalcal.predictions.formats.parquet._ROWS_AT_ONCE", 5)
    path, values = tmp_path / "preds.parquet", RNG.standard_normal((100, 40)).astype(np.float32)
    write(path, {**{f"logits_{k}": values[:, k] for k in range(40)}, "labels": np.arange(100) % 40}, row_group_size=33)
    blocks = list(open_predictions(path).blocks(rows=3))
    assert concatenate(blocks).values.tolist() == values.tolist()
    assert concatenate(blocks).labels.tolist() == (np.arange(100) % 40).tolist()


def test_soft_labels_weights_and_ids_in_columns(tmp_path):
    path = tmp_path / "preds.parquet"
    frame = pandas.DataFrame(
        {"probs:cat": [0.2, 0.9], "probs:dog": [0.8, 0.1], "labels:cat": [1, 4], "labels:dog": [3, 0]}
    )
    frame["weight"], frame["id"], frame["split"] = [1.0, 2.0], pandas.Categorical(["a", "b"]), "test"
    frame.to_parquet(path)
    preds = Predictions.load(path, labels_are="counts")
    assert preds.class_names == ("cat", "dog")
    assert preds.labels.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert (preds.weights.tolist(), preds.ids, preds.split) == ([1.0, 2.0], ("a", "b"), "test")


def test_a_column_of_single_numbers_is_the_probability_of_class_1(tmp_path):
    path = tmp_path / "preds.parquet"
    write(path, {"probs": [0.25, 0.5], "labels": [True, False]})
    assert Predictions.load(path).values.tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert open_predictions(path).num_classes == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"probs_0": [0.5], "probs_2": [0.5], "labels": [0]}, r"columns probs_\.\.\. are not numbered 0 to 1"),
        ({"probs_0": [0.5], "probs:a": [0.5], "labels": [0]}, "'probs' in several layouts"),
        ({"probs": [[0.5, 0.5]], "logits": [[0.5, 0.5]], "labels": [0]}, "it has 'logits' and 'probs'"),
        ({"probs": [[0.5, 0.5], [1.0]], "labels": [0, 0]}, r"column 'probs' has 1 values in row 1 and 2 before"),
        ({"probs": [[0.5, 0.5], None], "labels": [0, 0]}, "column 'probs' has no value in row 1"),
        ({"probs": [[0.5, 0.5], [0.5, None]], "labels": [0, 0]}, "column 'probs' lacks a number in row 1"),
        ({"probs": pa.array([[]], pa.list_(pa.float32())), "labels": [0]}, "without any class"),
        ({"probs_0": [0.5, None], "probs_1": [0.5, 0.5], "labels": [0, 0]}, "'probs_0' has no value in row 1"),
        ({"probs": [[0.5, 0.5]], "labels": [None]}, "'labels' has no value in row 0"),
        ({"probs": [[0.5, 0.5]], "labels": [0.5]}, "label of row 0 is 0.5; pass whole numbers"),
        ({"probs": [[0.5, 0.5]], "labels": ["cat"]}, "1 different values .*cat.* for 2 columns; pass class_names"),
        ({"probs": [["a", "b"]], "labels": [0]}, "probabilities are of type"),
        ({"probs:a": [0.5], "probs:b": [0.5], "labels:b": [1], "labels:a": [0]}, "labels name other classes"),
        ({"probs": [[0.5, 0.5]] * 2, "labels": [0, 0], "split": ["a", "b"]}, "'split' has both 'a' and 'b'"),
        ({"probs": pa.array([], pa.list_(pa.float32())), "labels": pa.array([], pa.int64())}, "no samples"),
    ],
)
def test_tables_that_are_no_predictions(tmp_path, columns, words):
    path = tmp_path / "preds.parquet"
    write(path, columns)
    for read in (Predictions.load, lambda path: list(open_predictions(path).blocks(rows=1))):
        with pytest.raises(ValueError, match=rf"preds\.parquet: .*{words}"):
            read(path)


def test_several_columns_of_the_same_name(tmp_path):
    path = tmp_path / "preds.parquet"
    table = pa.Table.from_arrays([pa.array([[0.5, 0.5]]), pa.array([0]), pa.array([1])], ["probs", "labels", "labels"])
    pq.write_table(table, path)
    with pytest.raises(ValueError, match="several columns 'labels'"):
        Predictions.load(path)


def test_columns_named_one_by_one(tmp_path):
    path = tmp_path / "preds.parquet"
    write(path, {"dog": [0.75], "cat": [0.25], "label": [0]})
    preds = Predictions.load(path, probs_key=["cat", "dog"])
    assert (preds.values.tolist(), preds.class_names) == ([[0.25, 0.75]], ("cat", "dog"))
    with pytest.raises(ValueError, match=r"it has no \('cat', 'cow'\), which probs_key names"):
        Predictions.load(path, probs_key=["cat", "cow"])


def test_a_name_with_dots_is_one_column(tmp_path):
    path = tmp_path / "preds.parquet"
    write(path, {"probs:a.b": [0.75], "probs:a": [0.25], "label": [0]})
    assert Predictions.load(path).class_names == ("a.b", "a")


def test_damage_inside_a_page_is_found_by_its_checksum(tmp_path):
    path = tmp_path / "preds.parquet"
    Predictions.from_logits(RNG.standard_normal((1000, 4)), np.zeros(1000, np.int64)).save(path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"preds\.parquet cannot be read: .*checksum verification failed"):
        Predictions.load(path)


def test_pandas_reads_what_is_written(tmp_path):
    path = tmp_path / "preds.parquet"
    Predictions.from_logits([[1.0, 2.0], [3.0, 4.0]], [0, 1], ids=["a", "b"]).save(path)
    frame = pandas.read_parquet(path)
    assert [list(row) for row in frame["logits"]] == [[1.0, 2.0], [3.0, 4.0]]
    assert frame["labels"].tolist() == [0, 1]
    assert frame["ids"].tolist() == ["a", "b"]
