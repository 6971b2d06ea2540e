"""Penalised NLL of v = A x + b straight from its definition."""

import numpy as np
from scipy.special import log_softmax

from oracles.temperature import one_hot


def penalised_nll(inputs, labels, matrix, bias, off_diagonal, intercept, diagonal, temperature, weights=None):
    """Mean NLL of softmax(A x + b) + λ Σ_{i≠j} (T a_ij)² + μ Σ b_i² + ν Σ (T a_ii − 1)²."""
    inputs = np.asarray(inputs, dtype=np.float64)
    log_probs = log_softmax(inputs @ matrix.T + bias, axis=1)
    loss = np.average(-(one_hot(labels, inputs.shape[1]) * log_probs).sum(axis=1), weights=weights)
    scaled = temperature * matrix
    own = np.diag(scaled)
    off = scaled - np.diag(own)
    return loss + off_diagonal * (off**2).sum() + intercept * (bias**2).sum() + diagonal * ((own - 1) ** 2).sum()
