"""Structured scaling: temperature scaling, and as much vector or matrix scaling as the samples allow."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from focalcal.calibrators.affine import AffineCalibrator, scaled_ridge
from focalcal.calibrators.calibrator_file import learned_number
from focalcal.calibrators.cross_validation import (
    draw_folds,
    log_losses,
    mean_and_error,
    predict_held_out,
    without_weight_zero,
)
from focalcal.calibrators.solver import Ridge
from focalcal.predictions import Predictions

Kind = Literal["vector", "matrix"]

MOST_CLASSES_OF_A_MATRIX = 200
# The strengths that cross-validation tries, from the stiffest.
STRENGTHS = (4.0, 1.0, 0.25, 0.06)
_FOLDS = 5


class StructuredScaling(AffineCalibrator):
    """Structured scaling: softmax((I + diag(v) + M) u + b), with u the centred logits divided by the best temperature.

    Ridge penalties s·K/n on v and b and s·K(K − 1)/n on M (which is 0 on its diagonal, and left out for
    ``kind="vector"``) draw towards temperature scaling, n being the number of samples: few samples stay near it, many
    leave it (Berta et al. 2026). The scale of the logits does not matter, nor a constant added to all logits of a
    sample. The NLL of the fitting data is never above that of temperature scaling. The predicted class may change. A
    masked class (logit −inf) stays masked and says nothing about the others.

    Args:
        kind: "vector" learns v and b, 2K numbers; "matrix" M as well, for up to 200 classes.
        strength: s > 0; or "cv", which chooses among 4, 1, 0.25 and 0.06 by 5-fold cross-validation.

    Attributes:
        weight_: (I + diag(v) + M) / T, (K, K) float64; its diagonal, (K,), for "vector".
        bias_: b, (K,) float64, mean 0.
        strength_: s.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1, 1])
        >>> StructuredScaling("vector").fit(val).bias_.sign()
        tensor([-1.,  1.], dtype=torch.float64)
    """

    method: ClassVar[str] = "structured"
    centred: ClassVar[bool] = True
    takes_masked: ClassVar[bool] = True
    strength_: float

    def __init__(self, kind: Kind = "matrix", *, strength: float | Literal["cv"] = 1.0) -> None:
        self.kind = kind
        self.strength = strength

    @property
    def _diagonal(self) -> bool:
        return self.kind == "vector"

    def _check_parameters(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be 'vector' or 'matrix', not {self.kind!r}.")
        given = self.strength
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if given != "cv" and not (is_number and 0 < given < math.inf):
            raise ValueError(f"strength must be a number above 0 or 'cv', not {given!r}.")

    def _learn(self, preds: Predictions) -> None:
        if self.kind == "matrix" and preds.num_classes > MOST_CLASSES_OF_A_MATRIX:
            raise ValueError(
                f"A matrix of {preds.num_classes} classes has too many numbers to learn (the limit is "
                f"{MOST_CLASSES_OF_A_MATRIX} classes); use StructuredScaling('vector')."
            )
        self.strength_ = self._chosen_strength(preds)
        super()._learn(preds)

    def _chosen_strength(self, preds: Predictions) -> float:
        if self.strength != "cv":
            return float(self.strength)
        preds = without_weight_zero(preds)
        if len(preds) < 2 * _FOLDS:
            return 1.0
        folds = draw_folds(preds, _FOLDS, seed=0)

        def loss(strength: float) -> float:
            held_out = predict_held_out(lambda: StructuredScaling(self.kind, strength=strength), preds, folds)
            return mean_and_error(log_losses(held_out.log_probs, preds.labels), preds.weights)[0]

        return min(STRENGTHS, key=loss)

    def _ridge(self, classes: int, samples: float) -> Ridge:
        return scaled_ridge(classes, samples, self.strength_)

    def _description(self) -> str:
        return f"{super()._description()}, penalty strength {self.strength_:g}"

    def _learned(self) -> dict[str, Any]:
        return {**super()._learned(), "strength": self.strength_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        super()._restore(learned)
        self.strength_ = learned_number(learned, "strength", low=0.0)
