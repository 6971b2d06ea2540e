"""Calibrators that map each class's probability by a curve of its own and divide by the sum."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import Calibrator
from focalcal.predictions import Predictions


class CurveModule(nn.Module):
    """Probabilities (N, K) mapped class by class; called with logits it gives logits (log-probabilities)."""

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    @abstractmethod
    def curves(self, probs: Tensor) -> Tensor:
        """The curve of each class at its probabilities, (N, K) float64 of at least 0, not yet normalised."""

    def probs(self, probs: Tensor) -> Tensor:
        """Calibrated probabilities (N, K) float64. A row that all curves map to 0 is left as it was."""
        mapped = self.curves(probs.double())
        total = mapped.sum(1, keepdim=True)
        calibrated = torch.where(total > 0, mapped / total, probs.double())
        return (1 - self.smoothing) * calibrated + self.smoothing / probs.shape[1]

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); a class that gets probability 0 has logit −inf."""
        return self.probs(logits.double().softmax(1)).log().to(logits.dtype)


class OneVsRestCalibrator(Calibrator):
    """A calibrator whose transform applies its module to probabilities, block by block."""

    smoothing: float

    def _check_parameters(self) -> None:
        if not isinstance(self.smoothing, int | float) or not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing must be a share between 0 and 1, not {self.smoothing!r}.")

    @abstractmethod
    def _module(self) -> CurveModule: ...

    def _apply(self, preds: Predictions) -> Predictions:
        module, values, start = self._module(), torch.empty_like(preds.values), 0
        for block in preds.blocks():
            values[start : start + len(block)] = module.probs(float64_probs(block))
            start += len(block)
        return preds.with_values(values, "probs")


def float64_probs(preds: Predictions) -> Tensor:
    """(N, K) float64 probabilities: the softmax of the logits in float64, or the probabilities as given."""
    return preds.values.double().softmax(1) if preds.kind == "logits" else preds.values.double()


def class_targets(preds: Predictions, index: int) -> Tensor:
    """(N,) float64: 1 where the label is class ``index`` and 0 elsewhere, or that class's share of soft labels."""
    return preds.labels[:, index] if preds.has_soft_labels else (preds.labels == index).double()
