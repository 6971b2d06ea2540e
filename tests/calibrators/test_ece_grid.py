"""The grid search by ECE finds what trying every temperature finds."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from focalcal.calibrators.ece_grid import ScaledScores, fit_temperature_on_grid
from focalcal.calibrators.temperature_scaling import PAPER_GRID
from focalcal.predictions import Predictions
from oracles.temperature import grid_errors, sampled, sampled_predictions


def test_the_papers_grid_is_the_doubles_i_over_10():
    assert len(PAPER_GRID) == 100
    assert (PAPER_GRID[0], PAPER_GRID[2], PAPER_GRID[-1]) == (0.1, 0.3, 10.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.2, 0.7, 1.0, 2.5, 8.0, 30.0])
@pytest.mark.parametrize("classes", [2, 10, 50])
def test_the_same_temperature_as_trying_them_all(classes, scale, dtype):
    values, labels = sampled(1500, classes, scale, seed=classes, dtype=dtype)
    errors = grid_errors(values, labels, PAPER_GRID)
    assert (
        fit_temperature_on_grid(Predictions.from_logits(values, labels), PAPER_GRID, 15)
        == PAPER_GRID[np.argmin(errors)]
    )


@given(
    st.tuples(st.integers(1, 40), st.integers(2, 4)).flatmap(
        lambda shape: st.tuples(
            arrays(np.float64, shape, elements=st.floats(-20, 20, width=32)),
            arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)),
            arrays(np.float64, shape[0], elements=st.floats(0.25, 4)),
        )
    ),
    st.lists(st.floats(0.01, 50), min_size=1, max_size=12, unique=True),
    st.integers(1, 20),
)
@settings(deadline=None, max_examples=200)
def test_any_grid_weights_and_bins(data, grid, bins):
    values, labels, weights = data
    errors = np.array(grid_errors(values, labels, grid, bins, weights))
    found = fit_temperature_on_grid(Predictions.from_logits(values, labels, weights=weights), grid, bins)
    # Rounding may put a confidence on the other side of an edge; equal errors but for that count as equal.
    assert errors[grid.index(found)] <= errors.min() + 1e-9


def test_ties_go_to_the_first_of_the_users_grid():
    saturated = Predictions.from_logits(torch.tensor([[900.0, 0.0], [0.0, 900.0], [900.0, 0.0]]), [0, 1, 0])
    assert fit_temperature_on_grid(saturated, [0.3, 0.1, 0.2], 15) == 0.3
    constant = Predictions.from_logits(torch.zeros(4, 3), [0, 1, 2, 0])
    assert fit_temperature_on_grid(constant, [5.0, 1.0, 2.0], 15) == 5.0


def test_a_sample_without_weight_does_not_count():
    values, labels = sampled(200, 3, 2.0)
    weights = (torch.arange(200) % 3 > 0).double()
    kept = weights > 0
    weighted = fit_temperature_on_grid(Predictions.from_logits(values, labels, weights=weights), PAPER_GRID, 15)
    assert weighted == fit_temperature_on_grid(Predictions.from_logits(values[kept], labels[kept]), PAPER_GRID, 15)


def test_most_of_the_grid_is_never_tried(monkeypatch):
    sizes = []

    def counting(scores, temperature):
        sizes.append(len(scores.logits))
        return confidence(scores, temperature)

    confidence = ScaledScores.confidence
    monkeypatch.setattr(ScaledScores, "confidence", counting)
    fit_temperature_on_grid(sampled_predictions(4000, 20, 2.5), PAPER_GRID, 15)
    assert sizes.count(4000) <= 20  # of 100


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
