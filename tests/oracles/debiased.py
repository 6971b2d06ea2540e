"""Debiased calibration error and the ECE floor, sample by sample."""

import itertools
import math

import numpy as np


def equal_mass_groups(confidence, bins):
    """Indices of each bin: sorted, cut as numpy cuts, a run of equal values never split but left in the lower bin."""
    order = sorted(range(len(confidence)), key=lambda i: confidence[i])
    edges = [confidence[part[-1]] for part in np.array_split(order, bins) if len(part)]
    groups = {}
    for i in order:
        groups.setdefault(next(k for k, edge in enumerate(edges) if confidence[i] <= edge), []).append(i)
    return list(groups.values())


def debiased_ece(confidence, correct, bins):
    total = 0.0
    for group in equal_mass_groups(confidence, bins):
        n = len(group)
        if n > 1:
            accuracy = sum(bool(correct[i]) for i in group) / n
            mean = math.fsum(confidence[i] for i in group) / n
            total += n / len(confidence) * ((mean - accuracy) ** 2 - accuracy * (1 - accuracy) / (n - 1))
    return math.sqrt(max(total, 0.0))


def bin_of(p, bins):
    """(lower, upper] with edges i/bins; 0 in the first."""
    return next(m for m in range(bins) if p <= (m + 1) / bins)


def mean_deviation(probabilities):
    """E|X − E X| for X a sum of independent Bernoulli variables, from its whole distribution."""
    distribution = np.array([1.0])
    for p in probabilities:
        distribution = np.convolve(distribution, [1 - p, p])
    return float(distribution @ np.abs(np.arange(len(distribution)) - math.fsum(probabilities)))


def ece_floor(confidence, bins):
    groups = {}
    for p in confidence:
        groups.setdefault(bin_of(p, bins), []).append(p)
    return sum(mean_deviation(group) for group in groups.values()) / len(confidence)


def weighted_ece_floor(confidence, weight, bins):
    """Over every pattern of right and wrong: few samples only."""
    index = np.array([bin_of(p, bins) for p in confidence])
    confidence, weight = np.asarray(confidence), np.asarray(weight)
    total = 0.0
    for pattern in itertools.product([0, 1], repeat=len(confidence)):
        right = np.array(pattern)
        chance = np.prod(np.where(right == 1, confidence, 1 - confidence))
        gaps = [abs(((right - confidence) * weight)[index == m].sum()) for m in range(bins)]
        total += chance * sum(gaps) / weight.sum()
    return total
