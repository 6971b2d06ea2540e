"""Histogram binning, one class against the rest."""

import numpy as np
import pytest
import torch

from focalcal.calibrators import HistogramBinning
from focalcal.predictions import Predictions
from oracles.temperature import one_hot, sampled_predictions


def _bin(p, bins):
    return next(m for m in range(bins) if p <= (m + 1) / bins)


def _oracle(probs, labels, new, bins, weights):
    """Value by value, from the definition."""
    targets, mapped = one_hot(labels, probs.shape[1]), np.zeros_like(new)
    for row, k in np.ndindex(*new.shape):
        inside = [i for i in range(len(probs)) if _bin(probs[i, k], bins) == _bin(new[row, k], bins)]
        weight = sum(weights[i] for i in inside)
        mapped[row, k] = sum(weights[i] * targets[i, k] for i in inside) / weight if inside else new[row, k]
    total = mapped.sum(axis=1, keepdims=True)
    return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), new)


@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("soft", [False, True])
def test_the_same_as_its_definition(bins, soft):
    val, test = sampled_predictions(60, 3, 2.0), sampled_predictions(40, 3, 2.0, seed=1)
    generator = torch.Generator().manual_seed(0)
    labels = torch.rand(60, 3, generator=generator, dtype=torch.float64).softmax(1) if soft else val.labels
    weights = torch.rand(60, generator=generator, dtype=torch.float64) + 0.1
    fitted = HistogramBinning(bins).fit(Predictions.from_logits(val.values, labels, weights=weights))
    expected = _oracle(val.probs().numpy(), labels.numpy(), test.probs().numpy(), bins, weights.numpy())
    np.testing.assert_allclose(fitted.transform(test).values, expected, atol=1e-12)


def test_a_value_on_an_edge_belongs_to_the_bin_that_ends_there():
    val = Predictions.from_probs([[0.5, 0.5], [0.4, 0.6], [0.3, 0.7]], [0, 1, 1])
    fitted = HistogramBinning(bins=2).fit(val)
    torch.testing.assert_close(
        fitted.frequency_, torch.tensor([[1 / 3, torch.nan], [0.0, 1.0]]).double(), equal_nan=True
    )


def test_a_row_of_zeros_and_an_empty_bin_leave_probabilities_as_they_were():
    val = Predictions.from_probs([[0.9, 0.1, 0.0], [0.9, 0.0, 0.1]], [1, 1])
    calibrated = HistogramBinning(bins=2).fit(val).transform(Predictions.from_probs([[0.9, 0.05, 0.05]], [0]))
    torch.testing.assert_close(calibrated.values, torch.tensor([[0.0, 1.0, 0.0]]).double())
    none_right = HistogramBinning(bins=2).fit(Predictions.from_probs([[0.9, 0.1], [0.9, 0.1]], [0, 0]))
    none_right.frequency_ = torch.zeros(2, 2).double()
    torch.testing.assert_close(
        none_right.transform(Predictions.from_probs([[0.7, 0.3]], [0])).values, torch.tensor([[0.7, 0.3]]).double()
    )


def test_the_number_of_bins_is_checked():
    with pytest.raises(ValueError, match="bins"):
        HistogramBinning(bins=0).fit(sampled_predictions(5, 2))
