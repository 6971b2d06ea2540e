"""Theory of γ: the gradient factor g(p, γ), its threshold γ*(p0), and the policies that choose γ in training.

Everything is written in the negative log-probability u = −log p, because that is what a network computes and because
both ends are exact in it: p = 1 is u = 0, p = 0 is u = +inf, and 1 − p is −expm1(−u) without cancellation.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

ArrayLike = TypeVar("ArrayLike", float, np.ndarray, Tensor)
# What a loss computes γ for: arrays where the values are few and a call of PyTorch costs more than the arithmetic.
Values = TypeVar("Values", np.ndarray, Tensor)

# Newton's iteration for γ* halves its distance at worst (p0 near 0.5), then converges quadratically.
_NEWTON_STEPS = 64
# Of an interval at most 800 wide, down to the last bit of a float64.
_BISECTIONS = 64
# Looked up at every call of a loss, where asking numpy.finfo would be half of the cost.
_LIMITS: dict[Any, torch.finfo] = {dtype: torch.finfo(dtype) for dtype in (torch.float32, torch.float64)}
_LIMITS |= {np.dtype(np.float32): _LIMITS[torch.float32], np.dtype(np.float64): _LIMITS[torch.float64]}
_NEEDS_EPOCH = "An epoch schedule of γ needs an epoch: call set_epoch on the loss, or at_epoch(e) on the schedule."


def _library(values: np.ndarray | Tensor) -> Any:
    """Return torch or numpy, whichever computes with these values."""
    return torch if isinstance(values, Tensor) else np


def focal_power(nll: Values, gamma: float | Values) -> Values:
    """Compute (1 − p)^γ at p = exp(−nll), with 0^0 = 1."""
    return cast(Values, (-_library(nll).expm1(-nll)) ** gamma)


def power_and_factor(nll: Values, gamma: float | Values) -> tuple[Values, Values]:
    """Compute (1 − p)^γ and g(p, γ) at p = exp(−nll), for tensors and arrays alike.

    As −p log p / (1 − p) = u / expm1(u), g = (1 − p)^γ · (1 + γ u / expm1(u)), a form of Proposition 1 that never meets
    0 · inf. In the quotient u is kept between the smallest normal number, where it rounds to its limit 1, and minus the
    logarithm of that number, where it is nothing beside 1.
    """
    tiny = _LIMITS[nll.dtype].tiny
    u = nll.clip(tiny, -math.log(tiny))
    power = focal_power(nll, gamma)
    return power, power + power * (u / _library(u).expm1(u) * gamma)


def factor_from_nll(nll: Tensor, gamma: float | Tensor) -> Tensor:
    """Compute g(p, γ) at p = exp(−nll), for any shape and real γ, finite wherever g is."""
    return power_and_factor(nll, gamma)[1]


def gradient_factor(p: ArrayLike, gamma: float | ArrayLike) -> ArrayLike:
    """Compute the ratio of the focal loss's gradient to cross-entropy's, g(p, γ) of Proposition 1.

    g(p, γ) = (1 − p)^γ − γ p (1 − p)^(γ−1) log p, where p is the probability of the true class: at the last linear
    layer the gradient of the focal loss is g times that of cross-entropy. g > 1 pushes a sample harder than
    cross-entropy does, g < 1 less.

    Args:
        p: Probabilities in [0, 1]; a float, an array or a tensor of any shape.
        gamma: γ ≥ 0, a float or something that broadcasts with ``p``.

    Returns:
        g, of the type of ``p`` and the broadcast shape. Tensors stay on their device, and values outside [0, 1] give
        NaN there, so that nothing synchronises; for floats and arrays they raise.

    Examples:
        >>> round(gradient_factor(0.2, 5.0), 4)
        0.9869
        >>> gradient_factor(1.0, 0.5)
        0.0
    """
    if isinstance(gamma, Tensor) and not isinstance(p, Tensor):
        return gradient_factor(torch.as_tensor(p, dtype=gamma.dtype, device=gamma.device), gamma)
    if isinstance(p, Tensor):
        if not p.is_floating_point():
            raise TypeError(f"p must be floating-point, got {p.dtype}.")
        nll = 0 - torch.log(p.float() if p.dtype in (torch.float16, torch.bfloat16) else p)  # 0 −, lest p = 1 give −0
        g = factor_from_nll(nll, gamma if isinstance(gamma, Tensor) else _nonnegative(gamma))
        return torch.where((p >= 0) & (p <= 1), g, torch.nan).to(p.dtype)
    probabilities, exponents = np.asarray(p, dtype=np.float64), np.asarray(gamma, dtype=np.float64)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError(f"p must lie in [0, 1], got {_first_outside(probabilities, 0.0, 1.0)}.")
    if not ((exponents >= 0) & np.isfinite(exponents)).all():
        raise ValueError(f"gamma must be a finite number of at least 0, got {_first_outside(exponents, 0.0, np.inf)}.")
    g = gradient_factor(torch.tensor(probabilities), torch.tensor(exponents)).numpy()
    return cast(ArrayLike, float(g) if _of_floats(p, gamma) else g)


def _of_floats(*given: object) -> bool:
    """Tell whether nothing but numbers was given; arrays and lists get an array back."""
    return all(np.ndim(one) == 0 and not isinstance(one, np.ndarray) for one in given)  # type: ignore[arg-type]


def gamma_star(p0: ArrayLike) -> ArrayLike:
    """Compute the γ from which the focal loss weakens gradients at all p ≥ p0, γ*(p0) of Proposition 2.

    It is the positive root of g(p0, γ) = 1. For every γ ≥ γ*(p0) and p ≥ p0, g(p, γ) ≤ 1. It exists only for
    0 < p0 < 0.5 and falls from infinity to 0 there.

    The paper writes it with the branch W₋₁ of Lambert's function, which loses its digits at both ends of the interval.
    With x = −γ log(1 − p0) the equation is log(1 + ρx) = x, ρ = p0 log p0 / ((1 − p0) log(1 − p0)) > 1: concave, so
    that Newton's iteration from the right of the root falls to it without overshooting. In float64 the result is within
    1e-10 relative on [1e-6, 0.49]; nearer to 0.5, where γ* itself goes to 0, the relative error grows as 1/(1 − 2 p0).

    Args:
        p0: Probabilities in (0, 0.5); a float, an array or a tensor of any shape.

    Returns:
        γ*, of the type and shape of ``p0``. Values outside (0, 0.5) raise; in a tensor that is not on the CPU they give
        NaN, so that nothing synchronises.

    Examples:
        >>> round(gamma_star(0.2), 4), round(gamma_star(0.25), 4)
        (4.8506, 3.0702)
    """
    if isinstance(p0, Tensor):
        return _gamma_star_of_tensor(p0)
    probabilities = np.asarray(p0, dtype=np.float64)
    star = _gamma_star_of_tensor(torch.tensor(probabilities)).numpy()
    return cast(ArrayLike, float(star) if _of_floats(p0) else star)


def _gamma_star_of_tensor(p0: Tensor) -> Tensor:
    if not p0.is_floating_point():
        raise TypeError(f"p0 must be floating-point, got {p0.dtype}.")
    inside = (p0 > 0) & (p0 < 0.5)
    if p0.device.type == "cpu" and not torch.compiler.is_compiling() and not _is_fake(p0) and not bool(inside.all()):
        outside = float(p0[~inside].reshape(-1)[0])
        raise ValueError(f"gamma_star exists only for 0 < p0 < 0.5, got {outside}.")
    # Half of the digits are lost in 1 − p0 in float32; MPS has no float64.
    p = p0 if p0.device.type == "mps" else p0.double()
    decay = -torch.log1p(-p)
    nll = -torch.log(p)
    rho = nll / torch.expm1(nll) / decay
    x = 2 * torch.log1p(rho)
    for _ in range(_NEWTON_STEPS):
        x = x - (torch.log1p(rho * x) - x) / (rho / (1 + rho * x) - 1)
    return torch.where(inside, x / decay, torch.nan).to(p0.dtype)


def focal_optimum(q: ArrayLike, gamma: float | ArrayLike) -> ArrayLike:
    """Compute the minimiser p̂ of the binary focal loss where the true probability is q.

    It minimises −(1 − x)^γ q log x − x^γ (1 − q) log(1 − x) over x in [0, 1]: q itself at γ = 0, and nearer to 0.5 the
    larger γ is, so that a network that does not overfit is under-confident. Where the derivative is 0, the logit z of x
    has log(q / (1 − q)) = log h(x) − log h(1 − x), h(x) = x / g(x, γ): increasing in z, and solved by bisection.

    Args:
        q: True probabilities in [0, 1]; a float, an array or a tensor of any shape.
        gamma: γ ≥ 0, a float or something that broadcasts with ``q``.

    Returns:
        p̂, of the type of ``q`` and the broadcast shape.

    Examples:
        >>> [round(focal_optimum(0.9, gamma), 3) for gamma in (0.0, 1.0, 2.0, 3.0, 5.0)]
        [0.9, 0.774, 0.694, 0.647, 0.597]
    """
    exact = [torch.as_tensor(value, dtype=torch.float64) for value in (q, gamma)]
    probabilities, exponents = (value.cpu() for value in torch.broadcast_tensors(*exact))  # type: ignore[no-untyped-call]
    if not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise ValueError(f"q must lie in [0, 1], got {_first_outside(probabilities.numpy(), 0.0, 1.0)}.")
    if not bool(((exponents >= 0) & exponents.isfinite()).all()):
        raise ValueError(
            f"gamma must be a finite number of at least 0, got {_first_outside(exponents.numpy(), 0.0, np.inf)}."
        )
    optimum = _optimum(probabilities, exponents)
    if isinstance(q, Tensor):
        return optimum.to(q.device, q.dtype)
    return cast(ArrayLike, float(optimum) if _of_floats(q, gamma) else optimum.numpy())


def _optimum(q: Tensor, gamma: Tensor) -> Tensor:
    """Solve for the larger of the two probabilities, whose logit lies between 0 and that of q."""
    target = (torch.log(q) - torch.log1p(-q)).abs().clamp(max=800.0)
    low, high = torch.zeros_like(target), target
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_low = _log_odds(middle, gamma) < target
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    solved = torch.sigmoid(torch.where(q < 0.5, -high, high))
    return torch.where((gamma == 0) | (q == 0) | (q == 1), q, solved)


def _log_odds(logit: Tensor, gamma: Tensor) -> Tensor:
    """Compute log h(x) − log h(1 − x) at x = sigmoid(logit): the log-odds of the q whose optimum x is."""
    nlls = torch.nn.functional.softplus(-logit), torch.nn.functional.softplus(logit)
    return logit - factor_from_nll(nlls[0], gamma).log() + factor_from_nll(nlls[1], gamma).log()


def entropy_bound(p: Values, q: Values, gamma: float) -> Values:
    """Compute KL(q‖p) − γ H[p], which the focal loss −Σ (1 − p_y)^γ q_y log p_y is never below for γ ≥ 1.

    It is why the focal loss favours less confident predictions: minimising it lowers KL(q‖p) and raises the entropy.

    Args:
        p: Predicted distributions (…, K), an array or a tensor.
        q: True distributions of the same shape, one-hot for a label.
        gamma: γ ≥ 0; the bound is proved for γ ≥ 1.

    Returns:
        The bound in nats, (…); +inf where p is 0 and q is not.

    Examples:
        >>> round(float(entropy_bound(np.array([0.8, 0.2]), np.array([1.0, 0.0]), gamma=1.0)), 4)
        -0.2773
    """
    gamma = _nonnegative(gamma)
    predicted, true = (_distributions(value, name) for value, name in ((p, "p"), (q, "q")))
    if predicted.shape != true.shape:
        raise ValueError(f"p and q must have the same shape, got {tuple(predicted.shape)} and {tuple(true.shape)}.")
    entropies = [torch.special.entr(value).sum(-1) for value in (predicted, true)]
    cross_entropy = -torch.special.xlogy(true, predicted).sum(-1)
    bound: Tensor = cross_entropy - entropies[1] - gamma * entropies[0]
    return bound.to(p.device, p.dtype) if isinstance(p, Tensor) else bound.numpy()


def _distributions(values: np.ndarray | Tensor, name: str) -> Tensor:
    exact: Tensor = torch.as_tensor(values).double().cpu()
    if exact.ndim == 0 or not bool(((exact >= 0) & (exact <= 1)).all()):
        raise ValueError(f"{name} must hold probabilities, between 0 and 1, of each class along its last dimension.")
    total = exact.sum(-1)
    if not bool(((total - 1).abs() < 1e-4).all()):
        wrong = float(total.flatten()[(total.flatten() - 1).abs().argmax()])
        raise ValueError(f"The probabilities of {name} must sum to 1 along the last dimension, got a sum of {wrong:g}.")
    return exact


def _is_fake(x: Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(x, FakeTensor)


def _first_outside(values: np.ndarray, low: float, high: float) -> float:
    return float(values[~((values >= low) & (values <= high) & np.isfinite(values))].ravel()[0])


def _nonnegative(gamma: float) -> float:
    value = float(gamma)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"gamma must be a finite number of at least 0, got {value}.")
    return value


class GammaPolicy(ABC):
    """Chooses γ: for a probability, and for an epoch of training. Policies are immutable values."""

    @abstractmethod
    def __call__(self, p: Tensor) -> float | Tensor:
        """Return γ for probabilities ``p`` (any shape): one float for all, or a tensor of the shape of ``p``."""

    @abstractmethod
    def for_nll(self, nll: Values) -> float | Values:
        """Return γ for terms with negative log-probabilities ``nll``, which is what the losses have."""

    def at_epoch(self, epoch: int) -> "GammaPolicy":
        """Return the policy in force in ``epoch``, counted from 0."""
        return self


@dataclass(frozen=True)
class FixedGamma(GammaPolicy):
    """One γ for everything (FL-1, FL-2, FL-3).

    Examples:
        >>> FixedGamma(3)(torch.tensor([0.1, 0.9]))
        3.0
    """

    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _nonnegative(self.gamma))

    def __call__(self, p: Tensor) -> float:
        """Return γ, whatever ``p`` is."""
        return self.gamma

    def for_nll(self, nll: Values) -> float:
        """Return γ, whatever ``nll`` is."""
        return self.gamma


@dataclass(frozen=True, init=False)
class EpochGamma(GammaPolicy):
    """γ by the epoch of training (FLSc-531, FLSc-532).

    Args:
        schedule: First epoch of a phase → γ of the phase; the first key is 0. ``FocalLoss.set_epoch`` moves along it.

    Examples:
        >>> schedule = EpochGamma({0: 5.0, 100: 3.0, 250: 1.0})
        >>> schedule.at_epoch(99), schedule.at_epoch(100)
        (FixedGamma(gamma=5.0), FixedGamma(gamma=3.0))
        >>> schedule.scaled(35)
        EpochGamma({0: 5.0, 10: 3.0, 25: 1.0})
    """

    starts: tuple[int, ...]
    gammas: tuple[float, ...]

    def __init__(self, schedule: Mapping[int, float]) -> None:
        starts = tuple(schedule)
        if (
            not starts
            or starts[0] != 0
            or not all(isinstance(s, int) for s in starts)
            or list(starts) != sorted(set(starts))
        ):
            raise ValueError(
                f"The epochs of a γ schedule must be whole numbers that start at 0 and increase, got {starts}."
            )
        object.__setattr__(self, "starts", tuple(int(s) for s in starts))
        object.__setattr__(self, "gammas", tuple(_nonnegative(g) for g in schedule.values()))

    def __call__(self, p: Tensor) -> float:
        """Raise: γ depends on the epoch."""
        raise ValueError(_NEEDS_EPOCH)

    def for_nll(self, nll: Values) -> float:
        """Raise: γ depends on the epoch."""
        raise ValueError(_NEEDS_EPOCH)

    def at_epoch(self, epoch: int) -> FixedGamma:
        """Return the γ of the phase that ``epoch``, counted from 0, lies in."""
        if not epoch >= 0:
            raise ValueError(f"An epoch is counted from 0, got {epoch}.")
        return FixedGamma(next(g for s, g in zip(self.starts[::-1], self.gammas[::-1], strict=True) if s <= epoch))

    def scaled(self, total_epochs: int, of: int = 350) -> "EpochGamma":
        """Scale the schedule from a run of ``of`` epochs to one of ``total_epochs``.

        Phases begin at the nearest whole epoch. In a run so short that two phases would begin in the same epoch, the
        later one takes it.
        """
        if total_epochs < 1 or of < 1:
            raise ValueError(f"A schedule is scaled between runs of at least 1 epoch, got {total_epochs} of {of}.")
        starts = (math.floor(s * total_epochs / of + 0.5) for s in self.starts)
        return EpochGamma(dict(zip(starts, self.gammas, strict=True)))

    def __repr__(self) -> str:
        return f"EpochGamma({dict(zip(self.starts, self.gammas, strict=True))})"


@dataclass(frozen=True)
class SampleGamma(GammaPolicy):
    """γ by the probability that the network gives to the class (FLSD-53, FLSD-532).

    ``gammas[i]`` holds from ``thresholds[i-1]`` (included) to ``thresholds[i]`` (excluded). The choice is not
    differentiated, and made of comparisons with Python numbers, so that no device synchronises for it.

    Examples:
        >>> SampleGamma.flsd53()(torch.tensor([0.1, 0.2, 0.9]))
        tensor([5., 3., 3.])
    """

    thresholds: tuple[float, ...]
    gammas: tuple[float, ...]

    def __post_init__(self) -> None:
        thresholds = tuple(float(t) for t in self.thresholds)
        if len(self.gammas) != len(thresholds) + 1:
            raise ValueError(f"{len(thresholds)} thresholds need {len(thresholds) + 1} gammas, got {len(self.gammas)}.")
        bounds = (0.0, *thresholds, 1.0)
        if not all(a < b for a, b in pairwise(bounds)):
            raise ValueError(f"The thresholds must lie between 0 and 1 and increase, got {thresholds}.")
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "gammas", tuple(_nonnegative(g) for g in self.gammas))

    def __call__(self, p: Tensor) -> Tensor:
        """Return γ for every probability in ``p``, with its shape, float type and device, detached."""
        p = p.detach()
        gamma = torch.full_like(p, self.gammas[0])
        for threshold, above in zip(self.thresholds, self.gammas[1:], strict=True):
            gamma = torch.where(p >= threshold, above, gamma)
        return gamma

    def for_nll(self, nll: Values) -> Values:
        """Return γ for every negative log-probability in ``nll``, without computing its probability.

        A computed nll can be an ulp or two off: so that p = 0.2 is found at 0.2 (five equal logits, say), a probability
        counts as having reached a threshold from four ulps below it.
        """
        slack = 4 * _LIMITS[nll.dtype].eps
        library = _library(nll)
        gamma = library.full_like(nll, self.gammas[0])
        for threshold, above in zip(self.thresholds, self.gammas[1:], strict=True):
            gamma = library.where(nll <= slack - math.log(threshold), above, gamma)
        return cast(Values, gamma)

    @classmethod
    def flsd53(cls) -> "SampleGamma":
        """Make the paper's FLSD-53: 5 on [0, 0.2), 3 on [0.2, 1]."""
        return cls(thresholds=(0.2,), gammas=(5.0, 3.0))

    @classmethod
    def flsd532(cls) -> "SampleGamma":
        """Make the paper's FLSD-532: 5 on [0, 0.2), 3 on [0.2, 0.5), 2 on [0.5, 1]."""
        return cls(thresholds=(0.2, 0.5), gammas=(5.0, 3.0, 2.0))

    @classmethod
    def from_p0(cls, p0: Sequence[float]) -> "SampleGamma":
        """Take γ*(p0) of each p0, by Proposition 2; every p0 but the last is also where the next γ begins.

        ``from_p0((0.2, 0.25))`` is FLSD-53 before its rounding: γ*(0.2) below 0.2, γ*(0.25) from there on.

        Examples:
            >>> [round(g, 2) for g in SampleGamma.from_p0((0.2, 0.25)).gammas]
            [4.85, 3.07]
        """
        points = tuple(float(p) for p in p0)
        if not points:
            raise ValueError("from_p0 needs at least one p0.")
        return cls(thresholds=points[:-1], gammas=tuple(gamma_star(p) for p in points))


def as_policy(gamma: float | GammaPolicy) -> GammaPolicy:
    """Turn a number into a policy; leave a policy as it is."""
    if isinstance(gamma, GammaPolicy):
        return gamma
    if isinstance(gamma, (int, float, np.integer, np.floating)) and not isinstance(gamma, bool):
        # torch.compile does not look into a cache.
        return FixedGamma(gamma) if torch.compiler.is_compiling() else _fixed(gamma)
    raise TypeError(f"gamma must be a number or a γ policy such as SampleGamma, got {type(gamma).__name__}.")


# A loss that is given a number makes the same policy at every call.
_fixed = lru_cache(maxsize=64)(FixedGamma)
