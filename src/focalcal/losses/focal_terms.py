"""Focal terms and their gradient, −Σ_y w_y q_y (1 − p_y)^γ(p_y) log p_y, for input that has been checked.

Two implementations give the same numbers:

- fused, for ordinary eager training: one pass over chunks of rows that fit into the cache computes the terms and, in
  closed form, the gradient p_k Σ_y w_y q_y g_y − w_k q_k g_k. That one (M, C) tensor is all that is kept, and the
  backward pass is one multiplication.
- traceable, plain differentiable operations, for ``torch.compile``, ``torch.export`` and ``torch.func``, for targets
  that need a gradient themselves, and for second derivatives.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter, functional
from torch.utils.weak import TensorWeakRef

from focalcal.base.chunks import IN_CACHE, chunks
from focalcal.gamma import GammaPolicy, focal_power, power_and_factor
from focalcal.losses.loss_input import Divisor, LossInput, nonzero, transforms_active

# Up to this many logits the calls cost more than the arithmetic, and NumPy's calls cost less than PyTorch's.
_FEW = 2**14


def needs_tracing(given: LossInput) -> bool:
    """Return whether the loss has to be computed by differentiable operations."""
    if given.target.requires_grad or torch.compiler.is_compiling() or transforms_active():
        return True
    # On an accelerator, and for a subclass such as a fake tensor, there are no values for NumPy.
    return given.is_hard and not (given.logits.is_cpu and type(given.logits) in (Tensor, Parameter))


class FocalRule(NamedTuple):
    """The γ policy, and ε of PyTorch's label smoothing."""

    policy: GammaPolicy
    smoothing: float

    def is_sparse(self, given: LossInput) -> bool:
        """Return whether only one class per sample has a term."""
        return given.is_hard and self.smoothing == 0


# ---------------------------------------------------------------- fused


class Source:
    """The user's logits, held weakly: a second derivative needs them, and without one they cost nothing."""

    def __init__(
        self, logits: Tensor, others: tuple[Tensor | None, ...], prepare: Callable[[Tensor], LossInput]
    ) -> None:
        self._logits, self._others, self._prepare = TensorWeakRef(logits), others, prepare
        self._versions = _versions(logits, *others)

    def prepare_again(self) -> LossInput:
        """Prepare the input of the loss again, connected to the logits."""
        logits = self._logits()
        if logits is None or _versions(logits, *self._others) != self._versions:
            raise RuntimeError(
                "A second derivative of the focal loss needs its logits: keep a reference to them, and leave them, the "
                "target and the weights unchanged until backward(create_graph=True), or use torch.func."
            )
        # A view, so that hooks on the logits do not run twice.
        return self._prepare(logits.view_as(logits))


def _versions(*tensors: Tensor | None) -> list[int]:
    return [-1 if t is None or t.is_inference() else t._version for t in tensors]


class _FusedFocal(torch.autograd.Function):
    """The loss and its gradient in one pass."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, given: LossInput, rule: FocalRule, source: Source) -> Tensor:
        """Compute the loss; ``logits`` are those of ``given``, (M, C)."""
        loss, gradient = _loss_and_gradient(given, rule, ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient)
        ctx.rule, ctx.source = rule, source
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        """Scale the gradient; under ``create_graph`` compute it again in a way that can be differentiated."""
        if torch.is_grad_enabled():
            return _differentiable_gradient(ctx.source.prepare_again(), ctx.rule, upstream), None, None, None
        (gradient,) = ctx.saved_tensors
        if upstream.dim():
            upstream = upstream.reshape(-1, 1)
        elif upstream.is_cpu and upstream.item() == 1:
            return gradient, None, None, None  # as it is after loss.backward()
        return gradient * upstream, None, None, None


_apply_fused: Callable[..., Tensor] = _FusedFocal.apply


def fused_focal(given: LossInput, rule: FocalRule, source: Callable[[], Source]) -> Tensor:
    """Compute the loss in one pass with its gradient; ``source`` is called only if there may be a gradient."""
    if torch.is_grad_enabled() and given.logits.requires_grad:
        return _apply_fused(given.logits, given, rule, source())
    with torch.no_grad():
        return _loss_and_gradient(given, rule, False)[0]


def _differentiable_gradient(given: LossInput, rule: FocalRule, upstream: Tensor) -> Tensor:
    loss = traceable_focal(given, rule)
    gradient: Tensor = torch.autograd.grad(loss, given.logits, upstream, create_graph=True)[0]
    return gradient


def _loss_and_gradient(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Return the reduced loss and its gradient, (M, C); for "none" the gradient of each sample's loss."""
    return (_index_loss if rule.is_sparse(given) else _class_loss)(given, rule, wants_gradient)


def _index_loss(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Return the loss of class indices and its gradient, g(p_y, γ) · w_y · (softmax − onehot).

    What there is one of per sample is computed by NumPy, whose calls cost less than PyTorch's.
    """
    few = given.logits.numel() <= _FEW
    softmax, nll = (_log_softmax if few else _softmax)(given)
    power, factor = power_and_factor(nll, rule.policy.for_nll(nll))
    index, divisor = given.target.numpy(), len(nll)
    valid = index != given.ignore_index
    if given.weight is not None or np.count_nonzero(valid) < divisor:
        weight = given.sample_weight(torch.from_numpy(valid)).numpy()
        index, divisor = index * valid, weight.sum(dtype=np.float64)
        # What is ignored, or of a class of weight 0, costs nothing, even where its logit is −inf.
        power, factor, nll = power * weight, factor * weight, np.where(weight == 0, 0, nll)
    if wants_gradient:
        if given.reduction == "mean":
            factor /= divisor or 1
        (_few_gradients if few else _many_gradients)(softmax, index, factor)
    return _reduce(power, nll, divisor, given), softmax if wants_gradient else None


def _log_softmax(given: LossInput) -> tuple[Tensor, np.ndarray]:
    """Return (M, C) log p and (M,) −log p_y, 0 for the ignored."""
    log_p = torch.log_softmax(given.logits, 1)
    nll = functional.nll_loss(log_p, given.target, ignore_index=given.ignore_index, reduction="none")
    return log_p, nll.numpy()


def _few_gradients(log_p: Tensor, index: np.ndarray, factor: np.ndarray) -> None:
    """Turn log p into factor · (p − onehot)."""
    values = log_p.numpy()
    samples, classes = values.shape
    np.exp(values, out=values)
    values *= factor[:, None]
    values.reshape(-1)[np.arange(0, samples * classes, classes) + index] -= factor


def _softmax(given: LossInput) -> tuple[Tensor, np.ndarray]:
    """Return (M, C) p and (M,) −log p_y, 0 for the ignored; one exponential per logit instead of two.

    −log p_y comes from the largest p, which never underflows, and the largest logit is subtracted first, so that
    nothing is lost where all logits are far from 0.
    """
    logits, p, valid = given.logits, torch.empty_like(given.logits), given.valid()
    nll = logits.gather(1, (given.target * valid).unsqueeze(1)).squeeze(1)
    for rows in chunks(len(p), p.shape[1], IN_CACHE * torch.get_num_threads()):
        torch.softmax(logits[rows], 1, out=p[rows])
        nll[rows] = (logits[rows].amax(1) - nll[rows]) - p[rows].amax(1).log()
    return p, nll.masked_fill_(~valid, 0).numpy()


def _many_gradients(p: Tensor, index: np.ndarray, factor: np.ndarray) -> None:
    """Turn p into factor · (p − onehot)."""
    pull = torch.from_numpy(factor).unsqueeze(1)
    p.mul_(pull).scatter_add_(1, torch.from_numpy(index).unsqueeze(1), -pull)


def _reduce(power: np.ndarray, nll: np.ndarray, divisor: float, given: LossInput) -> Tensor:
    if given.reduction == "none":
        return torch.from_numpy(power * nll).reshape(given.shape).to(given.dtype)
    total = float(np.dot(power.astype(np.float64), nll))
    if given.reduction == "mean":
        total = total / divisor if divisor else total * math.inf  # 0 / 0 is NaN, as in PyTorch
    loss = torch.from_numpy(np.asarray(total, dtype=nll.dtype))
    return loss if loss.dtype == given.dtype else loss.to(given.dtype)


def _class_loss(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Return the loss of class probabilities and its gradient, p_k Σ_y w_y q_y g_y − w_k q_k g_k."""
    gradient, divisor = torch.empty_like(given.logits) if wants_gradient else None, given.divisor()
    (samples, classes), threads = given.logits.shape, torch.get_num_threads()
    # An accelerator has its own way with memory and gets all rows at once.
    budget = IN_CACHE * threads if given.logits.is_cpu else given.logits.numel()
    terms = [
        _class_terms(given.rows(rows), rule, divisor, None if gradient is None else gradient[rows])
        for rows in chunks(samples, classes, budget)
    ]
    return given.reduce(torch.cat([given.logits.new_empty(0), *terms]), divisor), gradient


def _class_terms(given: LossInput, rule: FocalRule, divisor: Divisor, gradient: Tensor | None) -> Tensor:
    log_p = torch.log_softmax(given.logits, 1, out=gradient)
    nll, mass = -log_p, _class_mass(given, rule)
    power, factor = power_and_factor(nll, rule.policy.for_nll(nll))
    if gradient is not None:
        pull = factor.mul_(mass)
        pull = pull if divisor is None else pull.div_(nonzero(divisor))
        gradient.exp_().mul_(pull.sum(1, keepdim=True)).sub_(pull)
    return power.mul_(nll).mul_(mass).masked_fill_(mass == 0, 0).sum(1)


def _class_mass(given: LossInput, rule: FocalRule) -> Tensor:
    """Return (M, C) w_y q_y."""
    q = given.class_probabilities(rule.smoothing)
    return q if given.weight is None else q * given.weight


# ---------------------------------------------------------------- traceable


def traceable_focal(given: LossInput, rule: FocalRule) -> Tensor:
    """Compute the loss by plain differentiable operations."""
    log_p = torch.log_softmax(given.logits, 1)
    if rule.is_sparse(given):
        nll = functional.nll_loss(log_p, given.target, ignore_index=given.ignore_index, reduction="none")
        terms = _weigh(_differentiable_terms(nll, rule.policy), given.sample_weight(given.valid()))
    else:
        terms = _weigh(_differentiable_terms(-log_p, rule.policy), _class_mass(given, rule)).sum(1)
    return given.reduce(terms, given.divisor())


def _weigh(terms: Tensor, mass: Tensor) -> Tensor:
    """Multiply terms by their mass; 0 · log 0 counts as 0."""
    return mass * torch.where((mass == 0) & (terms == torch.inf), 0.0, terms)


def _differentiable_terms(nll: Tensor, policy: GammaPolicy) -> Tensor:
    """Compute (1 − p)^γ · nll with derivatives that are finite at p = 0 and p = 1.

    The power is taken of a bounded nll, and what exceeds the bound is added: there (1 − p)^γ is 1.
    """
    limits = torch.finfo(nll.dtype)
    bounded = nll.clamp(max=1 / limits.eps)
    return focal_power(bounded.clamp(min=limits.tiny), policy.for_nll(nll.detach())) * bounded + (nll - bounded)
