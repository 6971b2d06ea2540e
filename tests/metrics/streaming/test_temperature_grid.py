import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from focalcal.metrics.streaming.temperature_grid import TemperatureGrid
from focalcal.temperature import fit_inverse_temperature
from oracles.temperature import mean_nll, sampled


def grid_of(logits, labels, weights=None):
    grid = TemperatureGrid()
    grid.add(logits, labels, weights)
    return grid


@example(classes=2, scale=50.0, samples=40, seed=0)
@example(classes=30, scale=0.02, samples=400, seed=1)
@given(
    classes=st.integers(2, 12),
    scale=st.floats(0.03, 30.0),
    samples=st.integers(30, 200),
    seed=st.integers(0, 1000),
)
def test_the_minimum_is_that_of_the_search(classes, scale, samples, seed):
    logits, labels = sampled(samples, classes, scale, seed)
    fit = fit_inverse_temperature(logits, labels, bounds=(1 / 64, 64))
    nll, temperature = grid_of(logits, labels).minimum()
    assert nll / samples == pytest.approx(fit.nll, abs=1e-5, rel=1e-5)
    assert temperature == pytest.approx(fit.temperature, rel=5e-3)
    assert nll / samples == pytest.approx(mean_nll(logits, labels, 1 / temperature), abs=1e-5, rel=1e-5)


def test_parts_add_up():
    logits, labels = sampled(500, 6, 3.0)
    weights = torch.rand(500, dtype=torch.float64)
    whole = grid_of(logits, labels, weights).sums
    parts = [grid_of(logits[part], labels[part], weights[part]).sums for part in (slice(0, 7), slice(7, 500))]
    torch.testing.assert_close(sum(parts), whole)
    fit = fit_inverse_temperature(logits, labels, weights)
    grid = grid_of(logits, labels, weights)
    assert grid.minimum()[0] / float(weights.sum()) == pytest.approx(fit.nll, abs=1e-5)
    assert grid.minimum()[1] == pytest.approx(fit.temperature, rel=1e-3)


def test_class_probabilities_and_masked_classes():
    logits, labels = sampled(300, 4, 2.0)
    soft = 0.9 * torch.eye(4, dtype=torch.float64)[labels] + 0.025
    masked = torch.cat([logits, torch.full((300, 1), -torch.inf)], dim=1)
    wide = torch.cat([soft, torch.zeros(300, 1, dtype=torch.float64)], dim=1)
    fit = fit_inverse_temperature(logits, soft)
    for values, target in ((logits, soft), (masked, wide)):
        nll, temperature = grid_of(values, target).minimum()
        assert nll / 300 == pytest.approx(fit.nll, abs=1e-5)
        assert temperature == pytest.approx(fit.temperature, rel=1e-3)


def test_the_ends():
    right, wrong = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
    assert grid_of(right, torch.tensor([0])).minimum()[1] == pytest.approx(1 / 64)
    nll, temperature = grid_of(right, wrong).minimum()
    assert temperature == pytest.approx(64)
    assert nll == pytest.approx(mean_nll(right, wrong, 1 / 64))
    equal = grid_of(torch.zeros(3, 4), torch.tensor([0, 1, 2])).minimum()
    assert equal[0] == pytest.approx(3 * math.log(4))


def test_a_label_of_a_masked_class_is_an_infinite_loss():
    nll, temperature = grid_of(torch.tensor([[0.0, -torch.inf]]), torch.tensor([1])).minimum()
    assert nll == math.inf
    assert math.isnan(temperature)
