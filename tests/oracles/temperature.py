"""Slow, obvious versions of temperature scaling, and data whose best temperature is known."""

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax

from focalcal.predictions import Predictions


def sampled(samples, classes, scale=1.0, seed=0, dtype=torch.float64):
    """Logits scale · z and labels drawn from softmax(z): the best temperature is scale, but for sampling noise."""
    generator = np.random.default_rng(seed)
    z = 2.0 * generator.normal(size=(samples, classes))
    labels = np.array([generator.choice(classes, p=row) for row in softmax(z, axis=1)])
    return torch.tensor(scale * z).to(dtype), torch.tensor(labels)


def sampled_predictions(samples, classes, scale=1.0, seed=0, dtype=torch.float64, **options):
    return Predictions.from_logits(*sampled(samples, classes, scale, seed, dtype), **options)


def one_hot(labels, classes):
    labels = np.asarray(labels)
    return np.eye(classes)[labels] if labels.ndim == 1 else labels


def mean_nll(values, labels, beta, weights=None):
    """Mean of −Σ_k q_k log softmax(β z)_k, sample by sample."""
    values = np.asarray(values, dtype=np.float64)
    q = one_hot(labels, values.shape[1])
    log_probs = log_softmax(beta * values, axis=1)
    losses = [-sum(a * b for a, b in zip(*rows, strict=True) if a > 0) for rows in zip(q, log_probs, strict=True)]
    return float(np.average(losses, weights=weights))


def slope(values, labels, beta, weights=None):
    """Derivative of `mean_nll` in β: E_p[z] − E_q[z]."""
    values = np.asarray(values, dtype=np.float64)
    finite = np.where(np.isneginf(values), 0.0, values)
    p = np.exp(beta * values - logsumexp(beta * values, axis=1, keepdims=True))
    return float(np.average(((p - one_hot(labels, values.shape[1])) * finite).sum(axis=1), weights=weights))


def best_inverse_temperature(values, labels, weights=None, low=1e-4, high=1e4):
    """Root of the slope in log β between 1/high and 1/low; one of these where it has no root."""
    ends = (-np.log(high), -np.log(low))
    at_ends = [slope(values, labels, np.exp(u), weights) for u in ends]
    if at_ends[0] >= 0:
        return float(np.exp(ends[0]))
    if at_ends[1] <= 0:
        return float(np.exp(ends[1]))
    root = brentq(lambda u: slope(values, labels, np.exp(u), weights), *ends, xtol=1e-15, rtol=1e-15, maxiter=500)
    return float(np.exp(root))


def binned_error(confidence, correct, bins, weights=None):
    """ECE bin by bin, (lower, upper], 0 in the first."""
    weights = np.ones(len(confidence)) if weights is None else np.asarray(weights)
    error = 0.0
    for m in range(bins):
        inside = (confidence > m / bins) & (confidence <= (m + 1) / bins) | ((m == 0) & (confidence == 0))
        error += abs(np.sum((weights * (confidence - correct))[inside]))
    return float(error / weights.sum())


def grid_errors(values, labels, grid, bins=15, weights=None):
    """ECE at every temperature of the grid, one softmax each, in float64."""
    values = np.asarray(values, dtype=np.float64)
    correct = values.argmax(axis=1) == np.asarray(labels)
    return [binned_error(softmax(values / t, axis=1).max(axis=1), correct, bins, weights) for t in grid]
