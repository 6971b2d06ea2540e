"""The container: what goes in, what it answers, how it is cut."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.predictions import Predictions, concatenate
from oracles.predictions import any_predictions, same, softmax

LOGITS = np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [-3.0, 4.0, 4.0]], np.float32)
LABELS = np.array([0, 2, 1])


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, lambda array: array.tolist()])
def test_numpy_torch_and_lists_give_the_same(make):
    preds = Predictions.from_logits(make(LOGITS), make(LABELS))
    assert preds.values.tolist() == LOGITS.tolist()
    assert preds.labels.tolist() == LABELS.tolist()
    assert preds.labels.dtype == torch.int64
    assert (len(preds), preds.num_classes, preds.kind) == (3, 3, "logits")


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_narrow_floats_are_raised_to_float32_without_change(dtype, kept):
    logits = torch.tensor(LOGITS, dtype=dtype)
    preds = Predictions.from_logits(logits, LABELS)
    assert preds.values.dtype == kept
    assert torch.equal(preds.values.to(dtype), logits)


def test_long_double_and_foreign_byte_order_and_read_only_and_reversed_arrays():
    big_endian = LOGITS.astype(">f4")
    read_only = LOGITS.copy()
    read_only.flags.writeable = False
    for array in (LOGITS.astype(np.longdouble), big_endian, read_only, LOGITS[::-1][::-1], np.asfortranarray(LOGITS)):
        preds = Predictions.from_logits(array, LABELS)
        assert preds.values.tolist() == LOGITS.tolist()
        assert preds.values.is_contiguous()


def test_a_tensor_with_gradient_is_detached():
    assert not Predictions.from_logits(torch.tensor(LOGITS, requires_grad=True), LABELS).values.requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_on_a_gpu_are_moved_to_the_cpu():
    preds = Predictions.from_logits(torch.tensor(LOGITS, device="cuda"), torch.tensor(LABELS, device="cuda"))
    assert preds.values.device.type == preds.labels.device.type == "cpu"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_labels_of_every_integer_type(dtype):
    assert Predictions.from_logits(LOGITS, LABELS.astype(dtype)).labels.tolist() == LABELS.tolist()


def test_probabilities_are_the_softmax_of_logits():
    preds = Predictions.from_logits(LOGITS.astype(np.float64), LABELS)
    expected = [softmax(row) for row in LOGITS.tolist()]
    np.testing.assert_allclose(preds.probs(), expected, rtol=1e-14)
    np.testing.assert_allclose(preds.log_probs(), np.log(expected), rtol=1e-13)


def test_probabilities_stay_as_given():
    probs = np.array([[0.25, 0.75], [1.0, 0.0]])
    preds = Predictions.from_probs(probs, [1, 0])
    assert preds.probs().tolist() == probs.tolist()
    assert preds.log_probs()[1].tolist() == [0.0, -np.inf]


def test_logits_are_the_values_or_the_logarithms_of_probabilities():
    logits = Predictions.from_logits(LOGITS, LABELS)
    assert logits.logits() is logits.values
    for dtype in (torch.float32, torch.float64):
        probs = Predictions.from_probs(torch.tensor([[1.0, 0.0], [0.25, 0.75]], dtype=dtype), [0, 1])
        tiny = torch.finfo(torch.float32).tiny
        torch.testing.assert_close(probs.logits(), torch.tensor([[1.0, tiny], [0.25, 0.75]], dtype=dtype).log())
        assert probs.values.tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_arguments_after_the_data_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        Predictions(torch.zeros(3, 2), "logits", torch.zeros(3, dtype=torch.int64), None)


def test_saturated_float16_logits_do_not_overflow():
    preds = Predictions.from_logits(np.array([[65504.0, -65504.0]], np.float16), [0])
    assert preds.probs().tolist() == [[1.0, 0.0]]
    assert preds.log_probs().tolist() == [[0.0, -131008.0]]


def test_hard_labels_of_soft_labels_are_the_first_of_the_most_probable():
    preds = Predictions.from_logits(LOGITS, [[2, 2, 1], [0, 3, 3], [0, 0, 9]], labels_are="counts")
    assert preds.has_soft_labels
    assert preds.hard_labels.tolist() == [0, 1, 2]
    assert not Predictions.from_logits(LOGITS, LABELS).has_soft_labels


def test_it_is_frozen_and_says_what_it_is():
    preds = Predictions.from_logits(LOGITS, LABELS, split="test", weights=[1, 2, 3], ids=["a", "b", "c"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        preds.split = "val"
    assert repr(preds) == "Predictions(3 samples, 3 classes, logits, weights, ids, split='test')"


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": torch.zeros(3)},
        {"values": torch.zeros(3, 2, dtype=torch.float16)},
        {"labels_or_none": torch.zeros(2, dtype=torch.int64)},
        {"labels_or_none": torch.zeros(3, dtype=torch.int32)},
        {"labels_or_none": torch.zeros(3, 2)},
        {"kind": "scores"},
        {"masked_classes": (0,)},
        {"masked_classes": (-1,)},
        {"masked_classes": (2,)},
    ],
)
def test_the_bare_constructor_checks_shapes_and_types(wrong):
    right = {"values": torch.zeros(3, 2), "kind": "logits", "labels_or_none": torch.zeros(3, dtype=torch.int64)}
    Predictions(**right)
    with pytest.raises(ValueError, match=r"values|labels|kind|masked_classes"):
        Predictions(**{**right, **wrong})


@settings(deadline=None, max_examples=60)
@given(any_predictions(max_samples=9), st.integers(1, 10))
def test_blocks_are_views_that_join_to_the_whole(preds, rows):
    blocks = list(preds.blocks(rows))
    assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    assert all(block.values.data_ptr() - preds.values.data_ptr() >= 0 for block in blocks)
    assert blocks[0].values.data_ptr() == preds.values.data_ptr()
    assert same(concatenate(blocks), preds)


def test_blocks_have_about_a_megabyte_unless_told():
    preds = Predictions.from_logits(torch.zeros(3000, 200), torch.zeros(3000, dtype=torch.int64))
    assert [len(block) for block in preds.blocks()] == [1310, 1310, 380]
    with pytest.raises(ValueError, match="rows must be at least 1"):
        next(preds.blocks(0))


def test_select_by_positions_and_by_mask():
    preds = Predictions.from_logits(LOGITS, LABELS, ids=["a", "b", "c"], weights=[1, 2, 3])
    chosen = preds.select([2, 0, 0])
    assert chosen.ids == ("c", "a", "a")
    assert chosen.labels.tolist() == [1, 0, 0]
    assert chosen.weights.tolist() == [3.0, 1.0, 1.0]
    assert chosen.values.tolist() == LOGITS[[2, 0, 0]].tolist()
    assert preds.select(torch.tensor([True, False, True])).ids == ("a", "c")


def test_with_values_keeps_everything_else_and_checks():
    preds = Predictions.from_logits(LOGITS, LABELS, ids=["a", "b", "c"], split="val", class_names=["x", "y", "z"])
    other = preds.with_values(preds.probs(), "probs")
    assert (other.kind, other.ids, other.split, other.class_names) == ("probs", preds.ids, "val", ("x", "y", "z"))
    assert torch.equal(other.labels, preds.labels)
    with pytest.raises(ValueError, match=r"row 0 hold .* outside \[0, 1\]"):
        preds.with_values(LOGITS, "probs")
    with pytest.raises(ValueError, match="hold NaN"):
        preds.with_values(LOGITS * np.nan, "logits")
    with pytest.raises(ValueError, match="shape"):
        preds.with_values(LOGITS[:2], "logits")


def test_provenance_is_a_copy():
    provenance = {"model": "resnet50"}
    preds = Predictions.from_logits(LOGITS, LABELS, provenance=provenance)
    provenance["model"] = "another"
    assert preds.provenance == {"model": "resnet50"}


def test_an_option_that_does_not_exist_is_refused_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match=r"from_probs has no argument 'class_name'; did you mean 'class_names'\?"):
        Predictions.from_probs([[0.2, 0.8]], [1], class_name=["cat", "dog"])
