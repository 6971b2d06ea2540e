"""The focal loss of checked input, −Σ_y w_y q_y (1 − p_y)^γ(p_y) log p_y, and its gradient.

Two ways to the same numbers:

- fused, for ordinary eager training: one pass over blocks of rows that fit the cache computes the terms and, in closed
  form, the gradient p_k Σ_y w_y q_y g_y − w_k q_k g_k. That one (M, C) tensor is all that is kept, and a backward pass
  is one multiplication.
- traceable, plain differentiable operations, for ``torch.compile``, ``torch.export`` and ``torch.func``, for targets
  that need a gradient themselves, and for second derivatives.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import TensorWeakRef

from focalcal.gamma import GammaPolicy, focal_power, power_and_factor
from focalcal.losses.inputs import LossInput, at_least_tiny

# Elements of a block of rows: small enough for a second-level cache, large enough to hide the cost of a call.
_BLOCK_ELEMENTS = 1 << 16
# Up to so many numbers NumPy is faster than PyTorch on a CPU.
_SMALL = 1 << 12

_nll_backward = torch.ops.aten.nll_loss_backward.default
_log_softmax_backward = torch.ops.aten._log_softmax_backward_data.out


def needs_tracing(given: LossInput) -> bool:
    """Whether the traceable way must be gone."""
    # torch has no public name for "a torch.func transform is active", and autograd.Function's own support for them
    # costs more per call than all of a small loss.
    transformed = torch._C._are_functorch_transforms_active()
    return given.target.requires_grad or torch.compiler.is_compiling() or transformed


class _FusedFocal(torch.autograd.Function):
    """The loss and its gradient in one pass.

    ``traceable`` computes the same loss from ``logits`` with operations that can be differentiated again. The logits
    are held only weakly for it, so that a second derivative costs nothing to those who don't ask for one.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        given: LossInput,
        policy: GammaPolicy,
        smoothing: float,
        traceable: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """``given`` is made of ``logits``, which may have more dimensions and half precision."""
        gradient = torch.empty_like(given.logits) if ctx.needs_input_grad[0] else None
        terms = _all_terms(given, policy, smoothing, gradient)
        ctx.save_for_backward(gradient)
        ctx.mass = given.mass()
        ctx.logits, ctx.version, ctx.traceable = TensorWeakRef(logits), logits._version, traceable
        ctx.shape, ctx.dtype = logits.shape, logits.dtype
        return given.reduce(terms, ctx.mass)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Scales the gradient; under ``create_graph`` takes the traceable way, which can be differentiated again."""
        if torch.is_grad_enabled():
            return _differentiable_gradient(ctx, upstream), None, None, None, None
        (gradient,) = ctx.saved_tensors
        scale = upstream if ctx.mass is None else upstream / at_least_tiny(ctx.mass)
        scaled = gradient * (scale.reshape(-1, 1) if upstream.dim() else scale)
        return _unflatten(scaled, ctx.shape).to(ctx.dtype), None, None, None, None


fused_focal: Callable[..., Tensor] = _FusedFocal.apply


def _differentiable_gradient(ctx: Any, upstream: Tensor) -> Tensor:
    logits = ctx.logits()
    if logits is None or logits._version != ctx.version:
        raise RuntimeError(
            "A second derivative of the focal loss needs its logits: keep a reference to them, unchanged, until "
            "backward(create_graph=True), or use torch.func."
        )
    loss: Tensor = ctx.traceable(logits)
    gradient: Tensor = torch.autograd.grad(loss, logits, upstream, create_graph=True)[0]
    return gradient


def _unflatten(rows: Tensor, shape: torch.Size) -> Tensor:
    if len(shape) <= 2:
        return rows.reshape(shape)
    return rows.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)


def _all_terms(given: LossInput, policy: GammaPolicy, smoothing: float, gradient: Tensor | None) -> Tensor:
    blocks = [
        _block_terms(given.rows(rows), policy, smoothing, None if gradient is None else gradient[rows])
        for rows in _blocks(given.logits)
    ]
    return torch.cat(blocks) if blocks else _block_terms(given, policy, smoothing, gradient)


def _blocks(logits: Tensor) -> Iterator[slice]:
    """Blocks of rows, none where one block holds them all; an accelerator has its own way with memory and gets one."""
    if logits.device.type != "cpu" or logits.numel() <= _BLOCK_ELEMENTS:
        return
    rows = max(1, _BLOCK_ELEMENTS // logits.shape[1])
    for start in range(0, len(logits), rows):
        yield slice(start, start + rows)


def _block_terms(block: LossInput, policy: GammaPolicy, smoothing: float, gradient: Tensor | None) -> Tensor:
    if block.is_hard and smoothing == 0:
        return _hard_block(block, policy, gradient)
    return _soft_block(block, policy, smoothing, gradient)


def _hard_block(block: LossInput, policy: GammaPolicy, gradient: Tensor | None) -> Tensor:
    """Terms of class indices; writes g(p_y, γ) · w_y · (softmax − onehot) into ``gradient``."""
    log_p = torch.log_softmax(block.logits, 1)
    nll = functional.nll_loss(log_p, block.target, ignore_index=block.ignore_index, reduction="none")
    power, factor = _power_and_factor(nll, policy)
    terms = power * nll
    if block.weight is not None:
        weight = block.sample_weight(block.valid())
        # A class of weight 0 costs nothing, even where its logit is −inf.
        terms, factor = (weight * terms).masked_fill_(weight == 0, 0), weight * factor
    if gradient is not None:
        # PyTorch's own backward steps, which pass over ignored targets; the empty tensor stands for an unused weight.
        pull = _nll_backward(factor, log_p, block.target, None, 0, block.ignore_index, nll.new_empty(()))
        _log_softmax_backward(pull, log_p, 1, log_p.dtype, out=gradient)
    return terms


def _soft_block(block: LossInput, policy: GammaPolicy, smoothing: float, gradient: Tensor | None) -> Tensor:
    """Terms of class probabilities; writes p_k Σ_y w_y q_y g_y − w_k q_k g_k into ``gradient``."""
    mass = _class_mass(block, smoothing)
    log_p = torch.log_softmax(block.logits, 1)
    nll = -log_p
    power, factor = _power_and_factor(nll, policy)
    if gradient is not None:
        _log_softmax_backward(factor.mul_(mass).neg_(), log_p, 1, log_p.dtype, out=gradient)
    return power.mul_(nll).mul_(mass).masked_fill_(mass == 0, 0).sum(1)


def _power_and_factor(nll: Tensor, policy: GammaPolicy) -> tuple[Tensor, Tensor]:
    # A dozen operations on a hundred numbers cost mostly their calls, and NumPy's cost a quarter of PyTorch's.
    if type(nll) is Tensor and nll.device.type == "cpu" and nll.numel() <= _SMALL:
        values = nll.numpy()
        power, factor = power_and_factor(values, policy.for_nll(values))
        return torch.from_numpy(power), torch.from_numpy(factor)
    return power_and_factor(nll, policy.for_nll(nll))


def _class_mass(given: LossInput, smoothing: float) -> Tensor:
    """(M, C) w_y q_y."""
    q = given.class_probabilities(smoothing)
    return q if given.weight is None else q * given.weight


def traceable_focal(given: LossInput, policy: GammaPolicy, smoothing: float) -> Tensor:
    """The loss by plain differentiable operations."""
    log_p = torch.log_softmax(given.logits, 1)
    if given.is_hard and smoothing == 0:
        valid = given.valid()
        nll = -log_p.gather(1, (given.target * valid).unsqueeze(1)).squeeze(1)
        mass = given.sample_weight(valid)
        terms = mass * _forgiven(_traceable_terms(nll, policy), mass)
    else:
        mass = _class_mass(given, smoothing)
        terms = (mass * _forgiven(_traceable_terms(-log_p, policy), mass)).sum(1)
    return given.reduce(terms, given.mass())


def _traceable_terms(nll: Tensor, policy: GammaPolicy) -> Tensor:
    """(1 − p)^γ · nll with derivatives that are finite at p = 0 and p = 1.

    The power is taken of a bounded u, and what exceeds the bound is added: there (1 − p)^γ is 1.
    """
    finfo = torch.finfo(nll.dtype)
    bounded = nll.clamp(max=1 / finfo.eps)
    return focal_power(bounded.clamp(min=finfo.tiny), policy.for_nll(nll)) * bounded + (nll - bounded)


def _forgiven(terms: Tensor, mass: Tensor) -> Tensor:
    """0 in place of an infinite term that the target has no mass on: 0 · log 0 counts as 0."""
    return torch.where((mass == 0) & (terms == torch.inf), 0.0, terms)
