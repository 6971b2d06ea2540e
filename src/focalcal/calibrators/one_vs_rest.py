"""Isotonic calibration and histogram binning: a curve for each class against the rest, then divided by the sum."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.affine import warn_of_missing_classes
from focalcal.calibrators.base import Calibrator, LogitModule
from focalcal.calibrators.calibrator_file import learned_number, learned_tensor
from focalcal.calibrators.uniform_mixture import effective_samples
from focalcal.metrics.binning import bin_index, check_bins, edges, sum_by_index
from focalcal.predictions import Predictions


class CurveModule(LogitModule):
    """Probabilities (N, K) mapped class by class; called with logits it gives logits (log-probabilities)."""

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    @abstractmethod
    def curves(self, probs: Tensor) -> Tensor:
        """Return the curve of each class at its probabilities, (N, K) of at least 0, not yet normalised."""

    def probs(self, probs: Tensor, possible: Tensor | None = None) -> Tensor:
        """Compute calibrated probabilities (N, K) of the inner type. A row that all curves map to 0 is left as it was.

        Args:
            probs: Probabilities (N, K).
            possible: (N, K), 0 for a masked class, which keeps the probability 0, and 1 for others; None if all are.
        """
        probs = probs.to(self.inner_type)
        possible = torch.ones_like(probs) if possible is None else possible.to(self.inner_type)
        mapped = self.curves(probs) * possible
        total = mapped.sum(1, keepdim=True)
        calibrated = torch.where(total > 0, mapped / total, probs)
        return (1 - self.smoothing) * calibrated + self.smoothing * possible / possible.sum(1, keepdim=True)

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); a class that gets probability 0 has logit −inf."""
        return self.probs(logits.to(self.inner_type).softmax(1), logits > -torch.inf).log().to(logits.dtype)


class OneVsRestCalibrator(Calibrator):
    """A calibrator whose transform applies its module to probabilities, block by block.

    Frequencies of validation data are exactly 0 or 1 somewhere, and the NLL of other data would be infinite: by default
    a share 1/(n + 1) of the uniform distribution is mixed into every row, n being the number of validation samples.

    Attributes:
        smoothing_: The share that is mixed in.
    """

    smoothing: float | None
    smoothing_: float

    def _check_parameters(self) -> None:
        share = self.smoothing
        if share is not None and (not isinstance(share, int | float) or not 0 <= share <= 1):
            raise ValueError(f"smoothing must be a share between 0 and 1, or None, not {share!r}.")

    def _learn(self, preds: Predictions) -> None:
        share = 1.0 / (effective_samples(preds.weights, len(preds)) + 1.0) if self.smoothing is None else self.smoothing
        self.smoothing_ = float(share)
        self._learn_curves(preds)
        done = "lowers their probabilities to 0 wherever it has samples, but for the smoothing"
        warn_of_missing_classes(preds, type(self).__name__, stacklevel=4, does=done)

    @abstractmethod
    def _learn_curves(self, preds: Predictions) -> None: ...

    @abstractmethod
    def _module(self) -> CurveModule: ...

    def _learned(self) -> dict[str, Any]:
        return {"smoothing": self.smoothing_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        # Files of before smoothing was learned have it among the parameters alone.
        stored = learned if "smoothing" in learned else {"smoothing": self.smoothing}
        self.smoothing_ = learned_number(stored, "smoothing", 0.0, 1.0)

    def _apply(self, preds: Predictions) -> Predictions:
        module, values, start = self._module(), torch.empty_like(preds.values), 0
        for block in preds.blocks():
            possible = block.values > -torch.inf if block.kind == "logits" else None
            values[start : start + len(block)] = module.probs(float64_probs(block), possible)
            start += len(block)
        return preds.with_values(values, "probs")


def float64_probs(preds: Predictions) -> Tensor:
    """Return (N, K) float64 probabilities: the softmax of the logits in float64, or the probabilities as given."""
    return preds.values.double().softmax(1) if preds.kind == "logits" else preds.values.double()


def class_targets(preds: Predictions, index: int) -> Tensor:
    """Return (N,) float64: 1 where the label is class ``index`` and 0 elsewhere, or its share of soft labels."""
    return preds.labels[:, index] if preds.has_soft_labels else (preds.labels == index).double()


class IsotonicCalibration(OneVsRestCalibrator):
    """For each class the best increasing curve from its probability to how often it is right, then divided by the sum.

    The curve is scikit-learn's isotonic regression (pool adjacent violators): piecewise linear, constant beyond the
    probabilities seen. A row that all curves map to 0 is left as it was. The predicted class may change.

    Args:
        smoothing: Share of the uniform distribution that is mixed into every row; None is 1/(n + 1). With 0, the NLL of
            other data may be infinite.

    Attributes:
        thresholds_: K tensors (m_k,) float64, increasing: where the pieces of each class's curve meet.
        curve_: K tensors (m_k,) float64, the curve there.
        smoothing_: The share that is mixed in.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.1, 0.3, 0.6, 0.9], [0, 1, 0, 1])
        >>> IsotonicCalibration(smoothing=0.0).fit(val).transform(val).values[:, 1].tolist()
        [0.0, 0.5, 0.5, 1.0]
    """

    method: ClassVar[str] = "isotonic"
    thresholds_: tuple[Tensor, ...]
    curve_: tuple[Tensor, ...]

    def __init__(self, *, smoothing: float | None = None) -> None:
        self.smoothing = smoothing

    def _learn_curves(self, preds: Predictions) -> None:
        probs = float64_probs(preds)
        curves = [_fit_curve(probs[:, k], class_targets(preds, k), preds.weights) for k in range(preds.num_classes)]
        self.thresholds_, self.curve_ = zip(*curves, strict=True)

    def _module(self) -> CurveModule:
        return PiecewiseLinear(self.thresholds_, self.curve_, self.smoothing_)

    def _learned(self) -> dict[str, Any]:
        return {**super()._learned(), "thresholds": list(self.thresholds_), "curve": list(self.curve_)}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        super()._restore(learned)
        self.thresholds_, self.curve_ = (self._restore_lists(learned[name], name) for name in ("thresholds", "curve"))
        for thresholds, curve in zip(self.thresholds_, self.curve_, strict=True):
            if thresholds.shape != curve.shape or bool((thresholds.diff() <= 0).any()) or bool((curve < 0).any()):
                raise ValueError("curve does not belong to the thresholds")

    def _restore_lists(self, lists: Any, name: str) -> tuple[Tensor, ...]:
        classes = 0 if self.record_ is None else self.record_.classes
        if not isinstance(lists, list) or len(lists) != classes or not all(isinstance(item, list) for item in lists):
            raise ValueError(f"{name} is not one list per class")
        return tuple(learned_tensor({name: item}, name, (max(1, len(item)),)) for item in lists)


class PiecewiseLinear(CurveModule):
    """A piecewise linear curve for each class, constant beyond its ends."""

    thresholds: Tensor
    values: Tensor

    def __init__(self, thresholds: tuple[Tensor, ...], values: tuple[Tensor, ...], smoothing: float) -> None:
        super().__init__(smoothing)
        # Rows of one length, by repeating each curve's last point at infinity.
        self.register_buffer("thresholds", _pad(thresholds, torch.inf))
        self.register_buffer("values", _pad(values, None))

    def curves(self, probs: Tensor) -> Tensor:
        """Return the curve of each class at its probabilities, (N, K)."""
        points = probs.T.contiguous()
        right = torch.searchsorted(self.thresholds, points).clamp(1, self.thresholds.shape[1] - 1)
        x0, x1 = self.thresholds.gather(1, right - 1), self.thresholds.gather(1, right)
        y0, y1 = self.values.gather(1, right - 1), self.values.gather(1, right)
        # Beyond the last threshold, and where two thresholds round to one number, the curve is the lower point's.
        inside = (x1 < torch.inf) & (x0 < x1)
        share = ((points - x0) / torch.where(inside, x1 - x0, 1.0)).clamp(0.0, 1.0)
        return torch.where(inside, torch.lerp(y0, y1, share), y0).T


def _pad(rows: tuple[Tensor, ...], end: float | None) -> Tensor:
    width = max(len(row) for row in rows) + 1
    last = [float(row[-1]) if end is None else end for row in rows]
    padded = [nn.functional.pad(row, (0, width - len(row)), value=v) for row, v in zip(rows, last, strict=True)]
    return torch.stack(padded)


def _fit_curve(probs: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    from sklearn.isotonic import IsotonicRegression  # importing scikit-learn takes a second

    regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    regression.fit(probs.numpy(), targets.numpy(), None if weights is None else weights.numpy())
    return torch.from_numpy(regression.X_thresholds_).double(), torch.from_numpy(regression.y_thresholds_).double()


class HistogramBinning(OneVsRestCalibrator):
    """For each class, bins of equal width; a probability becomes how often the class is right in its bin.

    Rows are then divided by their sum; a row of zeros is left as it was, and a bin that no validation sample fell into
    leaves a probability as it is. The predicted class may change.

    Args:
        bins: Number of bins, each (lower, upper].
        smoothing: Share of the uniform distribution that is mixed into every row; None is 1/(n + 1). With 0, the NLL of
            other data may be infinite.

    Attributes:
        frequency_: (K, bins) float64, NaN in empty bins.
        smoothing_: The share that is mixed in.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.1, 0.9, 0.8, 0.7], [0, 1, 1, 0])
        >>> HistogramBinning(bins=2).fit(val).transform(val).values[:, 1]
        tensor([0.1000, 0.6333, 0.6333, 0.6333], dtype=torch.float64)
    """

    method: ClassVar[str] = "histogram"
    frequency_: Tensor

    def __init__(self, bins: int = 15, *, smoothing: float | None = None) -> None:
        self.bins = bins
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bins(self.bins)

    def _learn_curves(self, preds: Predictions) -> None:
        probs = float64_probs(preds)
        weight = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        frequencies = []
        for k in range(preds.num_classes):
            index = bin_index(probs[:, k].contiguous(), self.bins)
            right = sum_by_index(index, self.bins, class_targets(preds, k) * weight)
            frequencies.append(right / sum_by_index(index, self.bins, weight))
        self.frequency_ = torch.stack(frequencies)

    def _module(self) -> CurveModule:
        return BinFrequencies(self.frequency_, self.smoothing_)

    def _learned(self) -> dict[str, Any]:
        return {**super()._learned(), "frequency": self.frequency_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        super()._restore(learned)
        classes = 0 if self.record_ is None else self.record_.classes
        self.frequency_ = learned_tensor(learned, "frequency", (classes, self.bins), gaps=True)
        if bool(((self.frequency_ < 0) | (self.frequency_ > 1)).any()):
            raise ValueError("frequency is outside [0, 1]")


class BinFrequencies(CurveModule):
    """A step function for each class over bins of equal width."""

    frequency: Tensor
    inner_edges: Tensor

    def __init__(self, frequency: Tensor, smoothing: float) -> None:
        super().__init__(smoothing)
        self.register_buffer("frequency", frequency.clone())
        self.register_buffer("inner_edges", edges(frequency.shape[1])[1:-1], persistent=False)

    def curves(self, probs: Tensor) -> Tensor:
        """Return the frequency of each probability's bin, (N, K)."""
        index = torch.bucketize(probs.contiguous(), self.inner_edges)
        found = self.frequency[torch.arange(len(self.frequency)), index]
        return torch.where(found.isnan(), probs, found)
