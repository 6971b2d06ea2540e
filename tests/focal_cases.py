"""Cases that tests of the focal loss share."""

import torch

import focalcal as fc

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
POLICIES = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0, fc.SampleGamma.flsd53(), fc.SampleGamma.flsd532())


def with_gradient(loss, logits):
    """Return a loss and the gradient of its sum."""
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient
