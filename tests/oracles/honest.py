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


def lump(confidence, correct, weight, unit, ranges=15):
    """The size in which errors come, a share of the whole: sample by sample and cluster by cluster."""

    def of(rows):
        clusters = sorted({unit[i] for i in rows})
        mass = {g: sum(weight[i] for i in rows if unit[i] == g) for g in clusters}
        wrong = {
            g: sum(weight[i] * ((1 - correct[i]) if confidence[i] > 0.5 else correct[i]) for i in rows if unit[i] == g)
            for g in clusters
        }
        total, errors = sum(mass.values()), sum(wrong.values())
        rate, size = errors / total, sum(m**2 for m in mass.values()) / total
        carriers = errors**2 / sum(e**2 for e in wrong.values()) if errors > 0 else 0.0
        more = 1 / (1 + carriers)
        spread = sum((wrong[g] - rate * mass[g]) ** 2 for g in clusters)
        return (spread + more * size**2) / (rate * (1 - rate) * total + more * size)

    every = [i for i in range(len(weight)) if weight[i] > 0]
    places = {i: max(math.ceil(confidence[i] * ranges) - 1, 0) for i in every}
    parts = [[i for i in every if places[i] == place] for place in set(places.values())]
    return max(of(rows) for rows in [every, *parts]) / weight.sum()
