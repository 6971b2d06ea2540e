"""Two calibrators that know the focal loss: its exact inverse, and the inverse with a fitted γ and temperature.

The minimiser q of the focal loss is not the posterior p. With g(v, γ) the gradient factor of Proposition 1 and
h(v) = v / g(v, γ), the posterior is p_i = h(q_i) / Σ_j h(q_j) (Charoenphakdee et al. 2021).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import LogitCalibrator, LogitModule
from focalcal.calibrators.files import learned_number
from focalcal.calibrators.focal_solver import GAMMA_RANGE, accurate_nll, fit_temperature_and_gamma, inverse_logits
from focalcal.calibrators.temperature import warn_at_bound
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature


class FocalInverse(LogitCalibrator):
    """Turn what a network trained with the focal loss says, q, into the posterior: p_i ∝ q_i / g(q_i, γ).

    Exact for a network that has reached the minimum of the focal loss with this γ, which is under-confident; one that
    overfits is over-confident already, and :class:`FocalTemperatureScaling` fits both. Nothing is learned: fit only
    records NLL and ECE, and may be left out. The predicted class never changes.

    Args:
        gamma: the γ of the focal loss that the network was trained with, above −1; 0 changes nothing.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> q = Predictions.from_probs([[0.64706, 0.35294]], [0])  # what minimises the focal loss, γ = 3, at p = 0.9
        >>> FocalInverse(gamma=3.0).transform(q).probs().round(decimals=3)
        tensor([[0.9000, 0.1000]], dtype=torch.float64)
    """

    method: ClassVar[str] = "focal-inverse"
    needs_fit: ClassVar[bool] = False
    keeps_argmax = True

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def _check_parameters(self) -> None:
        if isinstance(self.gamma, bool) or not isinstance(self.gamma, int | float) or not -1 < self.gamma < math.inf:
            raise ValueError(f"gamma must be a number above −1, not {self.gamma!r}.")

    def _learn(self, preds: Predictions) -> None:
        """There is nothing to learn."""

    def _module(self) -> nn.Module:
        return InverseFocalLogits(1.0, float(self.gamma))

    def _learned(self) -> dict[str, Any]:
        return {}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        """There is nothing to restore."""


class FocalTemperatureScaling(LogitCalibrator):
    """Temperature scaling followed by the focal inverse: q = softmax(z / T), p_i ∝ q_i / g(q_i, γ).

    T and γ minimise the NLL, γ in [−0.5, 5] (Komisarenko & Kull 2024); γ = 0 is temperature scaling, so on the fitting
    data the NLL is never above that of :class:`TemperatureScaling`. The predicted class never changes.

    Attributes:
        temperature_: T.
        gamma_: γ.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[4.0, 0.0]] * 3 + [[1.0, 0.0]] * 4 + [[4.0, 0.0]], [0, 0, 0, 0, 0, 1, 1, 1])
        >>> scaler = FocalTemperatureScaling().fit(val)
        >>> scaler.record_.nll_after < scaler.record_.nll_before
        True
    """

    method: ClassVar[str] = "focal-temperature"
    keeps_argmax = True
    temperature_: float
    gamma_: float

    def _learn(self, preds: Predictions) -> None:
        plain = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
        self.temperature_, self.gamma_ = plain.temperature, 0.0
        if plain.bound is None:
            self.temperature_, self.gamma_ = fit_temperature_and_gamma(preds, plain.inverse_temperature)
        else:
            warn_at_bound(plain)

    def _module(self) -> nn.Module:
        return InverseFocalLogits(self.temperature_, self.gamma_)

    def _description(self) -> str:
        return f"focal inverse with γ = {self.gamma_:.3g} of logits divided by T = {self.temperature_:.4g}"

    def _learned(self) -> dict[str, Any]:
        return {"temperature": self.temperature_, "gamma": self.gamma_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.temperature_ = learned_number(learned, "temperature", low=1e-12)
        self.gamma_ = learned_number(learned, "gamma", *GAMMA_RANGE)


class InverseFocalLogits(LogitModule):
    """The focal inverse of softmax(z / T), as logits."""

    temperature: Tensor

    def __init__(self, temperature: float, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); powers of 1 − q go far below what float32 can hold."""
        nll = accurate_nll(logits.to(self.inner_type) / self.temperature.to(self.inner_type))
        return inverse_logits(nll, self.gamma).to(logits.dtype)
