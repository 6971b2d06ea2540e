"""smECE straight from its definition: every sample against every point, mirror images written out, bisection."""

import numpy as np


def smooth_ece_at(sigma, confidence, correct, weight=None, points=20_001, images=None):
    """∫₀¹ |Σ_i w_i (y_i − f_i) K_σ(t, f_i)| dt, K_σ the normal density reflected at 0 and 1 as often as it matters."""
    confidence = np.asarray(confidence, dtype=float)
    residual = np.asarray(correct, dtype=float) - confidence
    weight = np.ones_like(residual) if weight is None else np.asarray(weight, dtype=float)
    mass = weight * residual / weight.sum()
    t = np.linspace(0, 1, points)
    images = int(np.ceil(5 * sigma)) + 1 if images is None else images
    smoothed = np.zeros_like(t)
    for f, m in zip(confidence, mass, strict=True):
        for shift in range(-images, images + 1):
            for place in (2 * shift + f, 2 * shift - f):
                smoothed += m * np.exp(-(((t - place) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
    return np.trapezoid(np.abs(smoothed), t)


def smooth_ece(confidence, correct, weight=None, points=20_001, steps=30):
    """The σ in [0, 1] at which smECE_σ = σ, by bisection (smECE_σ falls as σ grows)."""
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        if middle * points < 20:  # too narrow for the points of integration
            return high
        if smooth_ece_at(middle, confidence, correct, weight, points) > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2
