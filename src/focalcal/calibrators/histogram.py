"""Histogram binning, one class against the rest."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from focalcal.calibrators.files import learned_tensor
from focalcal.calibrators.one_vs_rest import CurveModule, OneVsRestCalibrator, class_targets, float64_probs
from focalcal.metrics.binning import bin_index, check_bins, sum_by_index
from focalcal.predictions import Predictions


class HistogramBinning(OneVsRestCalibrator):
    """For each class, bins of equal width; a probability becomes how often the class is right in its bin.

    Rows are then divided by their sum; a row of zeros is left as it was, and a bin that no validation sample fell into
    leaves a probability as it is. The predicted class may change, and a probability may become exactly 0, so that the
    NLL of other data may be infinite unless ``smoothing`` is above 0.

    Args:
        bins: the number of bins, each (lower, upper].
        smoothing: the share of the uniform distribution that is mixed into every row.

    Attributes:
        frequency_: (K, bins) float64, NaN in empty bins.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.1, 0.9, 0.8, 0.7], [0, 1, 1, 0])
        >>> HistogramBinning(bins=2).fit(val).transform(val).values[:, 1]
        tensor([0.0000, 0.6667, 0.6667, 0.6667], dtype=torch.float64)
    """

    method: ClassVar[str] = "histogram"
    frequency_: Tensor

    def __init__(self, bins: int = 15, smoothing: float = 0.0) -> None:
        self.bins = bins
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bins(self.bins)

    def _learn(self, preds: Predictions) -> None:
        probs = float64_probs(preds)
        weight = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        frequencies = []
        for k in range(preds.num_classes):
            index = bin_index(probs[:, k].contiguous(), self.bins)
            right = sum_by_index(index, self.bins, class_targets(preds, k) * weight)
            frequencies.append(right / sum_by_index(index, self.bins, weight))
        self.frequency_ = torch.stack(frequencies)

    def _module(self) -> CurveModule:
        return BinFrequencies(self.frequency_, self.smoothing)

    def _learned(self) -> dict[str, Any]:
        return {"frequency": self.frequency_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        classes = 0 if self.record_ is None else self.record_.classes
        self.frequency_ = learned_tensor(learned, "frequency", (classes, self.bins), gaps=True)
        if bool(((self.frequency_ < 0) | (self.frequency_ > 1)).any()):
            raise ValueError("frequency is outside [0, 1]")


class BinFrequencies(CurveModule):
    """A step function for each class over bins of equal width."""

    frequency: Tensor

    def __init__(self, frequency: Tensor, smoothing: float) -> None:
        super().__init__(smoothing)
        self.register_buffer("frequency", frequency.clone())

    def curves(self, probs: Tensor) -> Tensor:
        """The frequency of each probability's bin, (N, K)."""
        classes, bins = self.frequency.shape
        index = bin_index(probs.contiguous(), bins)
        found = self.frequency[torch.arange(classes), index]
        return torch.where(found.isnan(), probs, found)
