"""Vector and matrix scaling: a linear map of the logits in place of one temperature."""

from typing import ClassVar

from focalcal.calibrators.affine import AffineCalibrator
from focalcal.calibrators.affine_solver import Penalty


class VectorScaling(AffineCalibrator):
    """A factor and an offset for each class: softmax(a ∘ z + b), fitted by NLL plus a small penalty.

    The penalty is μ · Σ b_i² + ν · Σ (T a_i − 1)², T being the best single temperature: it draws towards temperature
    scaling, and gives the factor of a class that the validation data separate an optimum. 2K numbers are learned. The
    predicted class may change. A masked class (logit −inf) stays masked.

    Args:
        intercept_penalty: μ ≥ 0.
        diagonal_penalty: ν ≥ 0; with μ = ν = 0 it is vector scaling as published.

    Attributes:
        weight_: a, (K,) float64.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1, 1])
        >>> VectorScaling().fit(val).bias_.sign()
        tensor([-1.,  1.], dtype=torch.float64)
    """

    method: ClassVar[str] = "vector"
    diagonal: ClassVar[bool] = True

    def __init__(self, intercept_penalty: float = 0.001, diagonal_penalty: float = 0.01) -> None:
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty

    def _penalty(self) -> Penalty:
        return Penalty(intercept=self.intercept_penalty, diagonal=self.diagonal_penalty)


class MatrixScaling(AffineCalibrator):
    """A linear map of the logits: softmax(W z + b), fitted by NLL plus off-diagonal and intercept penalties.

    The penalty is λ · Σ_{i≠j} (T w_ij)² + μ · Σ b_i² (ODIR of Kull et al. 2019) + ν · Σ (T w_ii − 1)², T being the best
    single temperature: the scale of the logits does not matter, and a large penalty gives temperature scaling. K² + K
    numbers are learned, which overfits without a penalty unless there are many more samples. The predicted class may
    change.

    Args:
        off_diagonal_penalty: λ ≥ 0.
        intercept_penalty: μ ≥ 0.
        diagonal_penalty: ν ≥ 0.

    Attributes:
        weight_: W, (K, K) float64; row i makes the logit of class i.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1, 1])
        >>> MatrixScaling().fit(val).weight_.shape
        torch.Size([2, 2])
    """

    method: ClassVar[str] = "matrix"
    diagonal: ClassVar[bool] = False

    def __init__(
        self, off_diagonal_penalty: float = 0.1, intercept_penalty: float = 0.001, diagonal_penalty: float = 0.01
    ) -> None:
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty

    def _penalty(self) -> Penalty:
        return Penalty(self.off_diagonal_penalty, self.intercept_penalty, self.diagonal_penalty)
