"""Isotonic calibration, one class against the rest."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.files import learned_tensor
from focalcal.calibrators.one_vs_rest import CurveModule, OneVsRestCalibrator, class_targets, float64_probs
from focalcal.predictions import Predictions


class IsotonicCalibration(OneVsRestCalibrator):
    """For each class the best increasing curve from its probability to how often it is right, then divided by the sum.

    The curve is scikit-learn's isotonic regression (pool adjacent violators): piecewise linear, constant beyond the
    probabilities seen. A row that all curves map to 0 is left as it was. The predicted class may change, and a
    probability may become exactly 0, so that the NLL of other data may be infinite unless ``smoothing`` is above 0.

    Args:
        smoothing: the share of the uniform distribution that is mixed into every row.

    Attributes:
        thresholds_: K tensors (m_k,) float64, increasing: where the pieces of each class's curve meet.
        curve_: K tensors (m_k,) float64, the curve there.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.1, 0.3, 0.6, 0.9], [0, 1, 0, 1])
        >>> IsotonicCalibration().fit(val).transform(val).values[:, 1].tolist()
        [0.0, 0.5, 0.5, 1.0]
    """

    method: ClassVar[str] = "isotonic"
    thresholds_: tuple[Tensor, ...]
    curve_: tuple[Tensor, ...]

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def _learn(self, preds: Predictions) -> None:
        probs = float64_probs(preds)
        curves = [_fit_curve(probs[:, k], class_targets(preds, k), preds.weights) for k in range(preds.num_classes)]
        self.thresholds_, self.curve_ = zip(*curves, strict=True)

    def _module(self) -> CurveModule:
        return PiecewiseLinear(self.thresholds_, self.curve_, self.smoothing)

    def _learned(self) -> dict[str, Any]:
        return {"thresholds": list(self.thresholds_), "curve": list(self.curve_)}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.thresholds_, self.curve_ = (self._restored(learned[name], name) for name in ("thresholds", "curve"))
        for thresholds, curve in zip(self.thresholds_, self.curve_, strict=True):
            if thresholds.shape != curve.shape or bool((thresholds.diff() <= 0).any()) or bool((curve < 0).any()):
                raise ValueError("curve does not belong to the thresholds")

    def _restored(self, lists: Any, name: str) -> tuple[Tensor, ...]:
        classes = 0 if self.record_ is None else self.record_.classes
        if not isinstance(lists, list) or len(lists) != classes or not all(isinstance(item, list) for item in lists):
            raise ValueError(f"{name} is not one list a class")
        return tuple(learned_tensor({name: item}, name, (max(1, len(item)),)) for item in lists)


class PiecewiseLinear(CurveModule):
    """A piecewise linear curve for each class, constant beyond its ends."""

    thresholds: Tensor
    values: Tensor

    def __init__(self, thresholds: tuple[Tensor, ...], values: tuple[Tensor, ...], smoothing: float) -> None:
        super().__init__(smoothing)
        # Rows of one length, by repeating each curve's last point at infinity.
        self.register_buffer("thresholds", _padded(thresholds, torch.inf))
        self.register_buffer("values", _padded(values, None))

    def curves(self, probs: Tensor) -> Tensor:
        """The curve of each class at its probabilities, (N, K)."""
        points = probs.T.contiguous()
        right = torch.searchsorted(self.thresholds, points).clamp(1, self.thresholds.shape[1] - 1)
        x0, x1 = self.thresholds.gather(1, right - 1), self.thresholds.gather(1, right)
        y0, y1 = self.values.gather(1, right - 1), self.values.gather(1, right)
        share = ((points - x0) / (x1 - x0)).clamp(0.0, 1.0)
        return torch.where(x1 == torch.inf, y0, torch.lerp(y0, y1, share)).T


def _padded(rows: tuple[Tensor, ...], end: float | None) -> Tensor:
    width = max(len(row) for row in rows) + 1
    last = [float(row[-1]) if end is None else end for row in rows]
    padded = [nn.functional.pad(row, (0, width - len(row)), value=v) for row, v in zip(rows, last, strict=True)]
    return torch.stack(padded)


def _fit_curve(probs: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    from sklearn.isotonic import IsotonicRegression  # importing scikit-learn takes a second

    regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    regression.fit(probs.numpy(), targets.numpy(), None if weights is None else weights.numpy())
    return torch.from_numpy(regression.X_thresholds_).double(), torch.from_numpy(regression.y_thresholds_).double()
