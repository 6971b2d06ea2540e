"""What vector, matrix and Dirichlet calibration have in common: v = A x + b, learned by penalised NLL."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.affine_solver import Affine, Penalty, fit_affine
from focalcal.calibrators.base import LogitCalibrator
from focalcal.calibrators.files import learned_tensor
from focalcal.metrics.temperature_search import logits_of
from focalcal.predictions import Predictions


class AffineCalibrator(LogitCalibrator):
    """A calibrator v = A x + b of logits, or of log-probabilities.

    Attributes:
        diagonal: whether A is a diagonal.
        of_log_probs: whether x is the log-softmax of the logits instead of the logits.
        weight_: A, (K, K) with row i for class i, or its diagonal (K,); float64.
        bias_: b, (K,) float64, mean 0.
    """

    diagonal: ClassVar[bool]
    of_log_probs: ClassVar[bool] = False
    weight_: Tensor
    bias_: Tensor

    @abstractmethod
    def _penalty(self) -> Penalty: ...

    def _check_parameters(self) -> None:
        for name, value in self.get_params().items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a number of at least 0, not {value!r}.")

    def _learn(self, preds: Predictions) -> None:
        self._refuse_masks(preds)
        inputs = logits_of(preds)
        self.weight_, self.bias_ = fit_affine(
            inputs.log_softmax(1) if self.of_log_probs else inputs,
            preds.labels,
            preds.weights,
            self._penalty(),
            diagonal=self.diagonal,
            what=type(self).__name__,
        )

    def _apply(self, preds: Predictions) -> Predictions:
        self._refuse_masks(preds)
        return super()._apply(preds)

    def _refuse_masks(self, preds: Predictions) -> None:
        if not self.diagonal and preds.kind == "logits" and bool(torch.isneginf(preds.values).any()):
            raise ValueError(
                f"{type(self).__name__} mixes the logits of all classes and cannot take −inf (a masked class); use "
                "TemperatureScaling or VectorScaling."
            )

    def _module(self) -> nn.Module:
        return AffineLogits(Affine(self.weight_, self.bias_), self.of_log_probs)

    def _learned(self) -> dict[str, Any]:
        return {"weight": self.weight_, "bias": self.bias_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        classes = 0 if self.record_ is None else self.record_.classes
        self.weight_ = learned_tensor(learned, "weight", (classes,) if self.diagonal else (classes, classes))
        self.bias_ = learned_tensor(learned, "bias", (classes,))


class AffineLogits(nn.Module):
    """A x + b of logits (N, K), or of their log-softmax."""

    weight: Tensor
    bias: Tensor

    def __init__(self, affine: Affine, of_log_probs: bool) -> None:
        super().__init__()
        self.of_log_probs = of_log_probs
        self.register_buffer("weight", affine.scale.clone())
        self.register_buffer("bias", affine.bias.clone())

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); half precision is raised to float32 inside."""
        inputs = logits if logits.dtype == torch.float64 else logits.float()
        affine = Affine(self.weight.to(inputs.dtype), self.bias.to(inputs.dtype))
        return affine(inputs.log_softmax(1) if self.of_log_probs else inputs).to(logits.dtype)
