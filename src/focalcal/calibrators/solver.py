"""Solver of penalised multinomial logistic regressions: v = A x + b by NLL plus a ridge, L-BFGS, exact gradients.

Every calibrator that learns more than two numbers comes here. A is a diagonal (vector scaling) or full (matrix scaling,
Dirichlet and structured calibration, and the two-class family, whose inputs are features of one score). The problem is
convex, everything is float64, and there is no learning rate and no random number. The solver starts at the centre of
the ridge, which is temperature scaling, and never goes up: no fit ends above the NLL of temperature scaling.

Logits are correlated, and most samples hardly count (p (1 − p) is small): in plain coordinates L-BFGS needs many times
as many steps. The Hessian's block of class k is Σ_n s_nk x̃_n x̃_nᵀ with s = w p (1 − p) and x̃ = (x, 1), plus the
ridge; with C Cᵀ the block, θ_k = centre_k + C⁻ᵀ φ_k and the solver works on φ. Where the ridge outweighs the data, a
diagonal C does as well and costs nothing.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from focalcal.base.chunks import IN_CACHE, chunks
from focalcal.calibrators.base import NoOptimumWarning

Array = npt.NDArray[np.float64]

_MOST_ITERATIONS = 1000
# Relative change of the loss, and largest slope in coordinates of curvature 1, at which the search ends: far below what
# a parameter's own standard error would be.
_TOLERANCE = {"ftol": 1e-9, "gtol": 1e-5}
# A large problem is searched in float32 first, which is several times faster, and finished in float64, where a step
# that gains less than this is not worth its time: the loss is within 1e-7 of the least.
_ROUGH_TOLERANCE = {"ftol": 1e-8, "gtol": 1e-4}
_LARGE_TOLERANCE = {"ftol": 1e-7, "gtol": 1e-5}
_LARGE = 2**22
# Up to this many classes the Hessian's blocks, K · (K + 1)² numbers, are worth forming.
_MOST_CLASSES_WITH_BLOCKS = 64
# Rows that the blocks are estimated from.
_CURVATURE_ROWS = 1024


class Affine(NamedTuple):
    """v = A x + b; ``scale`` is (K,), the diagonal of A, or (K, F); ``bias`` is (K,)."""

    scale: Tensor
    bias: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return A x + b for each row x of (N, F)."""
        if self.scale.ndim == 2:
            return torch.addmm(self.bias, inputs, self.scale.T)
        return torch.addcmul(self.bias, inputs, self.scale)


@dataclass(frozen=True)
class Ridge:
    """λ · Σ_{i≠j} a_ij² + μ · Σ b_i² + ν · Σ (a_ii − 1)², for inputs that were divided by the best temperature.

    The first two are the off-diagonal and intercept regularisation (ODIR) of Dirichlet calibration. The third draws
    towards temperature scaling: without it the factor of a class that the validation data separate has no optimum.
    """

    off_diagonal: float = 0.0
    intercept: float = 0.0
    diagonal: float = 0.0

    def curvature(self, classes: int, *, diagonal: bool) -> Tensor:
        """Return (K, 2) or (K, K + 1): twice the factor of each parameter, the intercept last."""
        factors = torch.full((classes, 2 if diagonal else classes + 1), self.off_diagonal, dtype=torch.float64)
        own = factors[:, 0] if diagonal else factors.diagonal()
        own.fill_(self.diagonal)
        factors[:, -1] = self.intercept
        return 2 * factors


@dataclass(frozen=True)
class Regression:
    """Mean NLL of softmax(A x + b) plus a ridge around a centre, as a function of θ = (A, b).

    Attributes:
        inputs: x, (N, F), finite.
        labels: (N,) int64 or (N, K) class probabilities.
        weights: (N,), or None.
        curvature: The ridge's second derivatives, (K, D): D = 2 where A is a diagonal, else F + 1; the intercept last.
        centre: θ where the ridge is 0 and the search starts, (K, D) float64.
        diagonal: A is a diagonal.
        masked: (N, K) bool, the classes that have probability 0 whatever θ is; None where there are none.
    """

    inputs: Tensor
    labels: Tensor
    weights: Tensor | None
    curvature: Tensor
    centre: Tensor
    diagonal: bool = False
    masked: Tensor | None = None

    @classmethod
    def around_identity(
        cls,
        inputs: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        ridge: Ridge,
        *,
        diagonal: bool,
        masked: Tensor | None = None,
    ) -> Self:
        """Return the regression whose ridge draws towards A = 1, b = 0: inputs divided by the best temperature."""
        classes = inputs.shape[1]
        identity = torch.ones(classes, 1) if diagonal else torch.eye(classes)
        centre = torch.cat([identity, torch.zeros(classes, 1)], dim=1).double()
        return cls(inputs, labels, weights, ridge.curvature(classes, diagonal=diagonal), centre, diagonal, masked)

    def minimise(self, what: str) -> Affine:
        """Return the best A and b, in float64; b has mean 0, because a common constant changes no probability.

        Args:
            what: The calibrator's name, for the warning when the search stops early.
        """
        coordinates = Coordinates.of(self)
        start, is_large = np.zeros(self.centre.numel()), self.inputs.numel() * self.centre.shape[1] > _LARGE
        if is_large:
            start, _ = self._search(coordinates, start, torch.float32, _ROUGH_TOLERANCE)
        found, steps = self._search(coordinates, start, torch.float64, _LARGE_TOLERANCE if is_large else _TOLERANCE)
        if steps >= _MOST_ITERATIONS:
            _warn_stopped_early(what)
        fitted = self.affine(coordinates.parameters(found))
        return Affine(fitted.scale, fitted.bias - fitted.bias.mean())

    def _search(
        self, coordinates: "Coordinates", start: Array, dtype: torch.dtype, tolerance: dict[str, float]
    ) -> tuple[Array, int]:
        """Return the end of L-BFGS, and the number of its steps."""

        def loss_and_gradient(flat: Array) -> tuple[float, Array]:
            loss, gradient = self.loss_and_gradient(coordinates.parameters(flat), dtype)
            return loss, coordinates.gradient(gradient)

        options = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "maxcor": 20, **tolerance}
        result = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        return result.x, result.nit

    def affine(self, theta: Tensor) -> Affine:
        """Return A and b at θ."""
        return Affine(theta[:, 0] if self.diagonal else theta[:, :-1], theta[:, -1])

    def loss_and_gradient(self, theta: Tensor, dtype: torch.dtype = torch.float64) -> tuple[float, Tensor]:
        """Compute the penalised loss and its gradient, (K, D) float64, in one pass over samples, each in ``dtype``."""
        affine, change = self.affine(theta.to(dtype)), theta - self.centre
        values, shares = self._inputs_and_shares(dtype)
        gradient = self.curvature * change
        loss = 0.5 * float((gradient * change).sum())
        for block in chunks(len(self.inputs), self.inputs.shape[1], IN_CACHE):
            inputs = values[block].to(dtype)
            logits = self._without_masked(affine(inputs), block)
            part, residual = _loss_and_residual(logits, self.labels[block], shares[block])
            if self.diagonal:
                gradient[:, 0] += (residual * inputs).sum(0)
            else:
                gradient[:, :-1] += residual.T @ inputs
            gradient[:, -1] += residual.sum(0)
            loss += part
        return loss, gradient

    def samples(self) -> tuple[Tensor, Tensor]:
        """Compute inputs (n, F) and w p (1 − p) (n, K) at the centre, of about a thousand samples."""
        rows = slice(None, None, -(-len(self.inputs) // _CURVATURE_ROWS))
        inputs = self.inputs[rows].double()
        probs = self._without_masked(self.affine(self.centre)(inputs), rows).softmax(1)
        return inputs, probs * (1 - probs) * self._shares[rows] * rows.step

    def _without_masked(self, logits: Tensor, rows: slice) -> Tensor:
        return logits if self.masked is None else logits.masked_fill_(self.masked[rows], -math.inf)

    def _inputs_and_shares(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return self._rough if dtype == torch.float32 else (self.inputs, self._shares)

    @cached_property
    def _rough(self) -> tuple[Tensor, Tensor]:
        return self.inputs.float(), self._shares.float()

    @cached_property
    def _shares(self) -> Tensor:
        """(N, 1) float64: the samples' shares of the mean."""
        count = len(self.inputs)
        if self.weights is None:
            return torch.full((count, 1), 1.0 / count, dtype=torch.float64)
        scaled = self.weights.double() / self.weights.max()
        return (scaled / scaled.sum())[:, None]


@dataclass(frozen=True)
class Coordinates:
    """A change of variables φ -> θ, (K, D), in which the Hessian is nearly the identity.

    Attributes:
        start: θ at φ = 0, (K, D).
        factor: C, (K, D, D) lower triangles; or (K, D), the roots of diagonals.
    """

    start: Tensor
    factor: Tensor

    @classmethod
    def of(cls, regression: Regression) -> "Coordinates":
        """Compute coordinates for the Hessian at the centre."""
        (inputs, importance), ridge = regression.samples(), regression.curvature
        if regression.diagonal:
            blocks = _scalar_blocks(inputs, importance)
        else:
            extended = torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1)
            data = importance.T @ extended.square()
            if len(ridge) > _MOST_CLASSES_WITH_BLOCKS or float(data.sum(1).mean()) < float(ridge.mean()):
                return cls(regression.centre, _not_singular(data + ridge).sqrt())
            blocks = torch.stack([(extended * column[:, None]).T @ extended for column in importance.unbind(1)])
        own = blocks.diagonal(dim1=1, dim2=2)
        own.copy_(_not_singular(own + ridge))
        return cls(regression.centre, torch.linalg.cholesky(blocks))

    def parameters(self, flat: Array) -> Tensor:
        """Return θ at a flat φ."""
        phi = torch.from_numpy(flat).view(self.start.shape)
        if self.factor.ndim == 2:
            return self.start + phi / self.factor
        move: Tensor = torch.linalg.solve_triangular(self.factor.mT, phi[..., None], upper=True)
        return self.start + move[..., 0]

    def gradient(self, gradient: Tensor) -> Array:
        """Return the gradient in φ, flat, of one in θ."""
        if self.factor.ndim == 2:
            return (gradient / self.factor).flatten().numpy()
        turned: Tensor = torch.linalg.solve_triangular(self.factor, gradient[..., None], upper=False)
        return turned.flatten().numpy()


def _scalar_blocks(inputs: Tensor, importance: Tensor) -> Tensor:
    """Return (K, 2, 2): each class has its own input and a 1."""
    square, first, zeroth = ((importance * inputs**power).sum(0) for power in (2, 1, 0))
    return torch.stack([square, first, first, zeroth], dim=1).view(-1, 2, 2)


def _not_singular(curvature: Tensor) -> Tensor:
    """Return a little more on the diagonal, for classes that no sample is uncertain about."""
    return curvature * (1 + 1e-8) + 1e-6 * curvature.mean() + 1e-12


def _loss_and_residual(logits: Tensor, labels: Tensor, shares: Tensor) -> tuple[float, Tensor]:
    """Compute the weighted NLL of a block, and its gradient in the logits: share · (softmax − label)."""
    log_probs = logits.log_softmax(1)
    residual = log_probs.exp().mul_(shares)
    if labels.ndim == 1:
        target = labels[:, None]
        loss = -float((log_probs.gather(1, target) * shares).sum())
        return loss, residual.scatter_add_(1, target, -shares)
    log_probs.masked_fill_(labels == 0, 0.0)
    return -float((log_probs * labels * shares).sum()), residual.sub_((labels * shares).to(residual.dtype))


def _warn_stopped_early(what: str) -> None:
    warnings.warn(
        f"{what} did not converge in {_MOST_ITERATIONS} steps: with so few samples per class some parameters have no "
        "finite optimum; use more validation data, a larger penalty or TemperatureScaling.",
        NoOptimumWarning,
        stacklevel=5,
    )
