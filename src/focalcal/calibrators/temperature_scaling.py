"""Temperature scaling: one number that makes all confidences higher or lower."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import (
    LogitCalibrator,
    LogitModule,
    NoInformationWarning,
    NoOptimumWarning,
    at_least_float32,
)
from focalcal.calibrators.calibrator_file import learned_number
from focalcal.calibrators.ece_grid import ScaledScores, fit_temperature_on_grid
from focalcal.calibrators.record import Quality, quality, quality_of
from focalcal.calibrators.uniform_mixture import UniformMixture, fit_uniform_mixture, has_zeros
from focalcal.metrics.binning import check_bins
from focalcal.predictions import Predictions
from focalcal.temperature import TemperatureFit, fit_inverse_temperature

Objective = Literal["nll", "ece"]

# The paper's grid: the doubles i/10 from 0.1 to 10.
PAPER_GRID = tuple(i / 10 for i in range(1, 101))


class TemperatureScaling(LogitCalibrator):
    """Divide all logits by one temperature T > 0: softmax(z / T).

    T > 1 lowers every confidence, T < 1 raises it; the predicted class never changes. T minimises

    - ``objective="nll"``: the negative log-likelihood, by a safeguarded Newton iteration (no learning rate), or
    - ``objective="ece"``: the ECE over a grid; the first minimum on ties, as in the paper.

    Probabilities are taken as z = log p, where p = 0 counts as 1.2e-38. Where saved probabilities are exactly 0, the
    NLL fits a mixture with the uniform distribution, (1 − ε) softmax(z / T) + ε/K; see ``mix_uniform``.

    Args:
        objective: "nll" or "ece".
        grid: Temperatures to try for "ece"; None is the paper's 0.1, 0.2 ... 10.0.
        bins: Number of bins of the ECE.
        mix_uniform: Fit ε with T, for "nll": always, never, or (None) where saved probabilities are exactly 0.

    Attributes:
        temperature_: T. For "nll" between 1e-4 and 1e4; a :class:`CalibrationWarning` tells when it stopped there.
        uniform_share_: ε; 0 where nothing is mixed in.

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
    keeps_argmax = True
    temperature_: float
    uniform_share_: float = 0.0

    def __init__(
        self,
        objective: Objective = "nll",
        *,
        grid: Sequence[float] | None = None,
        bins: int = 15,
        mix_uniform: bool | None = None,
    ) -> None:
        self.objective = objective
        self.grid = grid
        self.bins = bins
        self.mix_uniform = mix_uniform

    def _check_parameters(self) -> None:
        check_bins(self.bins)
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective must be 'nll' or 'ece', not {self.objective!r}.")
        if self.grid is not None and (len(self.grid) == 0 or not all(0 < t < math.inf for t in self.grid)):
            raise ValueError("grid must be at least one positive finite temperature, such as (0.5, 1.0, 2.0).")

        if self.mix_uniform not in (None, True, False):
            raise ValueError(f"mix_uniform must be True, False or None, not {self.mix_uniform!r}.")
        if self.mix_uniform and self.objective == "ece":
            raise ValueError("mix_uniform is fitted by NLL; leave it out with objective='ece'.")

    def _learn(self, preds: Predictions) -> None:
        self.uniform_share_ = 0.0
        if self.objective == "ece":
            self.temperature_ = fit_temperature_on_grid(preds, self._temperatures(), self.bins)
            return
        zeros = has_zeros(preds)
        if zeros if self.mix_uniform is None else self.mix_uniform:
            # Zeros would spoil the plain temperature, and log p has a scale of its own.
            near = 1.0 if zeros else self._plain(preds)
            mixture = fit_uniform_mixture(preds.logits(), preds.labels, preds.weights, near=near)
            self.temperature_, self.uniform_share_ = mixture.temperature, mixture.share
        else:
            self.temperature_ = self._plain(preds)

    def _plain(self, preds: Predictions) -> float:
        fit = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
        if fit.bound is not None:
            warn_at_bound(fit, stacklevel=5)
        return fit.temperature

    def _temperatures(self) -> tuple[float, ...]:
        """Return the grid as plain numbers, whatever it was given as."""
        return PAPER_GRID if self.grid is None else tuple(float(t) for t in self.grid)

    def _quality(self, preds: Predictions) -> tuple[Quality, Quality]:
        if self.uniform_share_:
            return super()._quality(preds)
        # Several times faster than all statistics of two sets of predictions.
        scores = ScaledScores.of(preds)

        def scaled_by(temperature: float) -> Quality:
            confidence, nll = scores.confidence_and_nll(preds.labels, temperature)
            return quality_of(nll, confidence, scores.correct, preds.weights)

        return scaled_by(1.0) if preds.kind == "logits" else quality(preds), scaled_by(self.temperature_)

    def _module(self) -> nn.Module:
        if self.uniform_share_:
            return MixedLogits(UniformMixture(self.temperature_, self.uniform_share_))
        return DividedLogits(self.temperature_)

    @property
    def _why_not_linear(self) -> str:
        return "mixes in the uniform distribution" if self.uniform_share_ else super()._why_not_linear

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor] | None:
        if self.uniform_share_:
            return None
        identity = torch.eye(classes, dtype=torch.float64)
        return identity / self.temperature_, torch.zeros(classes, dtype=torch.float64)

    def _description(self) -> str:
        divided = f"all logits are divided by T = {self.temperature_:.4g}"
        if not self.uniform_share_:
            return divided
        return f"{divided}; {UniformMixture(self.temperature_, self.uniform_share_).sentence()}"

    def _learned(self) -> dict[str, Any]:
        share = {"uniform_share": self.uniform_share_} if self.uniform_share_ else {}
        return {"temperature": self.temperature_, **share}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.temperature_ = learned_number(learned, "temperature", low=1e-12)
        mixture = UniformMixture.from_dict(learned)
        self.uniform_share_ = 0.0 if mixture is None else mixture.share


class DividedLogits(LogitModule):
    """Logits divided by a temperature."""

    temperature: Tensor

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))

    def calibrate(self, logits: Tensor) -> Tensor:
        """Divide logits (N, K) by the temperature."""
        inputs = at_least_float32(logits)
        return (inputs / self.temperature.to(inputs.dtype)).to(logits.dtype)


class MixedLogits(LogitModule):
    """Log-probabilities of a mixture with the uniform distribution."""

    def __init__(self, mixture: UniformMixture) -> None:
        super().__init__()
        self.mixture = mixture

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); a masked class (−inf) gets a share, too."""
        return self.mixture.log_probs(at_least_float32(logits)).to(logits.dtype)


def warn_at_bound(fit: TemperatureFit, stacklevel: int = 4) -> None:
    """Warn the caller of `fit` that there is no finite best temperature."""
    if fit.bound == "lower":
        reason = "the label (nearly) always has the largest logit, so the NLL keeps falling as T goes to 0"
    else:
        reason = "the logits say nothing about the labels, so the NLL keeps falling as T grows"
    advice = "check the labels and the validation data"
    warnings.warn(
        f"The temperature stopped at its {fit.bound} bound {fit.temperature:g}: {reason}; {advice}.",
        NoOptimumWarning if fit.bound == "lower" else NoInformationWarning,
        stacklevel=stacklevel,
    )
