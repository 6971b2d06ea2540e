"""Pairs of confidence and correct."""

import numpy as np
import pytest
import torch

from focalcal.predictions import Predictions


def test_predicted_and_labels_say_what_is_right():
    preds = Predictions.from_confidence([0.9, 0.8, 0.6], predicted=[1, 7, 2], labels=["1", "3", "2"])
    assert preds.labels.tolist() == [1, 0, 1]
    assert preds.groups["predicted"].texts() == ["1", "7", "2"]


def test_tokens_are_flattened_with_their_sentence_as_cluster():
    confidence = torch.tensor([[0.9, 0.8], [0.7, 0.6]])
    preds = Predictions.from_confidence(confidence, [[1, -100], [0, 1]])
    assert preds.values[:, 1].tolist() == pytest.approx([0.9, 0.7, 0.6])
    assert preds.clusters.tolist() == [0, 1, 1]
    labelled = Predictions.from_confidence(confidence, predicted=[[3, 4], [5, 6]], labels=[[3, -100], [0, 6]])
    assert labelled.labels.tolist() == [1, 0, 1]
    assert labelled.groups["predicted"].texts() == ["3", "5", "6"]


def test_unlabelled_pairs():
    assert not Predictions.from_confidence([0.5, 0.25]).has_labels


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".parquet", ".csv"])
def test_files_keep_that_they_are_pairs(tmp_path, ending):
    path = tmp_path / f"pairs{ending}"
    Predictions.from_confidence([0.9, 0.8], predicted=["cat", "dog"], labels=["cat", "cat"]).save(path)
    loaded = Predictions.load(path)
    assert (loaded.of, loaded.labels.tolist()) == ("confidence", [1, 0])
    assert loaded.groups["predicted"].texts() == ["cat", "dog"]
    with pytest.raises(ValueError, match="nothing else, are made with"):
        Predictions.load(path, of="top")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"confidence": [0.5, 1.2], "correct": [1, 0]}, "confidence of row 1 is 1.2; it must lie between 0 and 1"),
        ({"confidence": [0.5, float("nan")], "correct": [1, 0]}, "confidence of row 1 is nan"),
        ({"confidence": [0.5, 0.5], "correct": [1, 2]}, "correct is 2 in row 1; it must be 0 or 1"),
        ({"confidence": [0.5, 0.5], "correct": [1]}, "pass one per answer"),
        ({"confidence": [0.5, 0.5], "labels": [1, 0]}, "only beside predicted"),
        ({"confidence": [0.5, 0.5], "correct": [1, 0], "predicted": [1, 0], "labels": [1, 0]}, "but not both"),
        ({"confidence": [0.5, 0.5], "predicted": [1], "labels": [1, 0]}, "1 predicted for 2 confidences"),
        ({"confidence": 0.5, "correct": 1}, "one number"),
    ],
)
def test_wrong_pairs_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        Predictions.from_confidence(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"of": "confidence"}, "from_confidence"),
        ({"of": "label"}, "of must be"),
        ({"of": "top", "positive_class": 1}, "contradicts"),
        ({"positive_class": 2}, "positive_class is 2"),
        ({"positive_class": "spam"}, "do not name once"),
    ],
)
def test_wrong_measures_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        Predictions.from_probs(np.array([[0.5, 0.5]]), [0], **arguments)


def test_a_score_of_more_than_two_columns_is_refused():
    with pytest.raises(ValueError, match="There are 3 columns, and a score has one"):
        Predictions.from_probs(np.full((1, 3), 1 / 3), [0], positive_class=1)


def test_the_axis_of_classes():
    values = np.random.default_rng(0).normal(size=(2, 4, 3))
    labels = np.array([[0, 1, 2, 0], [1, 1, 2, 2]])
    last = Predictions.from_logits(values, labels, class_dim=-1)
    first = Predictions.from_logits(np.moveaxis(values, -1, 1), labels)
    assert torch.equal(last.values, first.values)
    assert torch.equal(last.labels, first.labels)
    with pytest.raises(ValueError, match="name the axis of classes with class_dim"):
        Predictions.from_logits(values, labels)
    square, square_labels = values[:, :3], labels[:, :3]
    with pytest.warns(UserWarning, match="does not show where the classes are"):
        Predictions.from_logits(square, square_labels)
    for axis in (0, 3, -4):
        with pytest.raises(ValueError, match="not the axis of classes"):
            Predictions.from_logits(values, labels, class_dim=axis)


def test_multi_hot_labels_are_refused_unless_they_are_counts():
    logits, labels = np.zeros((2, 3)), np.array([[1, 0, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match=r"row 1 sum to 2, not to 1; if these are counts .*labels_are='counts'"):
        Predictions.from_logits(logits, labels)
    assert Predictions.from_logits(logits, labels, labels_are="counts").labels[1].tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ValueError, match="sum to 0; counts are"):
        Predictions.from_logits(logits, labels * [[1], [0]], labels_are="counts")


def test_text_that_is_neither_true_nor_false():
    assert Predictions.from_confidence([0.9, 0.4], ["true", "False"]).labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"correct is 'no' in row 1; it must be 0 or 1, or true or false"):
        Predictions.from_confidence([0.9, 0.4], ["true", "no"])
