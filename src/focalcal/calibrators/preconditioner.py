"""Coordinates in which the Hessian of a multinomial logistic regression is nearly the identity.

Logits are correlated, and most samples hardly count (p (1 − p) is small): in plain coordinates L-BFGS needs many times
as many steps. The Hessian's block of class k is Σ_n s_nk x̃_n x̃_nᵀ with s = w p (1 − p) and x̃ = (x, 1), plus the
penalty's diagonal; with C Cᵀ the block, θ_k = start_k + C⁻ᵀ φ_k and the solver works on φ.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Up to this many classes all blocks, K · (K + 1)² numbers, are formed; beyond, only their diagonals.
_MOST_CLASSES_WITH_BLOCKS = 128


@dataclass(frozen=True)
class Coordinates:
    """A change of variables φ -> θ, (K, D), and the matching one of gradients.

    Attributes:
        start: θ at φ = 0, (K, D).
        factor: C, (K, D, D) lower triangles; or (K, D), the roots of diagonals.
    """

    start: Tensor
    factor: Tensor

    @classmethod
    def of(
        cls, start: Tensor, samples: tuple[Tensor, Tensor], penalty_curvature: Tensor, diagonal: bool
    ) -> "Coordinates":
        """Coordinates for parameters that start at ``start``.

        Args:
            start: (K, D) float64.
            samples: inputs x and importances s, (n, K) each.
            penalty_curvature: (K, D).
            diagonal: whether class k sees only its own input.
        """
        inputs, importance = samples
        if not diagonal and len(start) > _MOST_CLASSES_WITH_BLOCKS:
            curvature = importance.T @ _with_one(inputs).square() + penalty_curvature
            return cls(start, _not_singular(curvature).sqrt())
        blocks = _scalar_blocks(inputs, importance) if diagonal else _vector_blocks(_with_one(inputs), importance)
        curvature = blocks.diagonal(dim1=1, dim2=2) + penalty_curvature
        blocks.diagonal(dim1=1, dim2=2).copy_(_not_singular(curvature))
        return cls(start, torch.linalg.cholesky(blocks))

    def parameters(self, flat: np.ndarray) -> Tensor:
        """θ at a flat φ."""
        phi = torch.from_numpy(flat).view(self.start.shape)
        if self.factor.ndim == 2:
            return self.start + phi / self.factor
        move: Tensor = torch.linalg.solve_triangular(self.factor.mT, phi[..., None], upper=True)
        return self.start + move[..., 0]

    def gradient(self, gradient: Tensor) -> np.ndarray:
        """The gradient in φ, flat, of one in θ."""
        if self.factor.ndim == 2:
            return (gradient / self.factor).flatten().numpy()
        turned: Tensor = torch.linalg.solve_triangular(self.factor, gradient[..., None], upper=False)
        return turned.flatten().numpy()


def _with_one(inputs: Tensor) -> Tensor:
    return torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1)


def _scalar_blocks(inputs: Tensor, importance: Tensor) -> Tensor:
    """(K, 2, 2): each class has its own input and a 1."""
    square, first, zeroth = ((importance * inputs**power).sum(0) for power in (2, 1, 0))
    return torch.stack([square, first, first, zeroth], dim=1).view(-1, 2, 2)


def _vector_blocks(extended: Tensor, importance: Tensor) -> Tensor:
    """(K, D, D): every class has all inputs and a 1."""
    return torch.stack([(extended * column[:, None]).T @ extended for column in importance.unbind(1)])


def _not_singular(curvature: Tensor) -> Tensor:
    """A little more on the diagonal, for classes that no sample is uncertain about."""
    return curvature * (1 + 1e-8) + 1e-6 * curvature.mean() + 1e-12
