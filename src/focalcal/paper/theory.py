"""The paper's theory, checked on fine grids: both propositions, the entropy bound and the optimum of the focal loss."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import entr

from focalcal.gamma import entropy_bound, focal_optimum, gamma_star, gradient_factor
from focalcal.losses import focal_loss
from focalcal.paper.claims import Claim

_GAMMAS = (0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
_TOLERANCE = 1e-9


def crossing(gamma: float) -> float:
    """Compute the probability p0 at which g(p0, γ) = 1: the inverse of γ*(p0), for γ > 0.

    Examples:
        >>> round(crossing(1.0), 4), round(crossing(3.0), 4)
        (0.3679, 0.2526)
    """
    # γ* falls from infinity to 0 on (0, 0.5).
    return float(brentq(lambda p0: gamma_star(float(p0)) - gamma, 1e-9, 0.5 - 1e-9, xtol=1e-12))


def check_theory(points: int = 2000) -> list[Claim]:
    """Check every statement of the paper's theory on grids of about this many points."""
    return [
        *_first_proposition(points),
        *_second_proposition(points),
        *_bound(points),
        *_optimum(points),
    ]


def _claim(text: str, holds: bool, evidence: str) -> Claim:
    return Claim(text, "holds" if holds else "does not hold", evidence)


def _first_proposition(points: int) -> Iterator[Claim]:
    worst = max(_gradient_mismatch(gamma, points) for gamma in _GAMMAS)
    yield _claim(
        "Proposition 1: the last layer's gradient of the focal loss is g(p, γ) times that of cross-entropy.",
        worst < _TOLERANCE,
        f"Largest relative difference over {points} random samples for each of {len(_GAMMAS)} γ: {worst:.1e}.",
    )
    p = np.linspace(0, 1, points + 1)[1:]
    crossings = {gamma: crossing(gamma) for gamma in _GAMMAS}
    right = all(
        (gradient_factor(p[p < p0], gamma) >= 1 - _TOLERANCE).all() and (gradient_factor(p[p > p0], gamma) < 1).all()
        for gamma, p0 in crossings.items()
    )
    shown = ", ".join(f"{p0:.3f} (γ = {gamma:g})" for gamma, p0 in crossings.items())
    yield _claim(
        "For every γ there is a threshold p0 with g ≥ 1 below and g < 1 above it; about 0.4 for γ = 1.",
        right,
        f"p0 = {shown}; for γ = 1 it is 1/e.",
    )
    values = {gamma: float(gradient_factor(0.5, gamma)) for gamma in (1.0, 3.0, 5.0, 7.0, 10.0)}
    yield _claim(
        "For γ ≥ 7, g is nearly 0 from p ≈ 0.5 on: gradients die while predictions are still ambiguous.",
        values[7.0] < 0.1,
        "g(0.5, γ) = " + ", ".join(f"{value:.3f} (γ = {gamma:g})" for gamma, value in values.items()) + ".",
    )


def _gradient_mismatch(gamma: float, points: int) -> float:
    """Compare gradients by the logits, from autograd, of the focal loss and of cross-entropy times g."""
    logits = 4 * torch.randn(points, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(points) % 5
    gradients: list[torch.Tensor] = []
    for exponent in (gamma, 0.0):
        own = logits.clone().requires_grad_()
        gradients += torch.autograd.grad(focal_loss(own, labels, exponent, reduction="sum"), own)
    probability = logits.softmax(1).gather(1, labels[:, None])
    expected = gradient_factor(probability, gamma) * gradients[1]
    return float(((gradients[0] - expected).norm(dim=1) / expected.norm(dim=1)).max())


def _second_proposition(points: int) -> Iterator[Claim]:
    side = max(20, int(points**0.5))
    p0 = np.linspace(0.01, 0.49, side)
    star = gamma_star(p0)
    root = float(np.abs(gradient_factor(p0, star) - 1).max())
    share = np.linspace(0, 1, side)
    p = p0[:, None, None] + (1 - p0[:, None, None]) * share[None, :, None]
    gamma = star[:, None, None] * (1 + 4 * share[None, None, :])
    above = gradient_factor(np.broadcast_to(p, (side, side, side)).copy(), np.broadcast_to(gamma, (side,) * 3).copy())
    strictly = above[:, 1:, :].max()
    yield _claim(
        "Proposition 2: g(p, γ) ≤ 1 for all p ≥ p0 and γ ≥ γ*(p0), with equality only at p0 and γ*.",
        root < _TOLERANCE and float(above.max()) <= 1 + _TOLERANCE and float(strictly) < 1,
        f"On a grid of {side}³ values of p0 in [0.01, 0.49], p and γ: |g(p0, γ*) − 1| ≤ {root:.0e}, "
        f"largest g for p > p0 is {strictly:.4f}.",
    )
    high = gradient_factor(np.linspace(0.5, 1, points), 0.01)
    yield _claim(
        "Its proof: for every p0 in (0, 1) there is a γ > 0 with g(p0, γ) = 1.",
        False,
        "Only for p0 < 0.5. From 0.5 on every γ > 0 has g < 1 "
        f"(at γ = 0.01 g ≤ {high.max():.5f}), and the formula with W₋₁ gives γ* = 0.",
    )
    values = {p: gamma_star(p) for p in (0.2, 0.25)}
    yield _claim(
        "g(0.2, 5) ≈ 1 and g(0.25, 3) ≈ 1, whence FLSD-53.",
        abs(gradient_factor(0.2, 5.0) - 1) < 0.02 and abs(gradient_factor(0.25, 3.0) - 1) < 0.02,
        f"{gradient_factor(0.2, 5.0):.4f} and {gradient_factor(0.25, 3.0):.4f}; "
        f"γ*(0.2) = {values[0.2]:.4f}, γ*(0.25) = {values[0.25]:.4f}.",
    )


def _bound(points: int) -> Iterator[Claim]:
    gammas = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    slack = min(bound_slack(gamma, classes, points) for gamma in gammas for classes in (2, 3, 10, 100))
    yield _claim(
        "L_f ≥ KL(q‖p) − γ H[p] for γ ≥ 1.",
        slack >= -_TOLERANCE,
        f"Smallest difference of the two sides over {points} pairs of random p and q for each of {len(gammas)} γ and "
        f"2, 3, 10 and 100 classes, one-hot q among them: {slack:.3g}.",
    )
    small = min(bound_slack(gamma, classes, points) for gamma in (0.1, 0.3, 0.5, 0.9) for classes in (2, 3, 10))
    yield _claim(
        "The same for 0 < γ < 1, for which the paper proves nothing.",
        small >= -_TOLERANCE,
        f"Smallest difference: {small:.3g}.",
    )


def bound_slack(gamma: float, classes: int, points: int) -> float:
    """Find the smallest L_f − (KL(q‖p) − γ H[p]) over random distributions, peaked and flat, and one-hot q."""
    source = np.random.default_rng(0)
    p, q = (_distributions(source, points, classes) for _ in range(2))
    q[::2] = np.eye(classes)[source.integers(classes, size=len(q[::2]))]
    loss = -((1 - p) ** gamma * q * np.log(p)).sum(1)
    return float((loss - entropy_bound(p, q, gamma)).min())


def _distributions(source: np.random.Generator, points: int, classes: int) -> np.ndarray:
    logits = source.normal(size=(points, classes)) * source.uniform(0, 8, size=(points, 1))
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(np.clip(p / p.sum(1, keepdims=True), 1e-12, 1))


def _optimum(points: int) -> Iterator[Claim]:
    q = np.linspace(0, 1, points + 1)[1:-1]
    inner = q[np.abs(q - 0.5) > 1e-9]
    gains = []
    for gamma in _GAMMAS:
        p = focal_optimum(inner, gamma)
        gains.append(float((entr(p) + entr(1 - p) - entr(inner) - entr(1 - inner)).min()))
    yield _claim(
        "The minimiser of the binary focal loss always has more entropy than that of cross-entropy, which is q.",
        min(gains) > 0,
        "p̂ for q = 0.9: "
        + ", ".join(f"{focal_optimum(0.9, gamma):.3f} (γ = {gamma:g})" for gamma in (0.0, 1.0, 2.0, 3.0, 5.0))
        + f"; smallest gain in entropy over {len(inner)} values of q and {len(_GAMMAS)} γ: {min(gains):.1e} nats.",
    )
    ends = [float(focal_optimum(value, gamma)) == value for gamma in _GAMMAS for value in (0.0, 1.0)]
    yield _claim(
        "With one-hot targets the minimiser is the target itself.",
        all(ends),
        "p̂ = q at q = 0 and q = 1 for every γ; a network that fits soft targets, or does not overfit, is "
        "under-confident.",
    )
