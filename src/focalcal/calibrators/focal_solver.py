"""Temperature and γ of focal temperature scaling, by NLL: L-BFGS with exact gradients from a few starts."""

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from focalcal.calibrators.focal_inverse import accurate_nll, inverse_logits, smallest_nll
from focalcal.metrics.temperature_search import logits_of
from focalcal.predictions import Predictions

GAMMA_RANGE = (-0.5, 5.0)
_TEMPERATURE_RANGE = (1e-4, 1e4)
# The loss is not convex in γ: each start finds the optimum near it.
_STARTS = (-0.3, 0.0, 1.0, 3.0)
# The starts are tried on about this many rows, and the best is finished on all.
_SAMPLE_ROWS = 2048
_BLOCK_NUMBERS = 2**17


def fit_temperature_and_gamma(preds: Predictions, inverse_temperature: float) -> tuple[float, float]:
    """T and γ with the least NLL of the focal inverse of softmax(z / T).

    Args:
        preds: N predictions; soft labels and weights count.
        inverse_temperature: the best β = 1/T without γ.

    Returns:
        T and γ; if no γ is better than none, (1/β, 0).
    """
    if preds.weights is not None:
        preds = preds.select(preds.weights > 0)
    u = math.log(inverse_temperature)
    sample = preds.select(torch.arange(0, len(preds), max(1, len(preds) // _SAMPLE_ROWS)))
    _, best_u, best_gamma = min(_minimise(sample, u, gamma, slope=1e-5) for gamma in _STARTS)
    best = _minimise(preds, best_u, best_gamma, slope=1e-10)
    plain = loss_and_gradient(preds, u, 0.0)[0]
    return (math.exp(-best[1]), best[2]) if best[0] < plain else (1.0 / inverse_temperature, 0.0)


def _minimise(preds: Predictions, u: float, gamma: float, slope: float) -> tuple[float, float, float]:
    """The least loss near a start, and log β and γ there; the gradient is then below ``slope``."""

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss_and_gradient(preds, float(parameters[0]), float(parameters[1]))
        return value, np.array(gradient)

    bounds = [(-math.log(_TEMPERATURE_RANGE[1]), -math.log(_TEMPERATURE_RANGE[0])), GAMMA_RANGE]
    # T and γ make up for each other, so the valley is flat along its length: only the gradient tells when to stop.
    options = {"ftol": 0.0, "gtol": slope, "maxiter": 200}
    result = minimize(loss, np.array([u, gamma]), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(result.fun), float(result.x[0]), float(result.x[1])


def loss_and_gradient(preds: Predictions, u: float, gamma: float) -> tuple[float, tuple[float, float]]:
    """Mean NLL at β = exp(u) and γ, and its derivatives in u and γ, in float64."""
    total = torch.zeros(3, dtype=torch.float64)
    for block in preds.blocks(max(1, _BLOCK_NUMBERS // preds.num_classes)):
        terms = _block_terms(block, math.exp(u), gamma)
        total += terms.sum(1) if block.weights is None else terms @ block.weights
    nll, in_u, in_gamma = (total / (len(preds) if preds.weights is None else preds.weights.sum())).tolist()
    return nll, (in_u, in_gamma)


def _block_terms(block: Predictions, beta: float, gamma: float) -> Tensor:
    """(3, N): NLL of each sample and its derivatives in log β and γ."""
    logits = logits_of(block).double()
    # Beyond a gap of 700 a probability is 0 in float64; a masked class must be finite here.
    scaled = (beta * (logits - logits.amax(1, keepdim=True))).clamp(min=-700.0)
    nll = accurate_nll(scaled)
    log_posterior = inverse_logits(nll, gamma).log_softmax(1)
    targets = _targets(block)
    residual = log_posterior.exp() - targets
    nll_in_u = ((-nll).exp() * scaled).sum(1, keepdim=True) - scaled
    in_nll, in_gamma = _inverse_derivatives(nll, gamma)
    loss = -(log_posterior * targets).sum(1)
    return torch.stack([loss, (residual * in_nll * nll_in_u).sum(1), (residual * in_gamma).sum(1)])


def _inverse_derivatives(nll: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Derivatives of log h = −n − log g in n = −log q and in γ.

    log g = γ log(1 − q) + log(1 + γ r) with r = n / (eⁿ − 1), dr/dn = r (1/n − 1 − 1/(eⁿ − 1)).
    """
    n = nll.clamp(min=smallest_nll(gamma), max=700.0)
    e = torch.expm1(n)
    ratio = n / e
    slope = ratio * (1 / n - 1 - 1 / e)
    in_nll = -1 - gamma / e - gamma * slope / (1 + gamma * ratio)
    return in_nll, -torch.log(-torch.expm1(-n)) - ratio / (1 + gamma * ratio)


def _targets(block: Predictions) -> Tensor:
    if block.has_soft_labels:
        return block.labels
    return torch.nn.functional.one_hot(block.labels, block.num_classes).double()
