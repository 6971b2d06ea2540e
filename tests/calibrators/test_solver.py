"""The convex solver behind every calibrator that learns more than two numbers."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from focalcal.calibrators import solver
from focalcal.calibrators.solver import Coordinates, Regression, Ridge
from focalcal.temperature import fit_inverse_temperature
from oracles.affine import penalised_nll
from oracles.temperature import mean_nll, sampled


def _regression(values, labels, ridge, diagonal, weights=None, masked=None):
    return Regression.around_identity(values, labels, weights, ridge, diagonal=diagonal, masked=masked)


def _fit(values, labels, ridge, diagonal, **options):
    return _regression(values, labels, ridge, diagonal, **options).minimise("Test")


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_the_gradient_is_that_of_the_loss(diagonal, soft, mask):
    values, labels = sampled(40, 3, 2.0)
    generator = torch.Generator().manual_seed(0)
    labels = torch.rand(40, 3, dtype=torch.float64, generator=generator).softmax(1) if soft else labels
    weights = torch.rand(40, dtype=torch.float64, generator=generator)
    masked = torch.zeros(40, 3, dtype=torch.bool)
    if mask and not soft:
        masked[torch.arange(40), (labels + 1) % 3] = True
    regression = _regression(values, labels, Ridge(0.3, 0.2, 0.1), diagonal, weights, masked)
    theta = regression.centre + 0.3 * torch.randn(regression.centre.shape, generator=generator)
    _, gradient = regression.loss_and_gradient(theta)
    for index in np.ndindex(*theta.shape):
        step = torch.zeros_like(theta)
        step[index] = 1e-5
        losses = [regression.loss_and_gradient(theta + sign * step)[0] for sign in (1, -1)]
        assert gradient[index].item() == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-9)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("ridge", [Ridge(0.1, 0.001, 0.01), Ridge(0.02, 0.3, 0.0), Ridge(5.0, 1.0, 1.0)])
def test_no_other_map_has_a_lower_penalised_loss(diagonal, ridge):
    values, labels = sampled(250, 3, 1.0, seed=4)
    weights = torch.linspace(0.5, 2.0, 250, dtype=torch.float64)
    fitted = _fit(values, labels, ridge, diagonal, weights=weights)

    def loss(flat):
        matrix = np.diag(flat[:3]) if diagonal else flat[:-3].reshape(3, 3)
        terms = (ridge.off_diagonal, ridge.intercept, ridge.diagonal)
        return penalised_nll(values, labels, matrix, flat[-3:], *terms, 1.0, weights.numpy())

    ours = np.concatenate([fitted.scale.numpy().ravel(), fitted.bias.numpy()])
    start = np.concatenate([np.ones(3) if diagonal else np.eye(3).ravel(), np.zeros(3)])
    slow = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    assert loss(ours) == pytest.approx(slow.fun, abs=1e-8)


def test_without_a_penalty_it_is_logistic_regression():
    values, labels = sampled(2000, 4, 1.0, seed=2)
    reference = LogisticRegression(C=np.inf, tol=1e-9, max_iter=5000).fit(values.numpy(), labels.numpy())
    expected = mean_nll(reference.decision_function(values.numpy()), labels, 1.0)
    fitted = _fit(values, labels, Ridge(), diagonal=False)
    assert mean_nll(fitted(values), labels, 1.0) == pytest.approx(expected, abs=1e-8)


def test_features_need_not_be_as_many_as_classes():
    values, labels = sampled(2000, 2, 1.0, seed=2)
    features = torch.stack([values[:, 1] - values[:, 0], values[:, 0] ** 2, values[:, 1] ** 2], dim=1)
    reference = LogisticRegression(C=np.inf, tol=1e-9, max_iter=5000).fit(features.numpy(), labels.numpy())
    centre = torch.zeros(2, 4, dtype=torch.float64)
    fitted = Regression(features, labels, None, torch.zeros(2, 4, dtype=torch.float64), centre).minimise("Test")
    np.testing.assert_allclose(fitted.scale[1] - fitted.scale[0], reference.coef_[0], atol=1e-4)


def test_a_large_penalty_changes_nothing():
    values, labels = sampled(400, 5, 1.0)
    fitted = _fit(values, labels, Ridge(1e4, 1e4, 1e4), diagonal=False)
    torch.testing.assert_close(fitted.scale, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-4)
    torch.testing.assert_close(fitted.bias, torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("samples", "classes"), [(2000, 50), (600, 90)])
def test_many_classes_reach_the_optimum_with_and_without_blocks(samples, classes, monkeypatch):
    """Beyond 64 classes only the diagonal of the curvature is used; the optimum is the same."""
    values, labels = sampled(samples, classes, 1.5)
    values = values * fit_inverse_temperature(values, labels).inverse_temperature
    regression = _regression(values, labels, Ridge(0.1, 0.001, 0.01), diagonal=False)
    loss, _ = _loss_and_gradient_at(regression, regression.minimise("Test"))
    monkeypatch.setattr(solver, "_LARGE_TOLERANCE", {"ftol": 1e-14, "gtol": 1e-9})
    least, gradient = _loss_and_gradient_at(regression, regression.minimise("Test"))
    assert gradient.abs().max() < 1e-7
    assert least <= loss <= least * (1 + 1e-7)


def _loss_and_gradient_at(regression, fitted):
    return regression.loss_and_gradient(torch.cat([fitted.scale, fitted.bias[:, None]], dim=1))


def test_a_class_that_never_occurs_is_no_problem():
    values, labels = sampled(300, 4, 1.0)
    fitted = _fit(values, labels.clamp(max=2), Ridge(0.1, 0.001, 0.01), diagonal=False)
    assert fitted(values).softmax(1)[:, 3].mean() < 0.05


@pytest.mark.parametrize("diagonal", [True, False])
def test_a_masked_class_teaches_nothing(diagonal):
    values, labels = sampled(300, 3, 1.0)
    wide = torch.cat([values, torch.zeros(300, 1, dtype=torch.float64)], dim=1)
    masked = torch.zeros(300, 4, dtype=torch.bool)
    masked[:, 3] = True
    alone = _fit(values, labels, Ridge(0.1, 0.01, 0.01), diagonal)
    among = _fit(wide, labels, Ridge(0.1, 0.01, 0.01), diagonal, masked=masked)
    kept = among.scale[:3] if diagonal else among.scale[:3, :3]
    torch.testing.assert_close(kept, alone.scale, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("most_classes", [2, 128])
def test_the_change_of_variables_turns_gradients_as_parameters(monkeypatch, diagonal, most_classes):
    monkeypatch.setattr(solver, "_MOST_CLASSES_WITH_BLOCKS", most_classes)
    values, labels = sampled(50, 3, 1.0)
    coordinates = Coordinates.of(_regression(values, labels, Ridge(0.01, 0.01, 0.01), diagonal))
    assert coordinates.factor.ndim == (3 if diagonal or most_classes > 2 else 2)
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(coordinates.start.numel(), dtype=torch.float64, generator=generator)
    gradient = torch.randn(coordinates.start.shape, dtype=torch.float64, generator=generator)
    move = coordinates.parameters(phi.numpy()) - coordinates.start
    turned = torch.from_numpy(coordinates.gradient(gradient))
    assert float((move * gradient).sum()) == pytest.approx(float(turned @ phi))


def test_the_blocks_are_the_second_derivatives():
    values, labels = sampled(50, 3, 1.0)
    regression = _regression(values, labels, Ridge(0.01, 0.01, 0.01), diagonal=False)
    factor = Coordinates.of(regression).factor[1]
    probs = values.softmax(1)[:, 1]
    extended = torch.cat([values, torch.ones(50, 1, dtype=torch.float64)], dim=1)
    block = sum(p * (1 - p) / 50 * torch.outer(x, x) for p, x in zip(probs, extended, strict=True))
    torch.testing.assert_close(factor @ factor.T, block + 0.02 * torch.eye(4), rtol=1e-4, atol=1e-4)


def test_samples_that_nothing_is_uncertain_about_are_not_singular():
    values = torch.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=torch.float64)
    fitted = _fit(values, torch.tensor([0, 1]), Ridge(), diagonal=False)
    assert fitted.scale.isfinite().all()
    assert fitted.bias.isfinite().all()
