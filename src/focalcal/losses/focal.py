"""Multi-class focal loss, with γ fixed or chosen by a policy."""

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
from focalcal.losses.named_gamma import policy_of


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

    def prepare_logits(logits: Tensor) -> LossInput:
        return prepare(logits, target, weight=weight, ignore_index=ignore_index, reduction=reduction)

    given, rule = prepare_logits(logits), FocalRule(policy, label_smoothing)
    if validate:
        check_values(given)
    if needs_tracing(given):
        return traceable_focal(given, rule)
    try:
        return fused_focal(given, rule, lambda: Source(logits, (target, weight), prepare_logits))
    except (IndexError, RuntimeError):
        check_indices(given)
        raise


class FocalLoss(nn.CrossEntropyLoss):
    """``focal_loss`` as a module that replaces ``torch.nn.CrossEntropyLoss``, which it is a subclass of.

    Args:
        gamma: γ ≥ 0, a policy, or a name of the paper: "fl-3" (any "fl-<γ>"), "flsd-53", "flsd-532", "flsc-531",
            "flsc-532". With ``EpochGamma``, and with flsc-…, call ``set_epoch`` at the start of each epoch.
        weight: (C,) weights of the classes; a buffer that moves with the module.
        ignore_index: Class index that contributes nothing.
        label_smoothing: ε of PyTorch's smoothing.
        reduction: "mean", "sum" or "none".
        validate: Also check the values in each call.

    Examples:
        >>> import torch, focalcal as fc
        >>> criterion = fc.FocalLoss("flsd-53")
        >>> criterion(torch.zeros(4, 5), torch.tensor([0, 1, 2, 3])).round(decimals=4)  # p = 0.2 takes γ = 3
        tensor(0.8240)
    """

    reduction: Reduction

    def __init__(
        self,
        gamma: float | str | GammaPolicy = 3.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        validate: bool = False,
    ) -> None:
        check_options(reduction, label_smoothing)
        check_weight(weight)
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
        self.gamma = policy_of(gamma)
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
