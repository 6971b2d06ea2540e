"""Scores at any temperature are those of a softmax."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from focalcal.calibrators.scaled_scores import ScaledScores
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions


@pytest.mark.parametrize("soft", [False, True])
def test_confidence_and_nll_are_those_of_a_softmax(soft):
    preds = sampled_predictions(100, 6, 2.0)
    labels = torch.rand(100, 6, dtype=torch.float64).softmax(1) if soft else preds.labels
    log_probs = torch.log_softmax(preds.values / 1.7, dim=1)
    confidence, nll = ScaledScores.of(preds).confidence_and_nll(labels, 1.7)
    expected = -(log_probs * labels).sum(1) if soft else -log_probs.gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(confidence, log_probs.exp().amax(1), rtol=1e-13, atol=0)
    torch.testing.assert_close(nll, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_confidence_is_exact_to_float64_whatever_the_logits_are(dtype):
    preds = sampled_predictions(7000, 90, 2.0, dtype=dtype)  # more than one block
    expected = torch.softmax(preds.values.double() / 0.3, dim=1).amax(1)
    torch.testing.assert_close(ScaledScores.of(preds).confidence(0.3), expected, rtol=1e-13, atol=0)


def test_probabilities_are_their_logarithms():
    preds = sampled_predictions(50, 4, 2.0)
    probs = Predictions.from_probs(preds.probs(), preds.labels)
    torch.testing.assert_close(ScaledScores.of(probs).confidence(2.0), ScaledScores.of(preds).confidence(2.0))


@given(
    st.tuples(st.integers(1, 20), st.integers(2, 5)).flatmap(
        lambda shape: st.tuples(
            arrays("float32", shape, elements=st.sampled_from([0.0, 1.0, 1.0000001, -3.0])),
            arrays("int64", shape[0], elements=st.integers(0, shape[1] - 1)),
        )
    )
)
@settings(deadline=None, max_examples=100)
def test_correct_is_the_first_maximum_also_on_ties(data):
    values, labels = (torch.from_numpy(part) for part in data)
    scores = ScaledScores.of(Predictions.from_logits(values, labels))
    assert torch.equal(scores.correct, values.argmax(1) == labels)
