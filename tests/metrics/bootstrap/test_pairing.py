import pytest
import torch

from focalcal.metrics.bootstrap.pairing import match_samples
from focalcal.predictions import Predictions

A = Predictions.from_probs([0.9, 0.2, 0.6], [1, 0, 1], ids=["x", "y", "z"])


def test_samples_are_put_into_the_order_of_the_ids():
    b = Predictions.from_probs([0.1, 0.8, 0.3], [1, 1, 0], ids=["z", "x", "y"])
    assert match_samples(A, b).values[:, 1].tolist() == pytest.approx([0.8, 0.3, 0.1])


def test_without_ids_samples_are_matched_by_position():
    b = Predictions.from_probs([0.1, 0.8, 0.3], [1, 0, 1])
    assert match_samples(A, b) is b


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (
            Predictions.from_probs([0.1, 0.8, 0.3], [1, 1, 0], ids=["z", "x", "w"]),
            "2 ids are in only one of a and b, for example 'w', which b has and a lacks",
        ),
        (Predictions.from_probs([0.1, 0.8], [1, 0]), "a has 3 samples and b 2"),
        (Predictions.from_probs([0.1, 0.8, 0.3], [1, 0, 0]), "different labels at sample 2"),
        (Predictions.from_probs([0.1, 0.8, 0.3], [1, 0, 1], weights=[1, 1, 2]), "different weights at sample 2"),
        (Predictions.from_probs([[0.2, 0.3, 0.5]] * 3, [1, 0, 1]), "a has 2 classes and b 3"),
        (Predictions.from_probs([0.1, 0.8, 0.3], [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), "soft labels"),
        (
            Predictions.from_probs([0.1, 0.8, 0.3], [1, 1, 0], ids=["x", "x", "z"], allow_duplicate_ids=True),
            "b has an id more than once",
        ),
    ],
)
def test_other_samples_get_one_sentence(b, message):
    with pytest.raises(ValueError, match=message) as raised:
        match_samples(A, b)
    assert str(raised.value).count(". ") == 0


def test_weights_of_one_are_no_weights():
    b = Predictions.from_probs([0.1, 0.8, 0.3], [1, 0, 1], weights=torch.ones(3))
    assert match_samples(A, b) is b
