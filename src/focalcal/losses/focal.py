"""Focal loss, multi-class and binary, with γ fixed or chosen by a policy."""

import torch
from torch import Tensor, nn

from focalcal.gamma import GammaPolicy, as_policy
from focalcal.losses.focal_terms import FocalRule, Source, fused_focal, needs_tracing, traceable_focal
from focalcal.losses.loss_input import (
    LossInput,
    Reduction,
    check_indices,
    check_options,
    check_values,
    check_weight,
    prepare,
)


def focal_loss(
    logits: Tensor,
    target: Tensor,
    gamma: float | GammaPolicy = 3.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    validate: bool = False,
) -> Tensor:
    """Compute the focal loss of logits, −Σ_y w_y q_y (1 − p_y)^γ log p_y with p = softmax(logits).

    Everything but γ means what it means in ``torch.nn.functional.cross_entropy``, to which it is equal at γ = 0.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …). −inf masks a class. Half precision is computed in float32.
        target: Class indices of shape (), (N,) or (N, d1, …), or class probabilities q of the logits' shape. They need
            not sum to 1.
        gamma: γ ≥ 0, or a policy: ``FixedGamma``, ``SampleGamma``, or ``EpochGamma(…).at_epoch(e)``. Each class that
            the target has mass on gets the γ of its own probability; the choice is not differentiated.
        weight: (C,) weights of the classes. As in PyTorch, the mean over class indices divides by the sum of weights.
        ignore_index: Class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing, q ← (1 − ε) q + ε / C, before the focal factor. The paper's own
            smoothing spreads over the other C − 1 classes: see ``smoothed_cross_entropy``.
        reduction: "mean", "sum" or "none".
        validate: Also check the values, which synchronises an accelerator: NaN, +inf, negative weights, indices.

    Returns:
        A scalar, or the loss of each sample for "none"; of the logits' type, float32 under autocast.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> focal_loss(logits, torch.tensor([0, 2]), gamma=3.0).round(decimals=4)
        tensor(0.3808)
    """
    policy = as_policy(gamma)
    check_options(reduction, label_smoothing)

    def prepared(logits: Tensor) -> LossInput:
        return prepare(logits, target, weight=weight, ignore_index=ignore_index, reduction=reduction)

    given, rule = prepared(logits), FocalRule(policy, label_smoothing)
    if validate:
        check_values(given)
    if needs_tracing(given):
        return traceable_focal(given, rule)
    try:
        return fused_focal(given, rule, lambda: Source(logits, (target, weight), prepared))
    except (IndexError, RuntimeError):
        check_indices(given)
        raise


class FocalLoss(nn.Module):
    """``focal_loss`` as a module that replaces ``torch.nn.CrossEntropyLoss``.

    Args:
        gamma: γ ≥ 0 or a policy. With ``EpochGamma`` call ``set_epoch`` at the start of each epoch.
        weight: (C,) weights of the classes; a buffer that moves with the module.
        ignore_index: Class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing.
        reduction: "mean", "sum" or "none".
        validate: Also check the values in each call.

    Examples:
        >>> import torch, focalcal as fc
        >>> criterion = fc.FocalLoss(fc.SampleGamma.flsd53())
        >>> criterion(torch.zeros(4, 5), torch.tensor([0, 1, 2, 3])).round(decimals=4)  # p = 0.2 takes γ = 3
        tensor(0.8240)
    """

    weight: Tensor | None

    def __init__(
        self,
        gamma: float | GammaPolicy = 3.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        validate: bool = False,
    ) -> None:
        super().__init__()
        check_options(reduction, label_smoothing)
        check_weight(weight)
        self.gamma = as_policy(gamma)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.reduction: Reduction = reduction
        self.validate = validate
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell a γ schedule the epoch, counted from 0; other policies ignore it."""
        self.gamma.at_epoch(epoch)  # raises if there is no such epoch
        self.epoch = epoch

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the focal loss of logits (N, C, …) and class indices or class probabilities."""
        return focal_loss(
            logits,
            target,
            self.gamma.at_epoch(self.epoch),
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
            validate=self.validate,
        )

    def extra_repr(self) -> str:
        """Show the γ policy, the reduction and the smoothing."""
        return f"{self.gamma}, reduction={self.reduction!r}, label_smoothing={self.label_smoothing}"


def binary_focal_loss(
    logit: Tensor,
    target: Tensor,
    gamma: float | GammaPolicy = 3.0,
    *,
    pos_weight: Tensor | float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the focal loss of one logit per decision: the two-class ``focal_loss`` of logits (0, z).

    With p = sigmoid(z) and a target t in [0, 1]: −t w (1 − p)^γ log p − (1 − t) p^γ log(1 − p). At γ = 0 it is
    ``binary_cross_entropy_with_logits``.

    Args:
        logit: z of any shape.
        target: Probability of the positive class, of the same shape; booleans and 0/1 integers work too.
        gamma: γ ≥ 0 or a policy; each of the two terms takes the γ of its own probability.
        pos_weight: w, weight of the positive class; a number, or a tensor that broadcasts with ``logit``.
        reduction: "mean", "sum" or "none".

    Returns:
        A scalar, or the loss of each element for "none".

    Examples:
        >>> import torch
        >>> binary_focal_loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 1]), gamma=2.0).round(decimals=4)
        tensor(0.3518)
    """
    if not isinstance(logit, Tensor) or not logit.is_floating_point():
        raise TypeError("The logit must be a floating-point tensor.")
    if not isinstance(target, Tensor) or target.shape != logit.shape:
        shape = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"A logit of shape {tuple(logit.shape)} needs a target of the same shape, got {shape}.")
    if target.is_complex():
        raise TypeError("The target must hold probabilities of the positive class, got complex numbers.")
    check_options(reduction)
    positive = target.to(logit.dtype)
    mass = torch.stack([1 - positive, positive * _positive_weight(pos_weight, logit)], -1).reshape(-1, 2)
    pairs = torch.stack([torch.zeros_like(logit), logit], -1).reshape(-1, 2)
    # Traceable: only this function holds the pairs, which a second derivative of the fused one would need.
    given = prepare(pairs, mass, reduction="none")
    terms = traceable_focal(given, FocalRule(as_policy(gamma), 0.0)).reshape(logit.shape)
    return {"none": terms, "sum": terms.sum(), "mean": terms.mean()}[reduction]


def _positive_weight(pos_weight: Tensor | float | None, logit: Tensor) -> Tensor | float:
    if pos_weight is None:
        return 1.0
    if not isinstance(pos_weight, Tensor):
        return pos_weight
    try:
        return pos_weight.expand(logit.shape)
    except RuntimeError:
        shapes = f"{tuple(pos_weight.shape)} does not broadcast to the logit's {tuple(logit.shape)}"
        raise ValueError(f"pos_weight of shape {shapes}.") from None
