"""The Brier score as a loss."""

import torch
from torch import Tensor, nn

from focalcal.losses.inputs import LossInput, Reduction, check_options, check_weight, naming_bad_index, prepare


def brier_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Squared distance of p = softmax(logits) and the target, Σ_k (p_k − q_k)²: between 0 and 2 for a distribution q.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …).
        target: class indices, or class probabilities q of the logits' shape.
        weight: (C,) weight of each class; a sample weighs as its class does, or as Σ_k w_k q_k.
        ignore_index: class index that contributes nothing.
        reduction: "mean" (over the weight of what is not ignored, as in PyTorch), "sum" or "none".

    Returns:
        A scalar, or the loss of each sample for "none".

    Examples:
        >>> import torch
        >>> brier_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        tensor(0.5000)
    """
    check_options(reduction)
    given = prepare(logits, target, weight=weight, ignore_index=ignore_index, reduction=reduction)
    return naming_bad_index(lambda: given.reduce(_terms(given), given.mass()), given)


def _terms(given: LossInput) -> Tensor:
    q = given.class_probabilities()
    distance = (torch.softmax(given.logits, 1) - q).square().sum(1)
    if given.is_hard:
        weight = given.sample_weight(given.valid())
        return torch.where(weight == 0, 0.0, distance * weight)
    return distance if given.weight is None else distance * (q * given.weight).sum(1)


class BrierLoss(nn.Module):
    """``brier_loss`` as a module.

    Examples:
        >>> import torch
        >>> BrierLoss()(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        tensor(0.5000)
    """

    weight: Tensor | None

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_options(reduction)
        check_weight(weight)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The Brier loss of logits (N, C, …)."""
        return brier_loss(logits, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)

    def extra_repr(self) -> str:
        """The reduction."""
        return f"reduction={self.reduction!r}"
