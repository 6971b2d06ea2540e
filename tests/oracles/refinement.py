"""Losses of softmax(z / T) row by row in double precision, and their smallest value over a dense grid of T."""

import math

import numpy as np


def softmax(row):
    top = max(row)
    powers = [math.exp(x - top) for x in row]
    return [power / sum(powers) for power in powers]


def mean_losses(logits, targets, weight, temperature):
    """Mean NLL and Brier score of softmax(z / T) against rows of class probabilities."""
    nll = brier = 0.0
    for row, q, w in zip(logits, targets, weight, strict=True):
        p = softmax([x / temperature for x in row])
        nll -= w * sum(qk * math.log(pk) for pk, qk in zip(p, q, strict=True) if qk > 0 and pk > 0)
        nll += math.inf if any(pk == 0 < qk for pk, qk in zip(p, q, strict=True)) and w > 0 else 0.0
        brier += w * sum((pk - qk) ** 2 for pk, qk in zip(p, q, strict=True))
    return nll / sum(weight), brier / sum(weight)


def smallest_losses(logits, targets, weight, low=0.05, high=50.0, points=400):
    """The smallest mean NLL and Brier score, and the T of each, on a geometric grid of T."""
    grid = np.geomspace(low, high, points)
    nll, brier = np.array([mean_losses(logits, targets, weight, t) for t in grid]).T
    return (nll.min(), grid[nll.argmin()]), (brier.min(), grid[brier.argmin()])
