"""Mixtures of calibrated probabilities: ensemble temperature scaling, and the weights of any mixture by likelihood."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from focalcal.calibrators.base import LogitCalibrator, LogitModule
from focalcal.calibrators.calibrator_file import learned_number, learned_tensor
from focalcal.calibrators.temperature_scaling import DividedLogits, warn_at_bound
from focalcal.calibrators.uniform_mixture import fit_uniform_mixture, has_zeros
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature

Array = npt.NDArray[np.float64]


def fit_mixture_weights(log_probs: Array, shares: Array, pseudo_count: float = 0.0) -> Array:
    """Find the weights w of the mixture Σ_j w_j p_j with the greatest likelihood: a concave problem on the simplex.

    Args:
        log_probs: What each of m members gives to each of M labels, (M, m); no row is −inf everywhere.
        shares: Shares of the labels in the mean, (M,), sum 1.
        pseudo_count: Samples' worth of likelihood that every member has in advance, as a share of the whole; it keeps
            members from being thrown out on little evidence.

    Returns:
        w, (m,), at least 0, sum 1.

    Examples:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.4]])
        >>> fit_mixture_weights(np.log(probs), np.full(3, 1 / 3)).round(2)
        array([0.82, 0.18])
    """
    members = log_probs.shape[1]
    relative = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))

    def loss_and_gradient(weights: Array) -> tuple[float, Array]:
        mixed = relative @ weights
        loss = -float(shares @ np.log(mixed)) - pseudo_count * float(np.log(weights).sum())
        return loss, -relative.T @ (shares / mixed) - pseudo_count / weights

    found = minimize(
        loss_and_gradient,
        np.full(members, 1.0 / members),
        jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * members,
        constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones_like(w)}],
        options={"maxiter": 200, "ftol": 1e-12},
    )
    weights: Array = np.clip(found.x, 0.0, None) / np.clip(found.x, 0.0, None).sum()
    return weights


def label_log_probs(log_probs: Tensor, labels: Tensor) -> Array:
    """Pick (M,) log-probabilities of the labels from (N, K): one per sample, or one per class that a soft label has."""
    if labels.ndim == 1:
        return log_probs.gather(1, labels[:, None])[:, 0].numpy()
    return log_probs[labels > 0].numpy()


def label_shares(labels: Tensor, weights: Tensor | None) -> Array:
    """Return (M,) shares of the labels in the mean, in the order of `label_log_probs`."""
    counts = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights.double() / weights.max()
    if labels.ndim == 2:
        counts = (labels * counts[:, None])[labels > 0]
    return (counts / counts.sum()).numpy()


class MixedMembers(LogitModule):
    """Log-probabilities of a mixture: log Σ_j w_j softmax(f_j(z))."""

    weights: Tensor

    def __init__(self, weights: Sequence[float], members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weights", torch.tensor(list(weights), dtype=torch.float64))

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K); a masked class (−inf) stays masked."""
        inputs = logits.to(self.inner_type)
        total = sum(
            weight * member(inputs).softmax(1) for weight, member in zip(self.weights, self.members, strict=True)
        )
        return torch.log(total).to(logits.dtype)


class UniformLogits(LogitModule):
    """The uniform distribution over the classes that are not masked, whatever the logits are."""

    def calibrate(self, logits: Tensor) -> Tensor:
        """Return 0 for every class, −inf for a masked one."""
        return torch.where(logits == -torch.inf, logits, torch.zeros_like(logits))


class EnsembleTemperatureScaling(LogitCalibrator):
    """w₁ softmax(z / T) + w₂ softmax(z) + w₃ / K: temperature scaling, the model and the uniform distribution, mixed.

    T is that of temperature scaling, and the three weights have the greatest likelihood on the fitting data (Zhang et
    al. 2020). Where saved probabilities are exactly 0, T is fitted together with the uniform share. The predicted class
    never changes, and no probability is below w₃ / K.

    Attributes:
        temperature_: T.
        weights_: w, (3,) float64, sum 1.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])
        >>> EnsembleTemperatureScaling().fit(val).transform(val).probs()[0].round(decimals=3)
        tensor([0.7500, 0.2500], dtype=torch.float64)
    """

    method: ClassVar[str] = "ensemble-temperature"
    keeps_argmax = True
    temperature_: float
    weights_: Tensor

    def _learn(self, preds: Predictions) -> None:
        logits = preds.logits()
        self.temperature_ = self._best_temperature(preds)
        members = [member(logits.double()).log_softmax(1) for member in self._members()]
        log_probs = np.stack([label_log_probs(member, preds.labels) for member in members], axis=1)
        self.weights_ = torch.from_numpy(fit_mixture_weights(log_probs, label_shares(preds.labels, preds.weights)))

    def _best_temperature(self, preds: Predictions) -> float:
        if has_zeros(preds):
            return fit_uniform_mixture(preds.logits(), preds.labels, preds.weights).temperature
        fit = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
        if fit.bound is not None:
            warn_at_bound(fit, stacklevel=5)
        return fit.temperature

    def _members(self) -> list[nn.Module]:
        return [DividedLogits(self.temperature_), nn.Identity(), UniformLogits()]

    def _module(self) -> nn.Module:
        return MixedMembers(self.weights_.tolist(), self._members())

    def _description(self) -> str:
        shares = ", ".join(f"{weight:.3g}" for weight in self.weights_.tolist())
        return f"a mixture of T = {self.temperature_:.4g}, the model and the uniform distribution, weights {shares}"

    def _learned(self) -> dict[str, Any]:
        return {"temperature": self.temperature_, "weights": self.weights_}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.temperature_ = learned_number(learned, "temperature", low=1e-12)
        self.weights_ = learned_tensor(learned, "weights", (3,))
        if bool((self.weights_ < 0).any()) or abs(float(self.weights_.sum()) - 1) > 1e-6:
            raise ValueError("weights are not shares that sum to 1")
