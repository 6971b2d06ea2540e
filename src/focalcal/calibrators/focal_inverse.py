"""The focal inverse as a pure function of −log q, exact where q is 1 but for 1e-50."""

import math

import torch
from torch import Tensor

from focalcal.gamma import factor_from_nll


def accurate_nll(logits: Tensor) -> Tensor:
    """−log softmax, (N, K), with full relative precision also at the largest logit, where log_softmax rounds to 0.

    Examples:
        >>> accurate_nll(torch.tensor([[100.0, 0.0]], dtype=torch.float64))
        tensor([[3.7201e-44, 1.0000e+02]], dtype=torch.float64)
    """
    top, prediction = logits.max(1, keepdim=True)
    gaps = logits - top
    others = gaps.exp().scatter(1, prediction, 0.0).sum(1, keepdim=True)
    return torch.log1p(others) - gaps


def inverse_logits(nll: Tensor, gamma: float) -> Tensor:
    """Logits log h(q) = log q − log g(q, γ) at q = exp(−nll), float64; its softmax is the posterior.

    Examples:
        >>> q = torch.tensor([0.7743, 0.2257], dtype=torch.float64)  # what minimises the focal loss, γ = 1, at p = 0.9
        >>> inverse_logits(-q.log(), 1.0).softmax(0).round(decimals=3)
        tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    bounded = nll.clamp(min=smallest_nll(gamma))
    return -bounded - factor_from_nll(bounded, gamma).log()


def smallest_nll(gamma: float) -> float:
    """Below this, (1 − q)^γ would leave the range of float64; q is then 1 to any precision that matters."""
    return math.exp(-600.0 / max(1.0, abs(gamma)))
