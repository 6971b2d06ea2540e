"""Output layer and focal loss in one, chunk by chunk: the logits of a large vocabulary are never held together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalcal.base.chunks import IN_CACHE, chunks
from focalcal.gamma import FixedGamma, GammaPolicy, as_policy
from focalcal.losses.focal import focal_loss
from focalcal.losses.loss_input import Reduction, check_options, nonzero, transforms_active

# Logits of a chunk, 32 MB: with fewer the gradient of the weight is read and written too often.
_CHUNK_LOGITS = 2**23
_HALF = (torch.float16, torch.bfloat16)
_Three = tuple[Tensor | None, Tensor | None, Tensor | None]


def linear_focal_loss(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    gamma: float | GammaPolicy = 3.0,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    chunk_rows: int | None = None,
) -> Tensor:
    """Compute the focal loss of the logits ``hidden @ weight.T + bias``, without ever holding all of them.

    It is ``focal_loss`` of a linear layer's output, for vocabularies so large that the logits of a batch and their
    gradient take more memory than the network. Rows are taken in chunks: each gives its part of the loss and of the
    gradients of ``hidden``, ``weight`` and ``bias``, and its logits are forgotten. The gradients are computed with the
    loss, so that a backward pass is a multiplication; with ``reduction="none"``, in the backward pass.

    Args:
        hidden: (…, D) what the layer is given.
        weight: (V, D) of the layer.
        target: (…) class indices.
        gamma: γ ≥ 0 or a policy, as in ``focal_loss``; 0 is cross-entropy.
        bias: (V,) of the layer.
        ignore_index: Class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing.
        reduction: "mean", "sum" or "none".
        chunk_rows: Rows of a chunk; by default as many as have eight million logits.

    Returns:
        A scalar, or the loss of each row for "none". Products are computed in the type of ``hidden`` and ``weight`` (or
        in autocast's), the softmax and all sums in float32 or better.

    Examples:
        >>> import torch
        >>> hidden, weight = torch.tensor([[1.0, 2.0], [0.5, -1.0]]), torch.eye(3, 2)
        >>> linear_focal_loss(hidden, weight, torch.tensor([1, 0]), gamma=1.0).round(decimals=4)
        tensor(0.2052)
        >>> focal_loss(hidden @ weight.T, torch.tensor([1, 0]), gamma=1.0).round(decimals=4)
        tensor(0.2052)
    """
    check_options(reduction, label_smoothing)
    _check(hidden, weight, target, bias, chunk_rows)
    rows, labels = hidden.reshape(-1, hidden.shape[-1]), target.reshape(-1).long()
    rule = _Rule(as_policy(gamma), ignore_index, label_smoothing, chunk_rows)
    if torch.compiler.is_compiling() or transforms_active():
        losses = rule.losses(functional.linear(rows, weight, bias), labels)
        return _reduce(losses, labels, rule, reduction).reshape(target.shape if reduction == "none" else ())
    _check_indices(labels, len(weight), ignore_index)
    if reduction == "none":
        each: Tensor = _LinearFocal.apply(rows, weight, bias, labels, rule, None)  # type: ignore[no-untyped-call]
        return each.reshape(target.shape)
    count = (labels != ignore_index).sum()
    scale = torch.ones_like(count) if reduction == "sum" else count
    total: Tensor = _LinearFocal.apply(rows, weight, bias, labels, rule, nonzero(scale))  # type: ignore[no-untyped-call]
    return torch.where(scale == 0, torch.nan, total)  # as in PyTorch, with a gradient of 0


def _reduce(losses: Tensor, labels: Tensor, rule: "_Rule", reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / (labels != rule.ignore_index).sum()


@dataclass(frozen=True)
class _Rule:
    """Rule for the loss of a chunk, and its number of rows."""

    policy: GammaPolicy
    ignore_index: int
    smoothing: float
    chunk_rows: int | None

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute (rows,) losses of logits (rows, V)."""
        logits = logits.float() if logits.dtype in _HALF else logits
        options: Any = {"ignore_index": self.ignore_index, "label_smoothing": self.smoothing, "reduction": "none"}
        if self.policy == FixedGamma(0.0):  # PyTorch's own takes fewer passes over the logits
            return functional.cross_entropy(logits, labels, **options)
        return focal_loss(logits, labels, self.policy, **options)

    def chunks(self, rows: int, classes: int) -> Iterator[slice]:
        """Cut the rows into slices."""
        return chunks(rows, 1, self.chunk_rows) if self.chunk_rows else chunks(rows, classes, _CHUNK_LOGITS)


class _LinearFocal(torch.autograd.Function):
    """The sum of the losses over a divisor, with its gradients; or each loss, whose gradients wait for backward."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        rule: _Rule,
        divisor: Tensor | None,
    ) -> Tensor:
        """Compute losses of ``hidden`` (N, D) and ``labels`` (N,); each of them where there is no divisor."""
        layer = _Layer(hidden, weight, bias)
        counts = None if divisor is None else (1 / divisor.to(layer.sums)).expand(len(labels))
        wanted = (False, False, False) if counts is None else ctx.needs_input_grad[:3]
        losses, gradients = layer.losses_and_gradients(labels, rule, wanted, counts)
        ctx.save_for_backward(hidden, weight, bias, labels, divisor, *gradients)
        ctx.rule = rule
        result = losses if divisor is None else losses.sum() / divisor
        return result.to(layer.result)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients; under ``create_graph`` compute them in a way that can be differentiated again."""
        hidden, weight, bias, labels, divisor, *gradients = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            logits = functional.linear(hidden, weight, bias)  # a name, because focal_loss holds them weakly
            losses = ctx.rule.losses(logits, labels)
            loss = losses if divisor is None else losses.sum() / divisor
            inputs = [one for one, is_wanted in zip((hidden, weight, bias), wanted, strict=True) if is_wanted]
            grads = iter(torch.autograd.grad(loss, inputs, upstream.to(loss.dtype), create_graph=True))
            return *(next(grads) if is_wanted else None for is_wanted in wanted), None, None, None
        if divisor is None:
            _, gradients = _Layer(hidden, weight, bias).losses_and_gradients(labels, ctx.rule, wanted, upstream)
        else:  # a factor that keeps half-precision gradients from vanishing may be larger than half precision holds
            gradients = [None if one is None else one * upstream for one in gradients]
        pairs = zip(gradients, (hidden, weight, bias), strict=True)
        return *(None if one is None else one.to(of.dtype) for one, of in pairs), None, None, None


class _Layer:
    """A linear layer and what it is given, in the types of its products (as in autocast) and of its sums."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        kind, self.device = torch.promote_types(hidden.dtype, weight.dtype), hidden.device.type
        self.result = kind
        if torch.amp.is_autocast_available(self.device) and torch.is_autocast_enabled(self.device):
            kind, self.result = torch.get_autocast_dtype(self.device), torch.float32
        self.sums = torch.float32 if kind in _HALF else kind
        self.hidden, self.weight = hidden.detach().to(kind), weight.detach().to(kind)
        self.bias = None if bias is None else bias.detach().to(kind)

    def losses_and_gradients(
        self, labels: Tensor, rule: _Rule, wanted: tuple[bool, ...], counts: Tensor | None
    ) -> tuple[Tensor, _Three]:
        """Return (N,) losses, and the gradients of their sum with weights ``counts``, in the type of sums."""
        sums, (rows, classes) = self.sums, (len(self.hidden), len(self.weight))
        losses = torch.empty(rows, dtype=sums, device=self.hidden.device)
        of_hidden = torch.empty_like(self.hidden, dtype=sums) if wanted[0] else None
        of_weight = torch.zeros_like(self.weight, dtype=sums) if wanted[1] else None
        of_bias = torch.zeros(classes, dtype=sums, device=losses.device) if wanted[2] else None
        with torch.autocast(self.device, enabled=False):
            for part in rule.chunks(rows, classes):
                share = None if counts is None or not any(wanted) else counts[part].to(sums)
                unit = self._unit(share)
                losses[part], pull = self._chunk(part, labels[part], rule, None if share is None else share / unit)
                if of_bias is not None:
                    of_bias += pull.sum(0, dtype=sums) * unit
                if of_weight is not None:
                    _add_product(of_weight, pull.T, self.hidden[part], unit)
                if of_hidden is not None:
                    _write_product(of_hidden[part], pull, self.weight, unit)
        return losses, (of_hidden, of_weight, of_bias)

    def _unit(self, counts: Tensor | None) -> Tensor | float:
        """Choose what the weights of a chunk are counted in: in float16 a share of 1/N of a small probability is 0."""
        if counts is None or self.hidden.dtype != torch.float16:
            return 1.0
        # Its columns add up to less than 256, far below what float16 holds.
        return counts.abs().max().clamp_min(torch.finfo(counts.dtype).tiny) * max(1.0, len(counts) / 256)

    def _chunk(self, part: slice, labels: Tensor, rule: _Rule, counts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the losses of some rows, and with weights the gradient of their weighted sum in the logits.

        The gradient takes the place of the logits, block by block: there is no second matrix of their size.
        """
        with torch.no_grad():
            logits = functional.linear(self.hidden[part], self.weight, self.bias)
        if counts is None:
            return rule.losses(logits, labels), logits
        losses = torch.empty(len(logits), dtype=self.sums, device=logits.device)
        for rows in chunks(len(logits), logits.shape[1], IN_CACHE if logits.is_cpu else logits.numel()):
            block = logits[rows].detach().requires_grad_()
            with torch.enable_grad():
                of_block = rule.losses(block, labels[rows])
            losses[rows] = of_block.detach()
            logits[rows] = torch.autograd.grad(of_block, block, counts[rows])[0]
        return losses, logits


def _add_product(total: Tensor, left: Tensor, right: Tensor, unit: Tensor | float) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += (left @ right).to(total.dtype) * unit


def _write_product(place: Tensor, left: Tensor, right: Tensor, unit: Tensor | float) -> None:
    if place.dtype == left.dtype:
        torch.mm(left, right, out=place)
    else:
        place.copy_(left @ right).mul_(unit)


def _check(hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, chunk_rows: int | None) -> None:
    for name, given in (("hidden", hidden), ("weight", weight), *([] if bias is None else [("bias", bias)])):
        if not isinstance(given, Tensor) or not given.is_floating_point():
            raise TypeError(f"{name} must be a floating-point tensor.")
    if (
        not isinstance(target, Tensor)
        or target.is_floating_point()
        or target.is_complex()
        or target.dtype == torch.bool
    ):
        raise TypeError("The target must be a tensor of class indices; for class probabilities there is focal_loss.")
    if weight.dim() != 2 or len(weight) < 2:
        raise ValueError(f"The layer's weight must have shape (V, D) with V of at least 2, got {tuple(weight.shape)}.")
    if not hidden.dim() or hidden.shape[-1] != weight.shape[1] or target.shape != hidden.shape[:-1]:
        raise ValueError(
            f"A weight of shape {tuple(weight.shape)} needs hidden of shape (…, {weight.shape[1]}) and class indices "
            f"of shape (…), got {tuple(hidden.shape)} and {tuple(target.shape)}."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{len(weight)} classes need a bias of shape ({len(weight)},), got {tuple(bias.shape)}.")
    if chunk_rows is not None and (isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int) or chunk_rows < 1):
        raise ValueError(f"chunk_rows must be a whole number of at least 1, got {chunk_rows!r}.")


def _check_indices(labels: Tensor, classes: int, ignore_index: int) -> None:
    if labels.device.type != "cpu":
        return  # looking would make the host wait; the device's own check stops a wrong index
    wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignore_index)]
    if len(wrong):
        raise ValueError(
            f"Target {int(wrong[0])} is out of range: {classes} classes are numbered 0 to {classes - 1}, and only "
            f"ignore_index ({ignore_index}) may lie outside."
        )
