"""The focal loss of checked input, −Σ_y w_y q_y (1 − p_y)^γ(p_y) log p_y, and its gradient.

Two ways to the same numbers:

- fused, for ordinary eager training: one pass over blocks of rows that fit the cache computes the terms and, in closed
  form, the gradient p_k Σ_y w_y q_y g_y − w_k q_k g_k. That one (M, C) tensor is all that is kept, and a backward pass
  is one multiplication.
- traceable, plain differentiable operations, for ``torch.compile``, ``torch.export`` and ``torch.func``, for targets
  that need a gradient themselves, and for second derivatives.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils.weak import TensorWeakRef

from focalcal.gamma import GammaPolicy, focal_power, power_and_factor
from focalcal.losses.inputs import LossInput, nonzero, transforms_active

Prepare = Callable[[Tensor], LossInput]

# Elements of a block of rows: small enough for a cache, large enough to hide the cost of a call.
_BLOCK_ELEMENTS = 1 << 20
# Up to so many logits the calls cost more than the arithmetic, and NumPy's calls cost less than PyTorch's.
_FEW = 1 << 14


def needs_tracing(given: LossInput) -> bool:
    """Whether the traceable way must be gone."""
    return given.target.requires_grad or torch.compiler.is_compiling() or transforms_active()


@dataclass(frozen=True)
class FocalRule:
    """How the loss is computed: the γ policy and ε of PyTorch's smoothing."""

    policy: GammaPolicy
    smoothing: float


class Source:
    """The user's logits, held weakly: for a second derivative, which then costs nothing to who doesn't ask for one."""

    def __init__(
        self, logits: Tensor, others: tuple[Tensor | None, ...], prepare: Callable[[Tensor], LossInput]
    ) -> None:
        self._logits, self._others, self._prepare = TensorWeakRef(logits), others, prepare
        self._versions = _versions(logits, *others)

    def again(self) -> LossInput:
        """The input of the loss once more, connected to the logits."""
        logits = self._logits()
        if logits is None or _versions(logits, *self._others) != self._versions:
            raise RuntimeError(
                "A second derivative of the focal loss needs its logits: keep a reference to them, unchanged as the "
                "target and the weights, until backward(create_graph=True), or use torch.func."
            )
        # A view, lest hooks on the logits run twice.
        return self._prepare(logits.view_as(logits))


def _versions(*tensors: Tensor | None) -> list[int]:
    return [-1 if t is None or t.is_inference() else t._version for t in tensors]


class _FusedFocal(torch.autograd.Function):
    """The loss and its gradient in one pass."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, given: LossInput, rule: FocalRule, source: Source) -> Tensor:
        """``logits`` are those of ``given``, (M, C)."""
        loss, gradient = _loss_and_gradient(given, rule, ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient)
        ctx.rule, ctx.source = rule, source
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        """Scales the gradient; under ``create_graph`` takes the traceable way, which can be differentiated again."""
        if torch.is_grad_enabled():
            return _differentiable_gradient(ctx.source.again(), ctx.rule, upstream), None, None, None
        (gradient,) = ctx.saved_tensors
        return gradient * (upstream.reshape(-1, 1) if upstream.dim() else upstream), None, None, None


_apply_fused: Callable[..., Tensor] = _FusedFocal.apply


def fused_focal(given: LossInput, rule: FocalRule, source: Callable[[], Source]) -> Tensor:
    """The loss by the fused way; ``source`` is asked for only where a gradient may be."""
    if torch.is_grad_enabled() and given.logits.requires_grad:
        return _apply_fused(given.logits, given, rule, source())
    with torch.no_grad():
        return _loss_and_gradient(given, rule, False)[0]


def _loss_and_gradient(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """The reduced loss and its gradient, (M, C); for "none" the gradient of each sample's loss."""
    return (_small_loss if _is_small(given, rule) else _blockwise_loss)(given, rule, wants_gradient)


def _differentiable_gradient(given: LossInput, rule: FocalRule, upstream: Tensor) -> Tensor:
    loss = traceable_focal(given, rule)
    gradient: Tensor = torch.autograd.grad(loss, given.logits, upstream, create_graph=True)[0]
    return gradient


def _blockwise_loss(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """By blocks of rows."""
    gradient, mass = torch.empty_like(given.logits) if wants_gradient else None, given.mass()
    scale = 1.0 if mass is None else 1 / nonzero(mass)
    compute = _hard_block if given.is_hard and rule.smoothing == 0 else _soft_block
    terms = [
        compute(given.rows(rows), rule, scale, None if gradient is None else gradient[rows])
        for rows in _blocks(given.logits)
    ]
    return given.reduce(torch.cat(terms), mass), gradient


def _blocks(logits: Tensor) -> Iterator[slice]:
    """Blocks of rows that fit the cache; an accelerator has its own way with memory and gets one block."""
    elements = _BLOCK_ELEMENTS * torch.get_num_threads()
    rows = elements // logits.shape[1] if logits.device.type == "cpu" else len(logits)
    for start in range(0, max(1, len(logits)), max(1, rows)):
        yield slice(start, start + max(1, rows))


def _hard_block(block: LossInput, rule: FocalRule, scale: Tensor | float, gradient: Tensor | None) -> Tensor:
    """Terms of class indices; writes g(p_y, γ) · w_y · (softmax − onehot), scaled, into ``gradient``."""
    p = torch.softmax(block.logits, 1, out=gradient)
    valid = block.valid()
    index = (block.target * valid).unsqueeze(1)
    nll = _nll(block.logits, p, block.logits.gather(1, index)).squeeze(1)
    power, factor = power_and_factor(nll, rule.policy.for_nll(nll))
    weight = block.sample_weight(valid)
    if gradient is not None:
        pull = (factor * weight * scale).unsqueeze(1)
        p.mul_(pull).scatter_add_(1, index, -pull)
    # What is ignored, or of a class of weight 0, costs nothing, even where its logit is −inf.
    return (power * nll * weight).masked_fill_(weight == 0, 0)


def _soft_block(block: LossInput, rule: FocalRule, scale: Tensor | float, gradient: Tensor | None) -> Tensor:
    """Terms of class probabilities; writes p_k Σ_y w_y q_y g_y − w_k q_k g_k, scaled, into ``gradient``."""
    p = torch.softmax(block.logits, 1, out=gradient)
    nll = _nll(block.logits, p, block.logits)
    mass = _class_mass(block, rule.smoothing)
    power, factor = power_and_factor(nll, rule.policy.for_nll(nll))
    if gradient is not None:
        pull = factor.mul_(mass).mul_(scale)
        p.mul_(pull.sum(1, keepdim=True)).sub_(pull)
    return power.mul_(nll).mul_(mass).masked_fill_(mass == 0, 0).sum(1)


def _nll(logits: Tensor, p: Tensor, of: Tensor) -> Tensor:
    """−log p of the classes with logits ``of``, by the largest p, which never underflows: saves a second exponential.

    The largest logit is subtracted first, so that nothing is lost where all logits are far from 0.
    """
    return (logits.amax(1, keepdim=True) - of) - p.amax(1, keepdim=True).log()


def _is_small(given: LossInput, rule: FocalRule) -> bool:
    """Whether ``_small_loss`` may compute this; a subclass, such as a fake tensor, may have no values for NumPy."""
    logits = given.logits
    plain = given.weight is None and rule.smoothing == 0 and given.is_hard
    return plain and logits.numel() <= _FEW and logits.is_cpu and type(logits) in (Tensor, Parameter)


def _small_loss(given: LossInput, rule: FocalRule, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """What ``_blockwise_loss`` gives, for few logits on a CPU with class indices and without class weights."""
    log_p = torch.log_softmax(given.logits, 1)
    values, index = log_p.numpy(), given.target.numpy()
    samples, classes = values.shape
    valid = index != given.ignore_index
    count = int(np.count_nonzero(valid))
    all_valid = count == samples
    index = index if all_valid else index * valid
    # As unsigned numbers, negative indices are huge.
    if count and index.view(np.uint64).max() >= classes:
        raise IndexError("A target is out of range.")
    place = np.arange(0, samples * classes, classes) + index
    nll = -values.take(place)
    power, factor = power_and_factor(nll, rule.policy.for_nll(nll))
    if not all_valid:
        nll[~valid] = power[~valid] = factor[~valid] = 0
    if wants_gradient:
        if given.reduction == "mean":
            factor /= max(count, 1)
        np.exp(values, out=values)
        values *= factor[:, None]
        values.reshape(-1)[place] -= factor
    return _reduce_small(power, nll, given, count), log_p if wants_gradient else None


def _reduce_small(power: np.ndarray, nll: np.ndarray, given: LossInput, count: int) -> Tensor:
    if given.reduction == "none" or not count:
        return given.reduce(torch.from_numpy(power * nll), count if given.reduction == "mean" else None)
    total = np.dot(power, nll)
    loss = torch.from_numpy(np.asarray(total if given.reduction == "sum" else total / count, dtype=nll.dtype))
    return loss if loss.dtype == given.dtype else loss.to(given.dtype)


# ---------------------------------------------------------------- traceable


def _class_mass(given: LossInput, smoothing: float) -> Tensor:
    """(M, C) w_y q_y."""
    q = given.class_probabilities(smoothing)
    return q if given.weight is None else q * given.weight


def traceable_focal(given: LossInput, rule: FocalRule) -> Tensor:
    """The loss by plain differentiable operations."""
    log_p = torch.log_softmax(given.logits, 1)
    if given.is_hard and rule.smoothing == 0:
        valid = given.valid()
        nll = -log_p.gather(1, (given.target * valid).unsqueeze(1)).squeeze(1)
        mass = given.sample_weight(valid)
        terms = torch.where(mass == 0, 0.0, mass * _forgiven(_traceable_terms(nll, rule.policy), mass))
    else:
        mass = _class_mass(given, rule.smoothing)
        terms = (mass * _forgiven(_traceable_terms(-log_p, rule.policy), mass)).sum(1)
    return given.reduce(terms, given.mass())


def _traceable_terms(nll: Tensor, policy: GammaPolicy) -> Tensor:
    """(1 − p)^γ · nll with derivatives that are finite at p = 0 and p = 1.

    The power is taken of a bounded u, and what exceeds the bound is added: there (1 − p)^γ is 1.
    """
    finfo = torch.finfo(nll.dtype)
    bounded = nll.clamp(max=1 / finfo.eps)
    return focal_power(bounded.clamp(min=finfo.tiny), policy.for_nll(nll.detach())) * bounded + (nll - bounded)


def _forgiven(terms: Tensor, mass: Tensor) -> Tensor:
    """0 in place of an infinite term that the target has no mass on: 0 · log 0 counts as 0."""
    return torch.where((mass == 0) & (terms == torch.inf), 0.0, terms)
