"""The convex solver behind vector, matrix and Dirichlet calibration."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from focalcal.calibrators.affine_solver import Affine, Penalty, _normalised, _Objective, fit_affine
from focalcal.metrics.temperature_search import fit_inverse_temperature
from oracles.affine import penalised_nll
from oracles.temperature import mean_nll, sampled


def _fit(values, labels, penalty, diagonal, weights=None):
    return fit_affine(values, labels, weights, penalty, diagonal=diagonal, what="Test")


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("soft", [True, False])
def test_the_gradient_is_that_of_the_loss(diagonal, soft):
    values, labels = sampled(40, 3, 2.0)
    labels = torch.rand(40, 3, dtype=torch.float64).softmax(1) if soft else labels
    weights = _normalised(torch.rand(40, dtype=torch.float64), 40)
    objective = _Objective(values, labels, weights, Penalty(0.3, 0.2, 0.1), 0.7, diagonal)
    theta = objective.start() + 0.3 * torch.randn(objective.start().shape, generator=torch.Generator().manual_seed(0))
    _, gradient = objective(theta)
    for index in np.ndindex(*theta.shape):
        step = torch.zeros_like(theta)
        step[index] = 1e-5
        difference = (objective(theta + step)[0] - objective(theta - step)[0]) / 2e-5
        assert gradient[index].item() == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("penalty", [Penalty(0.1, 0.001, 0.01), Penalty(0.02, 0.3, 0.0), Penalty(5.0, 1.0, 1.0)])
def test_no_other_map_has_a_lower_penalised_loss(diagonal, penalty):
    values, labels = sampled(250, 3, 2.0, seed=4)
    weights = torch.linspace(0.5, 2.0, 250, dtype=torch.float64)
    fitted = _fit(values, labels, penalty, diagonal, weights)
    temperature = fit_inverse_temperature(values, labels, weights).temperature

    def loss(flat):
        matrix = np.diag(flat[:3]) if diagonal else flat[:-3].reshape(3, 3)
        terms = (penalty.off_diagonal, penalty.intercept, penalty.diagonal)
        return penalised_nll(values, labels, matrix, flat[-3:], *terms, temperature, weights.numpy())

    ours = np.concatenate([fitted.scale.numpy().ravel(), fitted.bias.numpy()])
    start = np.concatenate([np.ones(3) if diagonal else np.eye(3).ravel(), np.zeros(3)])
    slow = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    assert loss(ours) <= slow.fun + 1e-9
    assert loss(ours) == pytest.approx(slow.fun, abs=1e-6)


def test_without_a_penalty_it_is_logistic_regression():
    values, labels = sampled(2000, 4, 2.0, seed=2)
    reference = LogisticRegression(C=np.inf, tol=1e-9, max_iter=5000).fit(values.numpy(), labels.numpy())
    expected = mean_nll(reference.decision_function(values.numpy()), labels, 1.0)
    fitted = _fit(values, labels, Penalty(), diagonal=False)
    assert mean_nll(fitted(values), labels, 1.0) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_of_the_logits_does_not_matter(diagonal, factor):
    values, labels = sampled(400, 5, 1.0)
    penalty = Penalty(0.1, 0.001, 0.01)
    plain, scaled = _fit(values, labels, penalty, diagonal), _fit(factor * values, labels, penalty, diagonal)
    torch.testing.assert_close(scaled.scale * factor, plain.scale, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scaled.bias, plain.bias, rtol=1e-4, atol=1e-4)


def test_a_large_penalty_gives_temperature_scaling():
    values, labels = sampled(400, 5, 2.0)
    fitted = _fit(values, labels, Penalty(1e4, 1e4, 1e4), diagonal=False)
    beta = fit_inverse_temperature(values, labels).inverse_temperature
    torch.testing.assert_close(fitted.scale, beta * torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-4)
    torch.testing.assert_close(fitted.bias, torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-4)


def test_more_classes_than_blocks_are_formed_for():
    """Beyond 128 classes only the diagonal of the curvature is used; the optimum is the same kind of point."""
    values, labels = sampled(600, 130, 1.5)
    penalty = Penalty(0.1, 0.001, 0.01)
    fitted = _fit(values, labels, penalty, diagonal=False)
    scale = fit_inverse_temperature(values, labels).inverse_temperature
    objective = _Objective(values, labels, _normalised(None, 600), penalty, scale, False)
    _, gradient = objective(torch.cat([fitted.scale / scale, fitted.bias[:, None]], dim=1))
    assert gradient.abs().max() < 1e-5


@pytest.mark.parametrize("values", [torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 4.0], [4.0, 0.0]])])
@pytest.mark.parametrize("diagonal", [True, False])
def test_data_without_a_best_temperature_give_a_finite_map(values, diagonal):
    fitted = _fit(values.double(), torch.tensor([0, 1]), Penalty(0.1, 0.001, 0.01), diagonal)
    assert fitted.scale.isfinite().all()
    assert fitted.bias.isfinite().all()


def test_a_class_that_never_occurs_is_no_problem():
    values, labels = sampled(300, 4, 2.0)
    fitted = _fit(values, labels.clamp(max=2), Penalty(0.1, 0.001, 0.01), diagonal=False)
    assert fitted(values).softmax(1)[:, 3].mean() < 0.05


def test_a_masked_class_stays_masked_and_teaches_nothing():
    values, labels = sampled(300, 3, 2.0)
    masked = torch.cat([values, torch.full((300, 1), -torch.inf, dtype=torch.float64)], dim=1)
    alone = _fit(values, labels, Penalty(0, 0.01, 0.01), True)
    among = _fit(masked, labels, Penalty(0, 0.01, 0.01), True)
    torch.testing.assert_close(among.scale[:3], alone.scale, rtol=1e-4, atol=1e-5)
    assert torch.isneginf(Affine(*among)(masked)[:, 3]).all()
