"""Outputs of any shape become rows: extra dimensions, ignored positions, one column for two classes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from focalcal.predictions import Predictions
from oracles.predictions import flattened_rows

shapes = st.tuples(st.integers(1, 3), st.integers(2, 4), *[st.integers(1, 3)] * 2) | st.tuples(
    st.integers(1, 4), st.integers(2, 4), st.integers(1, 4)
)


@st.composite
def outputs_and_labels(draw):
    shape = draw(shapes)
    values = draw(hnp.arrays(np.float32, shape, elements=st.floats(-50, 50, width=32)))
    hard = hnp.arrays(np.int64, (shape[0], *shape[2:]), elements=st.sampled_from([-100, *range(shape[1])]))
    soft = hnp.arrays(np.int64, shape, elements=st.integers(1, 9))
    return values, draw(hard | soft)


@settings(deadline=None, max_examples=150)
@given(outputs_and_labels())
def test_extra_dimensions_are_flattened_and_ignored_positions_dropped(case):
    values, labels = case
    rows, kept = flattened_rows(values, labels, ignore_index=-100)
    if not rows:
        with pytest.raises(ValueError, match="every label is ignore_index"):
            Predictions.from_logits(values, labels, class_dim=1)
        return
    preds = Predictions.from_logits(values, labels, class_dim=1, labels_are="counts")
    assert preds.values.tolist() == rows
    if preds.has_soft_labels:
        counts = np.array(kept, np.float64)
        np.testing.assert_allclose(preds.labels, counts / counts.sum(axis=1, keepdims=True), rtol=1e-15)
    else:
        assert preds.labels.tolist() == kept


def test_weights_and_ids_of_samples_are_given_to_their_positions():
    values = np.zeros((2, 3, 2), np.float32)
    labels = [[0, -100], [1, 2]]
    preds = Predictions.from_logits(values, labels, weights=[1.0, 5.0], ids=["a", "b"])
    assert preds.weights.tolist() == [1.0, 5.0, 5.0]
    assert preds.ids == ("a:0", "b:0", "b:1")
    by_position = Predictions.from_logits(values, labels, weights=[[1, 2], [3, 4]], ids=[10, 11, 12, 13])
    assert by_position.weights.tolist() == [1.0, 3.0, 4.0]
    assert by_position.ids == ("10", "12", "13")


def test_ignore_index_can_be_a_class_or_none():
    values = np.eye(3, dtype=np.float32)
    assert Predictions.from_logits(values, [0, 1, 2], ignore_index=1).labels.tolist() == [0, 2]
    with pytest.raises(ValueError, match="label of row 1 is -100"):
        Predictions.from_logits(values, [0, -100, 2], ignore_index=None)


def test_values_at_ignored_positions_may_be_anything():
    preds = Predictions.from_logits([[np.nan, np.inf], [0.0, 1.0]], [-100, 1])
    assert preds.values.tolist() == [[0.0, 1.0]]


def test_rows_are_named_as_they_were_before_others_were_dropped():
    with pytest.raises(ValueError, match="row 2 hold NaN"):
        Predictions.from_logits([[0.0, 1.0], [0.0, 1.0], [np.nan, 0.0]], [-100, -100, 0])
    values = np.zeros((2, 3, 2, 2))
    values[1, 2, 0, 1] = np.inf
    labels = np.zeros((2, 2, 2), np.int64)
    labels[0, 0, 0] = -100
    with pytest.raises(ValueError, match=r"position \(1, 0, 1\) hold \+inf"):
        Predictions.from_logits(values, labels)


@pytest.mark.parametrize("column", [False, True])
def test_one_logit_becomes_two_whose_softmax_is_the_sigmoid(column):
    logit = torch.tensor([-800.0, -2.0, 0.0, 3.0, 800.0, -torch.inf], dtype=torch.float64)
    preds = Predictions.from_logits(logit[:, None] if column else logit, [0, 1, 1, 0, 1, 0])
    assert preds.num_classes == 2
    assert preds.values[:, 0].tolist() == [0.0] * 6
    torch.testing.assert_close(preds.probs()[:, 1], torch.sigmoid(logit), rtol=1e-14, atol=0)


@pytest.mark.parametrize("column", [False, True])
def test_one_probability_is_that_of_class_1(column):
    p = np.array([0.0, 0.25, 1.0], np.float16)
    preds = Predictions.from_probs(p[:, None] if column else p, [False, True, True], class_names=["no", "yes"])
    assert preds.values.tolist() == [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    assert preds.labels.tolist() == [0, 1, 1]


def test_one_channel_of_a_segmentation_becomes_two_classes():
    preds = Predictions.from_logits(torch.tensor([[[[1.0, -2.0]]]]), torch.tensor([[[1, 0]]]))
    assert preds.values.tolist() == [[0.0, 1.0], [0.0, -2.0]]


def test_soft_labels_of_a_binary_output_have_two_columns():
    preds = Predictions.from_probs([0.3, 0.6], [[3, 1], [0, 2]], labels_are="counts")
    assert preds.labels.tolist() == [[0.75, 0.25], [0.0, 1.0]]


def test_counts_and_probabilities_mixed_in_one_matrix():
    labels = np.array([[0.2, 0.3, 0.5], [5.0, 0.0, 15.0], [0.0, 1.0, 0.0]])
    preds = Predictions.from_logits(np.zeros((3, 3)), labels, labels_are="counts")
    assert preds.labels.tolist() == [[0.2, 0.3, 0.5], [0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]


def test_soft_labels_of_low_precision_are_brought_to_sum_to_one():
    labels = np.array([[0.1, 0.2, 0.7]], np.float16)
    assert float(Predictions.from_logits(np.zeros((1, 3)), labels).labels.sum()) == pytest.approx(1, abs=1e-15)
