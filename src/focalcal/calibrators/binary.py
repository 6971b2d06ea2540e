"""Two classes: Platt, beta and quadratic calibration, logistic regressions on features of one score.

The score is s = z₁ − z₀, the logit of class 1 (or of being right, for a confidence). What is learned is a linear
function of a few features of s, so that whatever has a logit can be calibrated by the same regression.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from focalcal.calibrators.affine import warn_of_missing_classes
from focalcal.calibrators.base import (
    LogitCalibrator,
    LogitModule,
    NoInformationWarning,
    NoOptimumWarning,
    at_least_float32,
)
from focalcal.calibrators.calibrator_file import learned_number, learned_tensor
from focalcal.calibrators.solver import Regression
from focalcal.calibrators.uniform_mixture import UniformMixture, effective_samples, fit_uniform_mixture, has_zeros
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature

# Times 2/n, the ridge around temperature scaling: too small to matter, and enough for separable data to be bounded.
_STRENGTH = 0.01


def platt_features(score: Tensor) -> Tensor:
    """Return (N, 1): the logit itself."""
    return score[:, None]


def quadratic_features(score: Tensor) -> Tensor:
    """Return (N, 2): the logit and its square."""
    return torch.stack([score, score.square()], dim=1)


def beta_features(score: Tensor) -> Tensor:
    """Return (N, 2): log p and −log(1 − p)."""
    return torch.stack([logsigmoid(score), -logsigmoid(-score)], dim=1)


_FEATURES = {"platt": platt_features, "quadratic": quadratic_features, "beta": beta_features}
# The coefficients that give the logit back: where the ridge draws to.
_NEUTRAL = {"platt": (1.0,), "quadratic": (1.0, 0.0), "beta": (1.0, 1.0)}


def fit_score(name: str, score: Tensor, targets: Tensor, weights: Tensor | None, *, what: str) -> tuple[Tensor, Tensor]:
    """Fit σ(c · features(s) + b) to targets by NLL.

    Args:
        name: "platt", "quadratic" or "beta".
        score: s, (N,) float64, divided by the best temperature.
        targets: (N,) float64 between 0 and 1: the label, or its probability.
        weights: (N,), or None.
        what: The calibrator's name, for warnings.

    Returns:
        c, (F,), and b, a scalar; float64.
    """
    features = _FEATURES[name](score)
    # As softmax of two logits ∓ half the score's: the solver is that of many classes.
    half = torch.tensor([*_NEUTRAL[name], 0.0], dtype=torch.float64) / 2
    ridge = 2 * _STRENGTH * 2.0 / effective_samples(weights, len(score))
    labels = torch.stack([1 - targets, targets], dim=1)
    curvature = torch.full((2, len(half)), ridge, dtype=torch.float64)
    fitted = Regression(features, labels, weights, curvature, torch.stack([-half, half])).minimise(what)
    return fitted.scale[1] - fitted.scale[0], fitted.bias[1] - fitted.bias[0]


class ScoreCalibrator(LogitCalibrator):
    """A logistic regression on features of the logit s = z₁ − z₀ of two classes, divided by the best temperature.

    Attributes:
        coefficients_: c, (F,) float64, for the features of s divided by ``temperature_``.
        bias_: b, a float64 scalar.
        temperature_: T.
        mixture_: T and share of the mixture with the uniform distribution, where saved probabilities are exactly 0.
    """

    coefficients_: Tensor
    bias_: Tensor
    temperature_: float
    mixture_: UniformMixture | None = None

    @property
    @abstractmethod
    def _name(self) -> str: ...

    def _learn(self, preds: Predictions) -> None:
        self._check_two(preds)
        logits, self.mixture_, self.temperature_ = preds.logits(), None, 1.0
        if has_zeros(preds):
            self.mixture_ = fit_uniform_mixture(logits, preds.labels, preds.weights)
        else:
            self.temperature_ = _score_temperature(preds, type(self).__name__)
        score = scores(logits.double(), self.mixture_) / self.temperature_
        targets = preds.labels[:, 1] if preds.has_soft_labels else preds.labels.double()
        self.coefficients_, self.bias_ = fit_score(self._name, score, targets, preds.weights, what=type(self).__name__)
        warn_of_missing_classes(preds, type(self).__name__, stacklevel=4)

    def _check_two(self, preds: Predictions) -> None:
        if preds.num_classes != 2:
            raise ValueError(
                f"{type(self).__name__} is for two classes, and these predictions have {preds.num_classes}; use "
                "StructuredScaling."
            )
        if preds.kind == "logits" and bool(torch.isneginf(preds.values).any()):
            raise ValueError(
                f"{type(self).__name__} cannot take −inf: with one of two classes masked, nothing is left."
            )

    def _apply(self, preds: Predictions) -> Predictions:
        self._check_two(preds)
        return super()._apply(preds)

    def _module(self) -> nn.Module:
        return ScoreLogits(self._name, self.coefficients_, self.bias_, self.temperature_, self.mixture_)

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor] | None:
        if self._name != "platt" or self.mixture_ is not None:
            return None
        signs = torch.tensor([-0.5, 0.5], dtype=torch.float64)
        slope = self.coefficients_[0] / self.temperature_
        return slope * torch.outer(signs, 2 * signs), self.bias_ * signs

    def _description(self) -> str:
        numbers = ", ".join(f"{value:.3g}" for value in [*self.coefficients_.tolist(), float(self.bias_)])
        mixed = "" if self.mixture_ is None else f"; {self.mixture_.sentence()}"
        return f"{self.method} with T = {self.temperature_:.4g}, coefficients and offset {numbers}{mixed}"

    def _learned(self) -> dict[str, Any]:
        mixture = {} if self.mixture_ is None else {"mixture": self.mixture_.to_dict()}
        temperature = {"temperature": self.temperature_}
        return {"coefficients": self.coefficients_, "bias": self.bias_, **temperature, **mixture}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.coefficients_ = learned_tensor(learned, "coefficients", (len(_NEUTRAL[self._name]),))
        self.bias_ = learned_tensor(learned, "bias", ())
        self.temperature_ = learned_number(learned, "temperature", low=1e-12)
        self.mixture_ = UniformMixture.from_dict(learned.get("mixture") or {})


def _score_temperature(preds: Predictions, what: str) -> float:
    """Return the best temperature; where there is none, the size of the score, with a warning."""
    fit = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
    if fit.bound is None:
        return fit.temperature
    if fit.bound == "lower":
        warnings.warn(
            f"The label always has the larger logit, so {what} has no optimum and only a small penalty bounds it; "
            "check the labels, or use more validation data.",
            NoOptimumWarning,
            stacklevel=5,
        )
    else:
        warnings.warn(
            f"The logits say nothing about the labels, or the opposite of what they should: {what} learns how often "
            "each class occurs, or turns the predictions round; check the labels and the validation data.",
            NoInformationWarning,
            stacklevel=5,
        )
    return float(scores(preds.logits().double(), None).square().mean().sqrt()) or 1.0


def scores(logits: Tensor, mixture: UniformMixture | None) -> Tensor:
    """Return (N,) the logit of class 1 of logits (N, 2)."""
    inputs = logits if mixture is None else mixture.log_probs(logits)
    return inputs[:, 1] - inputs[:, 0]


class ScoreLogits(LogitModule):
    """Calibrated logits ∓ half of c · features(s / T) + b."""

    coefficients: Tensor
    bias: Tensor
    temperature: Tensor

    def __init__(
        self, name: str, coefficients: Tensor, bias: Tensor, temperature: float, mixture: UniformMixture | None
    ) -> None:
        super().__init__()
        self.name = name
        self.mixture = mixture
        self.register_buffer("coefficients", coefficients.clone())
        self.register_buffer("bias", bias.clone())
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, 2)."""
        inputs = at_least_float32(logits)
        score = scores(inputs, self.mixture) / self.temperature.to(inputs.dtype)
        features = _FEATURES[self.name](score)
        logit = features @ self.coefficients.to(inputs.dtype) + self.bias.to(inputs.dtype)
        return torch.stack([-logit, logit], dim=1).div(2).to(logits.dtype)


class PlattScaling(ScoreCalibrator):
    """σ(c s + b) on the logit s of two classes: logistic regression of the label on the score (Platt 1999).

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 0, 1, 0, 0, 0])
        >>> PlattScaling().fit(val).transform(val).probs()[0].round(decimals=2)
        tensor([0.1400, 0.8600], dtype=torch.float64)
    """

    method: ClassVar[str] = "platt"
    _name = "platt"


class BetaCalibration(ScoreCalibrator):
    """σ(c₁ log p − c₂ log(1 − p) + b) for the probability p of class 1: beta calibration (Kull et al. 2017).

    With c₁ ≠ c₂ the curve bends differently at its two ends. The coefficients are those of a plain logistic regression,
    not kept from being negative.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 0, 1, 0, 0, 1])
        >>> BetaCalibration().fit(val).coefficients_.shape
        torch.Size([2])
    """

    method: ClassVar[str] = "beta"
    _name = "beta"


class QuadraticScaling(ScoreCalibrator):
    """σ(c₁ s + c₂ s² + b) on the logit s of two classes.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 0, 1, 0, 0, 1])
        >>> QuadraticScaling().fit(val).coefficients_.shape
        torch.Size([2])
    """

    method: ClassVar[str] = "quadratic"
    _name = "quadratic"
