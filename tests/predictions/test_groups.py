"""Groups and clusters: converted, repeated for positions, carried along, kept in files."""

import numpy as np
import pandas as pd
import pytest
import torch

from focalcal.predictions import Predictions, concatenate, open_predictions
from focalcal.predictions.groups import GroupColumn

PROBS, LABELS = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.2, 0.8]]), np.array([0, 1, 1, 1])


def example(**options):
    groups = {"region": ["north", "south", "north", "east"], "month": [2, 10, 2, 1]}
    return Predictions.from_probs(PROBS, LABELS, groups=groups, clusters=["u2", "u1", "u2", "u3"], **options)


def same_clusters(preds):
    numbers = preds.clusters.tolist()
    return [list(dict.fromkeys(numbers)).index(number) for number in numbers]


def test_named_clusters_of_parts_that_are_joined_or_read_in_blocks_stay_apart(tmp_path):
    first, second = (Predictions.from_probs([0.1, 0.9], [0, 1], clusters=users) for users in (["a", "b"], ["c", "a"]))
    assert same_clusters(concatenate([first, second])) == [0, 1, 2, 0]
    np.savez(tmp_path / "a.npz", probs=np.full(4, 0.5), labels=np.array([0, 1, 0, 1]), user=np.array(list("abca")))
    blocks = open_predictions(tmp_path / "a.npz", clusters_key="user").blocks(2)
    assert same_clusters(concatenate(list(blocks))) == [0, 1, 2, 0]


def test_whole_numbers_are_in_their_own_order_and_text_in_the_alphabet():
    preds = example()
    assert preds.groups["month"].names == ("1", "2", "10")
    assert preds.groups["region"].texts() == ["north", "south", "north", "east"]
    assert preds.groups["region"].counts() == {"east": 1, "north": 2, "south": 1}
    assert same_clusters(preds) == [0, 1, 0, 2]


def test_selecting_cutting_and_joining_carry_them():
    preds = example()
    chosen = preds.select([3, 0])
    assert chosen.groups["region"].texts() == ["east", "north"]
    assert chosen.clusters.tolist() == preds.clusters[[3, 0]].tolist()
    joined = concatenate(list(preds.blocks(3)))
    assert joined.groups["month"].texts() == preds.groups["month"].texts()
    other = Predictions.from_probs(
        PROBS, LABELS, groups={"region": list("abcd"), "month": [11, 2, 3, 4]}, clusters=[7] * 4
    )
    both = concatenate([preds, other])
    assert both.groups["month"].names == ("1", "2", "3", "4", "10", "11")
    assert both.groups["month"].texts() == ["2", "10", "2", "1", "11", "2", "3", "4"]
    with pytest.raises(ValueError, match="same parts go together"):
        concatenate([preds, Predictions.from_probs(PROBS, LABELS)])


def test_positions_have_their_sample_as_cluster_and_its_groups():
    logits = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[[0, -100], [1, 2]], [[0, 1], [2, 2]]])
    preds = Predictions.from_logits(logits, labels, groups={"city": ["Bonn", "Ulm"]})
    assert preds.clusters.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert preds.groups["city"].texts() == ["Bonn"] * 3 + ["Ulm"] * 4
    each = Predictions.from_logits(logits, labels, clusters=torch.arange(8).reshape(2, 2, 2))
    assert each.clusters.tolist() == [0, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".parquet", ".csv"])
def test_files_keep_them_and_number_the_clusters_of_positions_through(tmp_path, ending):
    path = tmp_path / f"preds{ending}"
    example().save(path)
    parts = list(open_predictions(path).blocks(3))
    assert concatenate(parts).groups["region"].texts() == ["north", "south", "north", "east"]
    assert Predictions.load(path).clusters.tolist() == example().clusters.tolist()


def test_columns_of_other_tables_by_name(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text("probs_0,probs_1,label,region\n0.9,0.1,0,north\n0.4,0.6,1,south\n")
    assert Predictions.load(path).groups == {}
    assert Predictions.load(path, groups_key=["region"]).groups["region"].texts() == ["north", "south"]
    with pytest.raises(ValueError, match="it has no 'regoin', which groups_key names"):
        Predictions.load(path, groups_key=["regoin"])


def test_clusters_of_a_streamed_file_of_positions_do_not_begin_again(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, logits=np.zeros((4, 3, 2), np.float32), labels=np.zeros((4, 2), np.int64))
    blocks = list(open_predictions(path).blocks(rows=4))
    assert len(blocks) == 2
    assert concatenate(blocks).clusters.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"region": ["a", "b"]}, "groups 'region' have 2 entries for 4 samples"),
        ({"region": [0.5, 1, 2, 3]}, "'region' holds fractions"),
        ({"region": ["a", None, "b", "c"]}, "'region' has no value in row 1"),
        ({"region": [1.0, 2.0, 3.0, float("nan")]}, "'region' has no value in row 3"),
        ({"region": "abcd"}, "one entry per sample, not one string"),
        (["a", "b", "c", "d"], "columns by name"),
    ],
)
def test_wrong_groups_are_refused_in_one_sentence(groups, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Predictions.from_probs(PROBS, LABELS, groups=groups)


def test_a_column_with_a_number_that_has_no_name_is_refused(tmp_path):
    path = tmp_path / "preds.npz"
    example().save(path)
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "groups:region": np.array([0, 1, 9, 0])})
    with pytest.raises(ValueError, match="groups 'region' are corrupt"):
        Predictions.load(path)


def test_booleans_dates_and_bytes_are_text():
    assert GroupColumn.from_values(np.array([True, False]), "x").texts() == ["True", "False"]
    dates = np.array(["2024-01-02", "2023-12-31"], "datetime64[D]")
    assert GroupColumn.from_values(dates, "x").names == ("2023-12-31", "2024-01-02")
    assert GroupColumn.from_values([b"a", b"b"], "x").texts() == ["a", "b"]
    assert GroupColumn.from_values([2.0, 1.0], "x").names == ("1", "2")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_clusters_with_names_are_the_same_in_every_block(tmp_path, ending):
    users = ["ann", "bob", "cid", "ann", "7", "bob"]
    frame = pd.DataFrame({"score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "label": [0, 1] * 3, "user": users})
    path = tmp_path / f"scores{ending}"
    {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
    }[ending]()
    file = open_predictions(path, probs_key="score", clusters_key="user")
    for clusters in (file.read().clusters, concatenate(list(file.blocks(2))).clusters):
        numbers = clusters.tolist()
        assert (numbers[0], numbers[1], numbers[4]) == (numbers[3], numbers[5], 7)
        assert len(set(numbers)) == 4


@pytest.mark.parametrize(("column", "part"), [("score", "values"), ("label", "labels")])
def test_a_column_of_numbers_is_not_a_column_of_groups_too(tmp_path, column, part):
    path = tmp_path / "scores.csv"
    path.write_text("score,label\n0.1,0\n0.8,1\n")
    with pytest.raises(ValueError, match=f"its column '{column}' is read for {part}, as numbers, and as text too"):
        Predictions.load(path, probs_key="score", groups_key=[column])
