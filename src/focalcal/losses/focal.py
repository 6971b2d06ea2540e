"""The focal loss, multi-class and binary, with γ fixed or chosen by a policy."""

import torch
from torch import Tensor, nn

from focalcal.gamma import GammaPolicy, as_policy
from focalcal.losses.focal_terms import FocalRule, Source, fused_focal, needs_tracing, traceable_focal
from focalcal.losses.inputs import LossInput, Reduction, check_options, check_values, naming_bad_index, prepare


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
    """Focal loss of logits, −Σ_y w_y q_y (1 − p_y)^γ log p_y with p = softmax(logits).

    Everything but γ means what it means in ``torch.nn.functional.cross_entropy``, to which it is equal at γ = 0.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …). −inf masks a class. Half precision is computed in float32.
        target: class indices of shape (), (N,) or (N, d1, …), or class probabilities q of the logits' shape. They need
            not sum to 1.
        gamma: γ ≥ 0, or a policy: ``FixedGamma``, ``SampleGamma``, or ``EpochGamma(…).at_epoch(e)``. Each class that
            the target has mass on gets the γ of its own probability; the choice is not differentiated.
        weight: (C,) weight of each class. As in PyTorch the mean over class indices divides by the sum of the weights.
        ignore_index: class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing, q ← (1 − ε) q + ε / C, before the focal factor. The paper's own
            smoothing spreads over the other C − 1 classes: see ``smoothed_cross_entropy``.
        reduction: "mean", "sum" or "none".
        validate: also look at the values, which synchronises an accelerator: NaN, +inf, negative weights, indices.

    Returns:
        A scalar, or the loss of each sample for "none"; of the logits' type, float32 under autocast.

    Example:
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
    return naming_bad_index(lambda: fused_focal(given.logits, given, rule, Source(logits, prepared)), given)


class FocalLoss(nn.Module):
    """``focal_loss`` as a module, in the place of ``torch.nn.CrossEntropyLoss``.

    Args:
        gamma: γ ≥ 0 or a policy. With ``EpochGamma`` call ``set_epoch`` at the start of each epoch.
        weight: (C,) weight of each class; a buffer that moves with the module.
        ignore_index: class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing.
        reduction: "mean", "sum" or "none".
        validate: also look at the values of each call.

    Example:
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
        self.gamma = as_policy(gamma)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.reduction: Reduction = reduction
        self.validate = validate
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Tells a γ schedule which epoch (counted from 0) it is; other policies don't care."""
        self.gamma_in_force = self.gamma.at_epoch(epoch)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The focal loss of logits (N, C, …) and class indices or class probabilities."""
        return focal_loss(
            logits,
            target,
            self.gamma_in_force,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
            validate=self.validate,
        )

    def extra_repr(self) -> str:
        """The γ policy and what differs from the defaults."""
        return f"{self.gamma}, reduction={self.reduction!r}, label_smoothing={self.label_smoothing}"


def binary_focal_loss(
    logit: Tensor,
    target: Tensor,
    gamma: float | GammaPolicy = 3.0,
    *,
    pos_weight: Tensor | float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Focal loss of one logit a decision: the two-class ``focal_loss`` of logits (0, z).

    With p = sigmoid(z) and a target t in [0, 1]: −t w (1 − p)^γ log p − (1 − t) p^γ log(1 − p). At γ = 0 it is
    ``binary_cross_entropy_with_logits``.

    Args:
        logit: z of any shape.
        target: probability of the positive class, of the same shape; booleans and 0/1 integers will do.
        gamma: γ ≥ 0 or a policy; each of the two terms takes the γ of its own probability.
        pos_weight: w, weight of the positive class; a number, or a tensor that broadcasts with ``logit``.
        reduction: "mean", "sum" or "none".

    Returns:
        A scalar, or the loss of each element for "none".

    Example:
        >>> import torch
        >>> binary_focal_loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 1]), gamma=2.0).round(decimals=4)
        tensor(0.3518)
    """
    if not isinstance(logit, Tensor) or not logit.is_floating_point():
        raise TypeError("The logit must be a floating-point tensor.")
    if not isinstance(target, Tensor) or target.shape != logit.shape:
        shape = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"A logit of shape {tuple(logit.shape)} needs a target of the same shape, got {shape}.")
    check_options(reduction, 0.0)
    positive = target.to(logit.dtype if target.dtype != torch.float64 else target.dtype)
    mass = torch.stack([1 - positive, positive if pos_weight is None else positive * pos_weight], -1).flatten(0, -2)
    pairs = torch.stack([torch.zeros_like(logit), logit], -1).flatten(0, -2)
    terms = focal_loss(pairs, mass.to(pairs.dtype), gamma, reduction="none").reshape(logit.shape)
    return {"none": terms, "sum": terms.sum(), "mean": terms.mean()}[reduction]
