"""Two calibrators that know the focal loss: its exact inverse, and the inverse with a fitted γ and temperature.

The minimiser q of the focal loss is not the posterior p. With g(v, γ) the gradient factor of Proposition 1 and
h(v) = v / g(v, γ), the posterior is p_i = h(q_i) / Σ_j h(q_j) (Charoenphakdee et al. 2021). Temperature and γ are found
by NLL, with Newton's method from a few starts.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from focalcal.base.chunks import chunk_rows
from focalcal.calibrators.base import LogitCalibrator, LogitModule
from focalcal.calibrators.calibrator_file import learned_number
from focalcal.calibrators.temperature_scaling import warn_at_bound
from focalcal.gamma import factor_from_nll
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature

Array = npt.NDArray[np.float64]
GAMMA_RANGE = (-0.5, 5.0)
# Bounds of (log β, γ), with T between 1e-4 and 1e4.
_LOW = np.array([math.log(1e-4), GAMMA_RANGE[0]])
_HIGH = np.array([math.log(1e4), GAMMA_RANGE[1]])
# The loss is not convex in γ: each start finds the optimum near it.
_STARTS = (-0.3, 0.0, 1.0, 3.0)
# The starts are tried on at most this many rows, and the best is finished on all.
_SAMPLE_ROWS = 512
_BLOCK_NUMBERS = 2**16
_MOST_STEPS = 50


class FocalInverse(LogitCalibrator):
    """Turn what a network trained with the focal loss says, q, into the posterior: p_i ∝ q_i / g(q_i, γ).

    Exact for a network that has reached the minimum of the focal loss with this γ, which is under-confident; one that
    overfits is over-confident already, and :class:`FocalTemperatureScaling` fits both. Nothing is learned: fit only
    records NLL and ECE, and may be left out. The predicted class never changes.

    Args:
        gamma: The γ of the focal loss that the network was trained with, above −1; 0 changes nothing.

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
        """Learn nothing."""

    def _module(self) -> nn.Module:
        return InverseFocalLogits(1.0, float(self.gamma))

    def _learned(self) -> dict[str, Any]:
        return {}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        """Restore nothing."""


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


def accurate_nll(logits: Tensor) -> Tensor:
    """Compute −log softmax, (N, K), precise also at the largest logit, where log_softmax rounds to 0.

    Examples:
        >>> accurate_nll(torch.tensor([[100.0, 0.0]], dtype=torch.float64))
        tensor([[3.7201e-44, 1.0000e+02]], dtype=torch.float64)
    """
    top, prediction = logits.max(1, keepdim=True)
    gaps = logits - top
    others = gaps.exp().scatter(1, prediction, 0.0).sum(1, keepdim=True)
    return torch.log1p(others) - gaps


def inverse_logits(nll: Tensor, gamma: float) -> Tensor:
    """Compute logits log h(q) = log q − log g(q, γ) at q = exp(−nll), of its type; its softmax is the posterior.

    Examples:
        >>> q = torch.tensor([0.7743, 0.2257], dtype=torch.float64)  # what minimises the focal loss, γ = 1, at p = 0.9
        >>> inverse_logits(-q.log(), 1.0).softmax(0).round(decimals=3)
        tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    bounded = nll.clamp(min=smallest_nll(gamma, nll.dtype))
    return -bounded - factor_from_nll(bounded, gamma).log()


def smallest_nll(gamma: float, dtype: torch.dtype = torch.float64) -> float:
    """Return the NLL below which (1 − q)^γ leaves the range of its type; q is then 1 to any precision that matters."""
    return math.exp((-600.0 if dtype == torch.float64 else -80.0) / max(1.0, abs(gamma)))


def fit_temperature_and_gamma(preds: Predictions, inverse_temperature: float) -> tuple[float, float]:
    """Return T and γ with the least NLL of the focal inverse of softmax(z / T).

    Args:
        preds: N predictions; soft labels and weights count.
        inverse_temperature: The best β = 1/T without γ.

    Returns:
        T and γ; if no γ is better than none, (1/β, 0).
    """
    if preds.weights is not None:
        preds = preds.select(preds.weights > 0)
    plain = np.array([math.log(inverse_temperature), 0.0])
    sample = preds.select(torch.arange(0, len(preds), -(-len(preds) // _SAMPLE_ROWS)))
    tried = [_minimise(sample, np.array([plain[0], gamma]), tolerance=0.01) for gamma in _STARTS]
    loss, best = _minimise(preds, min(tried, key=lambda found: found[0])[1], tolerance=1e-5)
    best = best if loss < loss_and_gradient(preds, plain)[0] else plain
    return math.exp(-best[0]), float(best[1])


def _minimise(preds: Predictions, start: Array, tolerance: float) -> tuple[float, Array]:
    """Return the least loss near a start (log β, γ), and where it is.

    Newton's method within the bounds. T and γ make up for each other, so the loss is a long flat valley, in which
    methods that learn the curvature from their own steps stop too early.
    """
    point, (loss, gradient) = start, loss_and_gradient(preds, start)
    for _ in range(_MOST_STEPS):
        step = _newton_step(preds, point, gradient)
        if np.abs(step).max() < tolerance:
            break
        for share in 0.25 ** np.arange(8):
            trial = np.clip(point + share * step, _LOW, _HIGH)
            trial_loss, trial_gradient = loss_and_gradient(preds, trial)
            if trial_loss < loss:
                break
        else:
            break
        point, loss, gradient = trial, trial_loss, trial_gradient
    return loss, point


def _newton_step(preds: Predictions, point: Array, gradient: Array) -> Array:
    """Return a step downhill from ``point`` that stays within the bounds, at most 1 long in each coordinate."""
    # Differences towards the middle, so that they never leave the bounds.
    width = np.where(point > (_LOW + _HIGH) / 2, -1e-5, 1e-5)
    rows = [(loss_and_gradient(preds, point + np.eye(2)[i] * width[i])[1] - gradient) / width[i] for i in (0, 1)]
    free = ~((point <= _LOW) & (gradient > 0) | (point >= _HIGH) & (gradient < 0))
    values, vectors = np.linalg.eigh((np.array(rows) + np.array(rows).T)[np.ix_(free, free)] / 2)
    step = np.zeros(2)
    # With the absolute curvature the direction is downhill also where the loss is not convex.
    step[free] = -vectors @ (vectors.T @ gradient[free] / np.maximum(np.abs(values), 1e-9))
    target: Array = np.clip(point + step / max(1.0, np.abs(step).max()), _LOW, _HIGH)
    return target - point


def loss_and_gradient(preds: Predictions, point: Array) -> tuple[float, Array]:
    """Compute the mean NLL at (log β, γ), and its derivatives in both, in float64."""
    total = torch.zeros(3, dtype=torch.float64)
    for block in preds.blocks(chunk_rows(preds.num_classes, _BLOCK_NUMBERS)):
        terms = _block_terms(block, math.exp(point[0]), float(point[1]))
        total += terms.sum(1) if block.weights is None else terms @ block.weights
    mean = total / (len(preds) if preds.weights is None else preds.weights.sum())
    return float(mean[0]), mean[1:].numpy()


def _block_terms(block: Predictions, beta: float, gamma: float) -> Tensor:
    """Return (3, N): NLL of each sample and its derivatives in log β and γ."""
    logits = block.logits().double()
    # Beyond a gap of 700 a probability is 0 in float64; a masked class must be finite here.
    scaled = (beta * (logits - logits.amax(1, keepdim=True))).clamp(min=-700.0)
    nll = accurate_nll(scaled)
    log_posterior = inverse_logits(nll, gamma).log_softmax(1)
    targets = _targets(block)
    residual = log_posterior.exp() - targets
    nll_in_u = ((-nll).exp() * scaled).sum(1, keepdim=True) - scaled
    in_nll, in_gamma = _inverse_derivatives(nll, gamma)
    loss = -(log_posterior * targets).sum(1)
    return torch.stack([loss, (residual * in_nll * nll_in_u).sum(1), (residual * in_gamma).sum(1)])


def _inverse_derivatives(nll: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Compute derivatives of log h = −n − log g in n = −log q and in γ.

    log g = γ log(1 − q) + log(1 + γ r) with r = n / (eⁿ − 1), dr/dn = r (1/n − 1 − 1/(eⁿ − 1)).
    """
    n = nll.clamp(min=smallest_nll(gamma), max=700.0)
    e = torch.expm1(n)
    ratio = n / e
    slope = ratio * (1 / n - 1 - 1 / e)
    in_nll = -1 - gamma / e - gamma * slope / (1 + gamma * ratio)
    return in_nll, -torch.log(-torch.expm1(-n)) - ratio / (1 + gamma * ratio)


def _targets(block: Predictions) -> Tensor:
    if block.has_soft_labels:
        return block.labels
    return torch.nn.functional.one_hot(block.labels, block.num_classes).double()
