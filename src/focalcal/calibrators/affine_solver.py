"""Multinomial logistic regression for calibrators: v = A x + b by penalised NLL, with L-BFGS and exact gradients.

A is a diagonal (vector scaling) or a full matrix (matrix scaling, Dirichlet calibration). The problem is convex. The
inputs are divided by the best temperature first, so that the solver starts at A = 1, b = 0 and neither it nor the
penalty depends on the scale of the logits, which may be 1e-3 or 1e3.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from focalcal.calibrators.base import CalibrationWarning
from focalcal.calibrators.preconditioner import Coordinates
from focalcal.metrics.temperature_search import fit_inverse_temperature

# Numbers worked on at a time: 4 MB of float64.
_BLOCK_NUMBERS = 2**19
_MOST_ITERATIONS = 1000


class Affine(NamedTuple):
    """v = A x + b; ``scale`` is (K,), the diagonal of A, or (K, K); ``bias`` is (K,)."""

    scale: Tensor
    bias: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """A x + b for each row x of (N, K); a masked class (−inf) stays masked where A is a diagonal."""
        if self.scale.ndim == 2:
            return torch.addmm(self.bias, inputs, self.scale.T)
        return torch.where(inputs == -math.inf, inputs, inputs * self.scale + self.bias)


@dataclass(frozen=True)
class Penalty:
    """λ · Σ_{i≠j} a_ij² + μ · Σ b_i² + ν · Σ (a_ii − 1)², for inputs divided by the best temperature.

    The first two are the off-diagonal and intercept regularisation (ODIR) of Dirichlet calibration. The third draws
    towards temperature scaling: without it the factor of a class that the validation data separate has no optimum.
    """

    off_diagonal: float = 0.0
    intercept: float = 0.0
    diagonal: float = 0.0


def fit_affine(
    inputs: Tensor, labels: Tensor, weights: Tensor | None, penalty: Penalty, *, diagonal: bool, what: str
) -> Affine:
    """Minimise mean NLL of softmax(A x + b) plus the penalty.

    Args:
        inputs: x, (N, K); −inf (a masked class) only where A is a diagonal.
        labels: (N,) int64 or (N, K) class probabilities.
        weights: (N,), or None.
        penalty: on the off-diagonal of A (none if A is a diagonal) and on b.
        diagonal: whether A is a diagonal.
        what: the calibrator's name, for the warning when the solver stops early.

    Returns:
        A and b in float64. b has mean 0: a common constant changes no probability.
    """
    scale = _input_scale(inputs, labels, weights)
    objective = _Objective(inputs, labels, _normalised(weights, len(inputs)), penalty, scale, diagonal)
    coordinates = Coordinates.of(objective.start(), objective.samples(), objective.penalty_curvature(), diagonal)

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = objective(coordinates.parameters(flat))
        return loss, coordinates.gradient(gradient)

    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-7}
    origin = np.zeros(objective.start().numel())
    result = minimize(loss_and_gradient, origin, jac=True, method="L-BFGS-B", options=options)
    if result.nit >= _MOST_ITERATIONS:
        reason = "with so few samples a class some parameters have no finite optimum"
        warnings.warn(
            f"{what} did not converge in {_MOST_ITERATIONS} steps: {reason}; use more validation data or "
            "TemperatureScaling.",
            CalibrationWarning,
            stacklevel=4,
        )
    fitted = objective.affine(coordinates.parameters(result.x))
    return Affine(scale * fitted.scale, fitted.bias - fitted.bias.mean())


@dataclass(frozen=True)
class _Objective:
    """Penalised NLL and its gradient at θ: a row (a_k, b_k) a class if A is a diagonal, else the row of A and b_k."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor  # (N, 1) float64, sum 1
    penalty: Penalty
    scale: float
    diagonal: bool

    def start(self) -> Tensor:
        classes = self.inputs.shape[1]
        identity = torch.ones(classes, 1) if self.diagonal else torch.eye(classes)
        return torch.cat([identity, torch.zeros(classes, 1)], dim=1).double()

    def affine(self, theta: Tensor) -> Affine:
        return Affine(theta[:, 0] if self.diagonal else theta[:, :-1], theta[:, -1])

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        affine, change = self.affine(theta), theta - self.start()
        gradient = self.penalty_curvature() * change
        loss = 0.5 * float((gradient * change).sum())
        for block in self._blocks():
            inputs = self.inputs[block].double() * self.scale
            part, residual = _loss_and_residual(affine(inputs), self.labels[block], self.weights[block])
            inputs.masked_fill_(inputs == -math.inf, 0.0)
            if self.diagonal:
                gradient[:, 0] += (residual * inputs).sum(0)
            else:
                gradient[:, :-1] += residual.T @ inputs
            gradient[:, -1] += residual.sum(0)
            loss += part
        return loss, gradient

    def samples(self) -> tuple[Tensor, Tensor]:
        """Scaled inputs (n, K) without masks, and w p (1 − p) (n, K) at the start, for at most 8,192 samples."""
        stride = -(-len(self.inputs) // 8192)
        inputs = self.inputs[::stride].double() * self.scale
        probs = inputs.softmax(1)
        importance = probs * (1 - probs) * self.weights[::stride] * stride
        return inputs.masked_fill_(inputs == -math.inf, 0.0), importance

    def _blocks(self) -> list[slice]:
        rows = max(1, _BLOCK_NUMBERS // self.inputs.shape[1])
        return [slice(start, start + rows) for start in range(0, len(self.inputs), rows)]

    def penalty_curvature(self) -> Tensor:
        """(K, D): twice the penalty's factor of each parameter."""
        factors = torch.full_like(self.start(), self.penalty.off_diagonal)
        own = factors[:, 0] if self.diagonal else factors.diagonal()
        own.fill_(self.penalty.diagonal)
        factors[:, -1] = self.penalty.intercept
        return 2 * factors


def _loss_and_residual(logits: Tensor, labels: Tensor, weights: Tensor) -> tuple[float, Tensor]:
    """Weighted NLL of a block, and its gradient in the logits: weight · (softmax − label)."""
    log_probs = logits.log_softmax(1)
    residual = log_probs.exp().mul_(weights)
    if labels.ndim == 1:
        target = labels[:, None]
        loss = -float((log_probs.gather(1, target) * weights).sum())
        return loss, residual.scatter_add_(1, target, -weights)
    log_probs.masked_fill_(labels == 0, 0.0)
    return -float((log_probs * labels * weights).sum()), residual.sub_(labels * weights)


def _input_scale(inputs: Tensor, labels: Tensor, weights: Tensor | None) -> float:
    """The best inverse temperature; where there is none, one over the size of the inputs."""
    fit = fit_inverse_temperature(inputs, labels, weights)
    if fit.bound is None:
        return fit.inverse_temperature
    size = float(inputs.where(inputs.isfinite(), torch.zeros((), dtype=inputs.dtype)).double().square().mean().sqrt())
    return 1.0 / size if size > 0 else 1.0


def _normalised(weights: Tensor | None, count: int) -> Tensor:
    if weights is None:
        return torch.full((count, 1), 1.0 / count, dtype=torch.float64)
    return (weights.double() / weights.sum())[:, None]
