"""What is refused, and in which words: one sentence with the row and what to do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.predictions import Predictions, row_sum_tolerance
from oracles.predictions import probability_rows

LOGITS = np.zeros((4, 3), np.float32)
LABELS = np.array([0, 1, 2, 0])


def logits_with(value, where):
    changed = LOGITS.copy()
    changed[where] = value
    return changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"logits": logits_with(np.nan, (2, 1))}, "logits of row 2 hold NaN"),
        ({"logits": logits_with(np.inf, (3, 0))}, r"logits of row 3 hold \+inf"),
        ({"logits": logits_with(-np.inf, 1)}, "logits of row 1 are all -inf"),
        ({"logits": LOGITS.astype(np.int64)}, "logits are of type int64; pass floating-point"),
        ({"logits": torch.zeros(4, 3, dtype=torch.complex64)}, "logits are of type complex64; pass floating-point"),
        ({"logits": 3.0}, "logits are one number"),
        ({"logits": [[1.0, 2.0], [1.0]]}, "rows of different lengths"),
        ({"logits": LOGITS[:, :0]}, "without any class"),
        ({"logits": LOGITS[:0], "labels": LABELS[:0]}, "no samples"),
        ({"labels": [0, 1, 3, 0]}, r"label of row 2 is 3, but there are 3 classes \(0 to 2\).*ignore_index"),
        ({"labels": [0, -1, 2, 0]}, "label of row 1 is -1"),
        ({"labels": LABELS + 0.5}, "label of row 0 is .*pass whole numbers"),
        ({"labels": LABELS > 0}, "labels are of type bool; pass integers"),
        ({"labels": LABELS[:3]}, r"labels have shape \(3,\).*pass classes of shape \(4,\)"),
        ({"labels": LABELS[:, None]}, r"labels have shape \(4, 1\)"),
        ({"labels": np.full(4, 2**63, np.uint64)}, "above 2"),
        ({"labels": np.zeros((4, 3))}, r"soft labels of row 0 sum to 0, not to 1"),
        ({"labels": np.full((4, 3), 0.25)}, r"soft labels of row 0 .*sum to 0.75"),
        ({"labels": np.tile([3, -1, 1], (4, 1))}, "soft labels of row 0"),
        ({"labels": np.tile([np.nan, 0.5, 0.5], (4, 1))}, "soft labels of row 0"),
        ({"labels": np.tile([np.inf, 0.5, 0.5], (4, 1))}, "soft labels of row 0"),
        ({"weights": [1, 2, 3]}, r"weights have shape \(3,\)"),
        ({"weights": [1, 2, -3, 4]}, "weight of row 2 is -3"),
        ({"weights": [1, np.nan, 3, 4]}, "weight of row 1 is nan"),
        ({"weights": [1, np.inf, 3, 4]}, "weight of row 1 is inf"),
        ({"weights": [0, 0, 0, 0]}, "All weights are 0"),
        ({"weights": [True, False, True, True]}, "weights must be real numbers"),
        ({"ids": ["a", "b", "c"]}, "3 ids for 4 samples"),
        ({"ids": ["a", "b", "c", "b"]}, r"id 'b' occurs twice, in rows 1 and 3; .*allow_duplicate_ids=True"),
        ({"ids": [b"a", b"b", b"c", b"\xff"]}, "not UTF-8"),
        ({"ids": ["a", "b", "c", "\0"]}, "NUL"),
        ({"class_names": ["a", "b"]}, "2 class_names for 3 classes"),
        ({"class_names": ["a", "b", "\ud800"]}, "not valid Unicode"),
        ({"split": "a\0"}, "NUL"),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(ValueError, match=words) as refused:
        Predictions.from_logits(**{"logits": LOGITS, "labels": LABELS, **arguments})
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"logits": "logits.npz"}, "logits are of type"),
        ({"logits": None}, "logits are missing"),
        ({"ids": "abcd"}, "ids must be a sequence"),
        ({"ids": [1.0, 2.0, 3.0, 4.0]}, "ids must be strings or integers, not float"),
        ({"ids": [True, False, True, False]}, "ids must be strings or integers, not bool"),
        ({"class_names": "abc"}, "class_names must be a sequence"),
        ({"class_names": [0, 1, 2]}, "class name must be a string, not int"),
        ({"provenance": {"epoch": 3}}, "must be a string, not int"),
        ({"split": 1}, "split must be a string"),
    ],
)
def test_wrong_types_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(TypeError, match=words):
        Predictions.from_logits(**{"logits": LOGITS, "labels": LABELS, **arguments})


def test_a_masked_class_is_allowed():
    preds = Predictions.from_logits(logits_with(-np.inf, (2, 1)), LABELS)
    assert preds.probs()[2].tolist() == [0.5, 0.0, 0.5]


def test_duplicate_ids_can_be_allowed_by_name():
    preds = Predictions.from_logits(LOGITS, LABELS, ids=["a", "b", "c", "b"], allow_duplicate_ids=True)
    assert preds.ids == ("a", "b", "c", "b")


@pytest.mark.parametrize("ids", [[3, 1, 2, 0], np.array([3, 1, 2, 0]), torch.tensor([3, 1, 2, 0]), "3120"])
def test_ids_become_text(ids):
    assert Predictions.from_logits(LOGITS, LABELS, ids=list(ids) if isinstance(ids, str) else ids).ids == tuple("3120")


@pytest.mark.parametrize(
    ("probs", "words"),
    [
        (
            [[0.5, 0.5], [0.5, 0.4]],
            r"row 1 sum to 0.9, not to 1 \(tolerance 0.001\); if these are logits use from_logits",
        ),
        (
            [[0.5, 0.5], [1.2, -0.2]],
            r"row 1 hold [-0-9.]+, outside \[0, 1\]; if these are logits use from_logits",
        ),
        ([[0.5, 0.5], [1.0000001, 0.0]], r"outside \[0, 1\].*if it is rounding clip"),
        ([[0.5, 0.5], [np.nan, 1.0]], "row 1 hold NaN"),
        ([[0.5, 0.5], [np.inf, 0.0]], r"outside \[0, 1\]"),
        ([[0.5, 0.5], [0.0, 0.0]], "row 1 sum to 0,"),
        ([0.5, 1.5], r"row 1 hold 1.5, outside \[0, 1\]"),
    ],
)
def test_what_is_no_probability_is_refused(probs, words):
    with pytest.raises(ValueError, match=words):
        Predictions.from_probs(probs, [0, 1])


def test_the_wrong_row_is_found_in_any_block():
    logits = np.zeros((200_000, 3), np.float32)
    logits[123_456, 2] = np.nan
    with pytest.raises(ValueError, match="row 123456 hold NaN"):
        Predictions.from_logits(logits, np.zeros(200_000, np.int64))
    probs = np.full((200_000, 2), 0.5, np.float32)
    probs[199_999] = 0.4
    with pytest.raises(ValueError, match=r"row 199999 sum to 0\.8"):
        Predictions.from_probs(probs, np.zeros(200_000, np.int64))


@settings(deadline=None, max_examples=80)
@given(st.data(), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]), st.integers(2, 60))
def test_rounding_to_any_type_stays_within_the_tolerance(data, dtype, classes):
    exact = torch.from_numpy(data.draw(probability_rows(3, classes)).astype(np.float64))
    exact = exact / exact.sum(dim=1, keepdim=True)
    preds = Predictions.from_probs(exact.to(dtype), [0, 1, 0])
    assert torch.equal(preds.values.to(dtype), exact.to(dtype))


@pytest.mark.parametrize("classes", [10, 1000, 50_000])
def test_softmax_in_float16_and_bfloat16_passes_also_after_it_was_raised(classes):
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        probs = torch.softmax(torch.randn(20, classes) * 4, dim=1).to(dtype)
        Predictions.from_probs(probs, torch.zeros(20, dtype=torch.int64))
    raised = torch.softmax(torch.randn(20, classes) * 4, dim=1).half().float()
    Predictions.from_probs(raised, torch.zeros(20, dtype=torch.int64))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-3), (torch.float32, 1e-3), (torch.float16, 2 * 2.0**-10), (torch.bfloat16, 2 * 2.0**-7)],
)
def test_the_tolerance_is_the_stated_one(dtype, tolerance):
    assert row_sum_tolerance(8, dtype) == tolerance + 8 * 2.0**-25
    below, above = 0.5 + tolerance * 0.9, 0.5 + tolerance * 1.3
    Predictions.from_probs(torch.tensor([[0.5, below]], dtype=torch.float64).to(dtype), [0], tolerance=None)
    with pytest.raises(ValueError, match="tolerance"):
        Predictions.from_probs(torch.tensor([[0.5, above]], dtype=torch.float64).to(dtype), [0])


def test_the_tolerance_can_be_passed():
    Predictions.from_probs([[0.5, 0.4]], [0], tolerance=0.11)
    with pytest.raises(ValueError, match="tolerance 1e-09"):
        Predictions.from_probs([[0.5, 0.5 + 1e-6]], [0], tolerance=1e-9)


def test_logits_inside_0_1_are_not_mistaken_for_probabilities():
    inside = np.array([[0.9, 0.1], [0.5, 0.5]])
    assert Predictions.from_logits(inside, [0, 1]).probs()[0, 0].item() == pytest.approx(1 / (1 + np.exp(-0.8)))
