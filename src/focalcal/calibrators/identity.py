"""No calibration: what the others are compared with."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import Calibrator
from focalcal.predictions import Predictions


class Identity(Calibrator):
    """Leave predictions as they are; fit only records NLL and ECE.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> preds = Predictions.from_probs([[0.75, 0.25]], [0])
        >>> Identity().transform(preds) is preds
        True
    """

    method: ClassVar[str] = "identity"
    needs_fit: ClassVar[bool] = False
    keeps_argmax = True

    def _learn(self, preds: Predictions) -> None:
        """Learn nothing."""

    def _apply(self, preds: Predictions) -> Predictions:
        return preds

    def _module(self) -> nn.Module:
        return nn.Identity()

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor]:
        return torch.eye(classes, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)

    def _learned(self) -> dict[str, Any]:
        return {}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        """Restore nothing."""
