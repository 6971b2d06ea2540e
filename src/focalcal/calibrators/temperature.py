"""Temperature scaling: one number that makes all confidences higher or lower."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import CalibrationWarning, LogitCalibrator
from focalcal.calibrators.ece_grid import fit_temperature_on_grid
from focalcal.calibrators.files import learned_number
from focalcal.calibrators.record import Quality, quality, quality_of
from focalcal.calibrators.scaled_scores import ScaledScores
from focalcal.metrics.binning import check_bins
from focalcal.metrics.temperature_search import TemperatureFit, fit_inverse_temperature, logits_of
from focalcal.predictions import Predictions

Objective = Literal["nll", "ece"]

# The paper's grid: the doubles i/10 from 0.1 to 10.
PAPER_GRID = tuple(i / 10 for i in range(1, 101))


class TemperatureScaling(LogitCalibrator):
    """Divide all logits by one temperature T > 0: softmax(z / T).

    T > 1 lowers every confidence, T < 1 raises it; the predicted class never changes. T minimises

    - ``objective="nll"``: the negative log-likelihood, by a safeguarded Newton iteration (no learning rate), or
    - ``objective="ece"``: the ECE over a grid; the first minimum on ties, as in the paper.

    Probabilities are taken as z = log p, where p = 0 counts as 1.2e-38.

    Args:
        objective: "nll" or "ece".
        grid: the temperatures to try for "ece"; None is the paper's 0.1, 0.2 ... 10.0.
        bins: the number of bins of the ECE.

    Attributes:
        temperature_: T. For "nll" between 1e-4 and 1e4; a :class:`CalibrationWarning` tells when it stopped there.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]], [0, 0, 0, 1])
        >>> scaler = TemperatureScaling().fit(val)
        >>> round(scaler.temperature_, 3)
        3.641
        >>> scaler.transform(val).probs()[0]
        tensor([0.7500, 0.2500], dtype=torch.float64)
    """

    method: ClassVar[str] = "temperature"
    keeps_argmax: ClassVar[bool] = True
    temperature_: float

    def __init__(self, objective: Objective = "nll", grid: Sequence[float] | None = None, bins: int = 15) -> None:
        self.objective = objective
        self.grid = grid
        self.bins = bins

    def _check_parameters(self) -> None:
        check_bins(self.bins)
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective must be 'nll' or 'ece', not {self.objective!r}.")
        if self.grid is not None and (len(self.grid) == 0 or not all(0 < t < math.inf for t in self.grid)):
            raise ValueError("grid must be at least one positive finite temperature, such as (0.5, 1.0, 2.0).")

    def _learn(self, preds: Predictions) -> None:
        if self.objective == "ece":
            self.temperature_ = fit_temperature_on_grid(preds, self._temperatures(), self.bins)
            return
        fit = fit_inverse_temperature(logits_of(preds), preds.labels, preds.weights)
        self.temperature_ = fit.temperature
        if fit.bound is not None:
            warn_at_bound(fit)

    def _temperatures(self) -> tuple[float, ...]:
        """The grid as plain numbers, whatever it was given as."""
        return PAPER_GRID if self.grid is None else tuple(float(t) for t in self.grid)

    def _quality(self, preds: Predictions) -> tuple[Quality, Quality]:
        # Several times faster than all statistics of two sets of predictions.
        scores = ScaledScores.of(preds)

        def scaled_by(temperature: float) -> Quality:
            confidence, nll = scores.confidence_and_nll(preds.labels, temperature)
            return quality_of(nll, confidence, scores.correct, preds.weights)

        return scaled_by(1.0) if preds.kind == "logits" else quality(preds), scaled_by(self.temperature_)

    def _module(self) -> nn.Module:
        return DividedLogits(self.temperature_)

    def _learned(self) -> dict[str, Any]:
        return {"temperature": self.temperature_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.temperature_ = learned_number(learned, "temperature", low=1e-12)


class DividedLogits(nn.Module):
    """Logits divided by a temperature."""

    temperature: Tensor

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits of any shape; half precision is raised to float32 inside."""
        inputs = logits if logits.dtype == torch.float64 else logits.float()
        return (inputs / self.temperature.to(inputs.dtype)).to(logits.dtype)


def warn_at_bound(fit: TemperatureFit) -> None:
    """Warn the caller of `fit` that there is no finite best temperature."""
    if fit.bound == "lower":
        reason = "the label (nearly) always has the largest logit, so the NLL falls for ever as T goes to 0"
    else:
        reason = "the logits do not speak for the labels, so the NLL falls for ever as T grows"
    advice = "check the labels and the validation data"
    warnings.warn(
        f"The temperature stopped at its {fit.bound} bound {fit.temperature:g}: {reason}; {advice}.",
        CalibrationWarning,
        stacklevel=4,
    )
