"""The Brier score as a loss."""

import torch
from torch import Tensor, nn

from focalcal.losses.loss_input import LossInput, Reduction, check_options, check_weight, naming_bad_index, prepare


def brier_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the squared distance between p = softmax(logits) and the target, Σ_k (p_k − q_k)².

    It lies between 0 and 2 if q is a distribution.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …).
        target: Class indices, or class probabilities q of the logits' shape.
        weight: (C,) weights of the classes; a sample has the weight of its class, or Σ_k w_k q_k.
        ignore_index: Class index that contributes nothing.
        reduction: "mean" (by the weight of all that is not ignored, as in PyTorch), "sum" or "none".

    Returns:
        A scalar, or the loss of each sample for "none".

    Examples:
        >>> import torch
        >>> brier_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        tensor(0.5000)
    """
    check_options(reduction)
    given = prepare(logits, target, weight=weight, ignore_index=ignore_index, reduction=reduction)
    return naming_bad_index(lambda: given.reduce(_terms(given), given.divisor()), given)


def _terms(given: LossInput) -> Tensor:
    q = given.class_probabilities()
    distance = (torch.softmax(given.logits, 1) - q).square().sum(1)
    if given.is_hard:
        weight = given.sample_weight(given.valid())
        return torch.where(weight == 0, 0.0, distance * weight)
    return distance if given.weight is None else distance * (q * given.weight).sum(1)


class BrierLoss(nn.CrossEntropyLoss):
    """``brier_loss`` as a module, a subclass of ``torch.nn.CrossEntropyLoss`` because it takes the same input.

    Examples:
        >>> import torch
        >>> BrierLoss()(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        tensor(0.5000)
    """

    reduction: Reduction

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        check_options(reduction)
        check_weight(weight)
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the Brier loss of logits (N, C, …)."""
        return brier_loss(logits, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the reduction."""
        return f"reduction={self.reduction!r}"
