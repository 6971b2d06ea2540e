"""The appendix's linear model: two weights, no bias, trained with cross-entropy and with the focal loss, γ = 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from focalcal.gamma import gradient_factor
from focalcal.paper.claims import Claim, judge

Array = npt.NDArray[np.float64]

TRAIN, TEST, FLIPPED = 4000, 1000, 0.1
GAMMAS = {"cross-entropy": 0.0, "fl-1": 1.0}
_HALF_SIDE = 2.0  # the means of the clusters are the corners of a square of side 4
_STEPS, _RATE = 200, 0.5
_RECORDED = np.unique(np.concatenate([[1, 2, 3, 5, 7], np.geomspace(10, _STEPS, 30).astype(int)]))


@dataclass(frozen=True)
class Points:
    """Samples (N, 2) and their labels (N,), which are −1 or 1."""

    x: Array
    y: Array


@dataclass(frozen=True)
class LinearRun:
    """The model during and after training.

    Attributes:
        steps: Steps of gradient descent after which it was looked at.
        weight_norms: ‖w‖ then.
        logit_norms: The mean of |w·x| over the training set then.
        weights: w in the end.
        mistake_confidence: Confidence of the wrong predictions for the test set.
        error: Share of wrong predictions for the test set.
    """

    steps: npt.NDArray[np.int64]
    weight_norms: Array
    logit_norms: Array
    weights: Array
    mistake_confidence: Array
    error: float


def make_points(seed: int) -> tuple[Points, Points]:
    """Draw training and test set: two clusters per class, neighbours on one side of the square.

    Each cluster is normal with standard deviation 1, and then combined linearly at random, to add covariance; the
    labels of 10% of the samples are flipped.
    """
    source = np.random.default_rng(seed)
    corners = [(side, other) for side in (-_HALF_SIDE, _HALF_SIDE) for other in (-_HALF_SIDE, _HALF_SIDE)]
    count = (TRAIN + TEST) // len(corners)
    x = [source.normal(size=(count, 2)) @ source.uniform(-1, 1, size=(2, 2)) + corner for corner in corners]
    y = np.repeat([-1.0, -1.0, 1.0, 1.0], count)
    order = source.permutation(TRAIN + TEST)
    samples, labels = np.concatenate(x)[order], y[order]
    for part in (slice(0, TRAIN), slice(TRAIN, None)):
        size = len(labels[part])
        labels[part][source.choice(size, int(FLIPPED * size), replace=False)] *= -1
    return Points(samples[:TRAIN], labels[:TRAIN]), Points(samples[TRAIN:], labels[TRAIN:])


def train_linear(train: Points, test: Points, gamma: float) -> LinearRun:
    """Train by gradient descent on all samples, from weights of 0.

    At the logit of the true class, z = y w·x, the gradient of the focal loss is −(1 − p) g(p, γ) with p = σ(z).
    """
    weights, norms, logits = np.zeros(2), [], []
    for step in range(1, _STEPS + 1):
        p = expit(train.y * (train.x @ weights))
        push = (1 - p) * gradient_factor(p, gamma)
        weights = weights + _RATE * (push * train.y) @ train.x / len(train.y)
        if step in _RECORDED:
            norms.append(float(np.linalg.norm(weights)))
            logits.append(float(np.abs(train.x @ weights).mean()))
    outputs = test.x @ weights
    wrong = np.sign(outputs) != test.y
    confidence = expit(np.abs(outputs[wrong]))
    return LinearRun(_RECORDED, np.array(norms), np.array(logits), weights, confidence, float(wrong.mean()))


def train_both(seed: int = 0) -> dict[str, LinearRun]:
    """Train with cross-entropy and with the focal loss on the same samples."""
    train, test = make_points(seed)
    return {loss: train_linear(train, test, gamma) for loss, gamma in GAMMAS.items()}


def angle(runs: Mapping[str, LinearRun]) -> float:
    """Compute the angle in degrees between the two weight vectors, and so between the decision boundaries."""
    first, second = (runs[loss].weights / np.linalg.norm(runs[loss].weights) for loss in GAMMAS)
    return float(np.degrees(np.arccos(np.clip(first @ second, -1, 1))))


def linear_claims(seeds: int = 20) -> list[Claim]:
    """Check the appendix's claims over several draws of the data."""
    found = [train_both(seed) for seed in range(seeds)]
    ratios = np.array([runs["cross-entropy"].weight_norms[-1] / runs["fl-1"].weight_norms[-1] for runs in found])
    logits = np.array([runs["cross-entropy"].logit_norms[-1] / runs["fl-1"].logit_norms[-1] for runs in found])
    growth = np.array([_growth(runs["cross-entropy"]) for runs in found])
    angles = np.array([angle(runs) for runs in found])
    shares = {loss: np.array([np.mean(runs[loss].mistake_confidence > 0.9) for runs in found]) for loss in GAMMAS}
    means = {loss: np.array([runs[loss].mistake_confidence.mean() for runs in found]) for loss in GAMMAS}
    return [
        judge(
            "The norms of weights and logits become larger with cross-entropy than with the focal loss.",
            [(bool((ratios > 1).all()), f"weights {_spread(ratios)} times, logits {_spread(logits)} times as large")],
        ),
        judge(
            "With cross-entropy the norm of the weights blows up.",
            [
                (
                    bool(np.median(growth) > 1.05),
                    f"from half of the training to its end it grows {_spread(growth)} times",
                )
            ],
        ),
        judge(
            "Both losses give the same decision boundary.",
            [(bool(np.median(angles) < 5), f"the boundaries differ by {_spread(angles)} degrees")],
        ),
        judge(
            "Cross-entropy is almost always more than 90% confident when it is wrong, the focal loss much less often.",
            [
                (
                    bool(np.median(shares["cross-entropy"]) > 0.8),
                    f"share of mistakes above 90%: {_spread(100 * shares['cross-entropy'])}% and "
                    f"{_spread(100 * shares['fl-1'])}%; mean confidence of mistakes "
                    f"{_spread(100 * means['cross-entropy'])}% and {_spread(100 * means['fl-1'])}%",
                )
            ],
        ),
    ]


def _growth(run: LinearRun) -> float:
    half = int(np.searchsorted(run.steps, _STEPS // 2))
    return float(run.weight_norms[-1] / run.weight_norms[half])


def _spread(values: Array) -> str:
    """Write the median with the range of the middle 90%."""
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
