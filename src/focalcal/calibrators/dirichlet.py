"""Dirichlet calibration: matrix scaling of log-probabilities."""

from typing import ClassVar

from focalcal.calibrators.affine import AffineCalibrator
from focalcal.calibrators.affine_solver import Penalty


class DirichletCalibration(AffineCalibrator):
    """A linear map of the log-probabilities: softmax(W log p + b), by NLL plus ODIR penalties (Kull et al. 2019).

    It is what is right if the probability vectors of each class follow a Dirichlet distribution. Unlike matrix scaling
    it depends on the probabilities alone: a constant added to all logits of a sample changes nothing. The penalty is
    λ · Σ_{i≠j} (T w_ij)² + μ · Σ b_i² (ODIR) + ν · Σ (T w_ii − 1)², T being the best single temperature. The predicted
    class may change.

    Args:
        off_diagonal_penalty: λ ≥ 0.
        intercept_penalty: μ ≥ 0.
        diagonal_penalty: ν ≥ 0.

    Attributes:
        weight_: W, (K, K) float64; row i makes the logit of class i.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]], [0, 1, 1, 1])
        >>> DirichletCalibration().fit(val).transform(val).kind
        'logits'
    """

    method: ClassVar[str] = "dirichlet"
    diagonal: ClassVar[bool] = False
    of_log_probs: ClassVar[bool] = True

    def __init__(
        self, off_diagonal_penalty: float = 0.1, intercept_penalty: float = 0.001, diagonal_penalty: float = 0.01
    ) -> None:
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty

    def _penalty(self) -> Penalty:
        return Penalty(self.off_diagonal_penalty, self.intercept_penalty, self.diagonal_penalty)
