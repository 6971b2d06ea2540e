"""Mixture with the uniform distribution, for saved probabilities that are exactly 0: p = (1 − ε) softmax(z / T) + ε/K.

The logarithm of a probability of 0 is whatever one decides to put there, and a temperature that has to make up for a
few true classes of probability 0 spoils all other samples. With a share ε for what the model never expects, T is again
about everything else. ε is the best one on the validation data, and at least 1/(n + 1).
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor

from focalcal.calibrators.base import NoInformationWarning, NoOptimumWarning
from focalcal.calibrators.calibrator_file import learned_number
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]

# Values of log(near/T) that are tried on a part of the samples, before the best of them is refined on all. Classifiers
# that multiply many probabilities, such as naive Bayes, need temperatures in the hundreds.
_GRID = np.concatenate([np.arange(-9.0, -4.0), np.linspace(-4.0, 4.0, 17)])
_GRID_ROWS = 2048
_LARGEST_SHARE = 0.9
# A loss that an end of the grid reaches within this has no optimum in between.
_FLAT = 1e-9


class UniformMixture(NamedTuple):
    """p = (1 − ε) softmax(z / T) + ε/K."""

    temperature: float
    share: float

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log p of logits (N, K); a masked class (−inf) stays masked, the others share ε."""
        probs = torch.softmax(logits / self.temperature, dim=1)
        possible = (logits > -torch.inf).to(logits.dtype)
        return torch.log((1 - self.share) * probs + self.share * possible / possible.sum(1, keepdim=True))

    def to_dict(self) -> dict[str, float]:
        """Return the entries of a calibrator's file."""
        return {"temperature": self.temperature, "uniform_share": self.share}

    @classmethod
    def from_dict(cls, learned: Mapping[str, Any]) -> "UniformMixture | None":
        """Read what `to_dict` gave; None if the file has no share."""
        if not learned.get("uniform_share"):
            return None
        share = learned_number(learned, "uniform_share", 0.0, 1.0)
        return cls(learned_number(learned, "temperature", low=1e-12), share)

    def sentence(self) -> str:
        """Say what it does and what it forbids."""
        return (
            f"some probabilities are exactly 0, so a share of {self.share:.2g} of the uniform distribution is mixed in "
            "(this cannot be folded into a linear layer)"
        )


def has_zeros(preds: Predictions) -> bool:
    """Tell whether saved probabilities are exactly 0 somewhere; logits of −inf are masks, and no zeros."""
    return preds.kind == "probs" and bool((preds.values == 0).any())


def effective_samples(weights: Tensor | None, count: int) -> float:
    """(Σ w)² / Σ w²: how many samples of equal weight say as much; ``count`` where there are no weights."""
    if weights is None:
        return float(count)
    scaled = weights.double() / weights.max()
    return float(scaled.sum() ** 2 / scaled.square().sum())


def fit_uniform_mixture(logits: Tensor, labels: Tensor, weights: Tensor | None, *, near: float = 1.0) -> UniformMixture:
    """Find T and ε with the least NLL: for each T the best ε, which is a convex problem in one number.

    Args:
        logits: z, (N, K), or log p; −inf marks a masked class, which is not the label of any sample.
        labels: (N,) int64, or (N, K) class probabilities.
        weights: (N,), or None.
        near: A temperature at most 8,000 times too small or 50 times too large; 1 does for log p.
    """
    smallest = 1.0 / (effective_samples(weights, len(logits)) + 1.0)
    stride = max(1, len(logits) // _GRID_ROWS)
    part = None if weights is None else weights[::stride]
    sample = _Labelled(logits[::stride].double(), labels[::stride], part)
    grid = _GRID - math.log(near)
    tried = [sample.best_share(float(u), smallest) for u in grid]
    losses = np.array([loss for loss, _ in tried])
    # Where T hardly matters, because the probabilities are 0 and 1, it stays near 1.
    as_good = np.flatnonzero(losses <= losses.min() + _FLAT)
    best = int(as_good[np.argmin(np.abs(_GRID[as_good]))])
    everything = sample if stride == 1 else _Labelled(logits, labels, weights)
    found = minimize_scalar(
        lambda u: everything.best_share(u, smallest)[0],
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]),
        method="bounded",
        options={"xatol": 1e-6},
    )
    if losses[0] <= losses.min() + _FLAT:
        _warn_at_the_end(is_sharp=False)
    # With mistakes, their share alone bounds the loss, whatever T is.
    elif losses[-1] <= losses.min() + _FLAT and tried[-1][1] == smallest:
        _warn_at_the_end(is_sharp=True)
    return UniformMixture(math.exp(-found.x), everything.best_share(found.x, smallest)[1])


def _warn_at_the_end(*, is_sharp: bool) -> None:
    if is_sharp:
        reason = "the label (nearly) always has the largest probability, so the NLL keeps falling as T goes to 0"
    else:
        reason = "the probabilities say nothing about the labels, so the NLL keeps falling as T grows"
    warnings.warn(
        f"The temperature stopped at the end of its range: {reason}; check the labels and the validation data.",
        NoOptimumWarning if is_sharp else NoInformationWarning,
        stacklevel=6,
    )


class _Labelled(NamedTuple):
    logits: Tensor
    labels: Tensor
    weights: Tensor | None

    def best_share(self, u: float, smallest: float) -> tuple[float, float]:
        """Return the least NLL at T = exp(−u), and its ε."""
        probs, uniform, shares = self._label_probs(u)

        def slope(share: float) -> float:
            return float(shares @ ((probs - uniform) / ((1 - share) * probs + share * uniform)))

        if slope(smallest) >= 0 or slope(_LARGEST_SHARE) <= 0:
            share = smallest if slope(smallest) >= 0 else _LARGEST_SHARE
        else:
            share = float(brentq(slope, smallest, _LARGEST_SHARE, xtol=1e-12))
        return -float(shares @ np.log((1 - share) * probs + share * uniform)), share

    def _label_probs(self, u: float) -> tuple[Array, Array, Array]:
        """Return the probability of each label, its uniform one, its share of the mean; several of each soft label."""
        log_probs = torch.log_softmax(self.logits.double() * math.exp(u), dim=1)
        uniform = 1.0 / (self.logits > -torch.inf).sum(1, keepdim=True).double()
        weights = torch.ones_like(uniform) if self.weights is None else (self.weights / self.weights.max())[:, None]
        if self.labels.ndim == 1:
            chosen, shares = log_probs.gather(1, self.labels[:, None]), weights
        else:
            chosen, shares = log_probs, self.labels * weights
        counted = (shares > 0).expand_as(chosen)
        shares = shares.expand_as(chosen)[counted] / shares.sum()
        return chosen[counted].exp().numpy(), uniform.expand_as(chosen)[counted].numpy(), shares.numpy()
