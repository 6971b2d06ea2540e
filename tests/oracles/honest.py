"""Slow, obvious versions of honest intervals, sample by sample, from the formulas."""

import math

import numpy as np
from scipy.stats import norm

FOLDS = 5


def absolute_gaps_interval(share, confidence, correct, weight, null_quantile, level):
    """Ends for Σ_b |D_b|.

    Args:
        share: (N, M) share of each sample in each bin.
        null_quantile: What the estimate has to exceed for a lower end above 0.
    """
    n, bins = share.shape
    x = confidence - correct
    total = weight.sum()
    gaps = [sum(weight[i] * share[i, b] * x[i] for i in range(n)) / total for b in range(bins)]
    estimate = sum(abs(gap) for gap in gaps)
    z = norm.ppf((1 + level) / 2)
    margin = z**2 / (total**2 / (weight**2).sum())
    signs = [-1.0 if gap < -1e-12 else 1.0 for gap in gaps]  # 0 but for rounding has a sign too
    upper = [sum(signs[b] * share[i, b] for b in range(bins)) * x[i] for i in range(n)]
    high = estimate + z * _error(upper, weight) + margin
    if estimate <= null_quantile:
        return 0.0, high
    lower = []
    for i in range(n):
        others = [j for j in range(n) if j % FOLDS != i % FOLDS]
        v = 0.0
        for b in range(bins):
            s = sum(weight[j] * share[j, b] * x[j] for j in others)
            q = sum(share[j, b] * (weight[j] * x[j]) ** 2 for j in others)
            v += share[i, b] * (min(max(s / math.sqrt(q), -1), 1) if q > 0 else 0.0)
        lower.append(v * x[i])
    mean = sum(w * u for w, u in zip(weight, lower, strict=True)) / total
    return min(max(mean - z * _error(lower, weight) - margin, 0.0), estimate), high


def _error(values, weight):
    mean = sum(w * u for w, u in zip(weight, values, strict=True)) / weight.sum()
    return math.sqrt(sum(w**2 * (u - mean) ** 2 for w, u in zip(weight, values, strict=True))) / weight.sum()


def equal_mass_shares(confidence, weight, bins):
    """(N, M) shares of samples in bins of equal mass; tied samples share in proportion (brute force on mass)."""
    n = len(confidence)
    bounds = [part * (n // bins) + min(part, n % bins) for part in range(bins + 1)]
    cuts = np.array(bounds) * weight.sum() / n
    shares = np.zeros((n, bins))
    for value in set(confidence.tolist()):
        tied = confidence == value
        low = weight[confidence < value].sum()
        high = low + weight[tied].sum()
        for b in range(bins):
            inside = max(min(cuts[b + 1], high) - max(cuts[b], low), 0.0)
            shares[tied, b] = inside / (high - low)
    return shares
