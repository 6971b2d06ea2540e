"""Label smoothing as in the paper: α is spread over the other classes."""

from torch import Tensor, nn

from focalcal.losses.focal import focal_loss
from focalcal.losses.loss_input import Reduction, check_options, check_weight


def smoothed_cross_entropy(
    logits: Tensor,
    target: Tensor,
    alpha: float = 0.05,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute cross-entropy against s = (1 − α) q + α (1 − q) / (K − 1): α goes to the K − 1 *other* classes.

    PyTorch's own ``label_smoothing`` spreads ε over all K classes, so that ε = α K / (K − 1) gives the same loss; that
    is how it is computed. α may go up to (K − 1) / K, where all classes get the same.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …).
        target: Class indices, or class probabilities q of the logits' shape.
        alpha: The paper's α.
        weight: (C,) weights of the classes.
        ignore_index: Class index that contributes nothing.
        reduction: "mean", "sum" or "none".

    Returns:
        A scalar, or the loss of each sample for "none".

    Examples:
        >>> import torch
        >>> smoothed_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), alpha=0.05).round(decimals=4)
        tensor(0.2269)
    """
    epsilon = _epsilon(alpha, logits)
    return focal_loss(
        logits,
        target,
        0.0,
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=epsilon,
        reduction=reduction,
    )


def _epsilon(alpha: float, logits: Tensor) -> float:
    _check_alpha(alpha)
    classes = logits.shape[0 if logits.dim() == 1 else 1] if logits.dim() else 0
    if classes < 2:
        return 0.0  # focal_loss says what is wrong with the shape
    epsilon = alpha * classes / (classes - 1)
    if epsilon > 1:
        raise ValueError(f"alpha must be at most (K − 1)/K = {1 - 1 / classes:g} for {classes} classes, got {alpha}.")
    return epsilon


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha must lie in [0, 1), got {alpha}.")


class LabelSmoothingLoss(nn.CrossEntropyLoss):
    """``smoothed_cross_entropy`` as a module (LS-0.05 of the paper); ``label_smoothing``, PyTorch's own, stays 0.

    Examples:
        >>> import torch
        >>> LabelSmoothingLoss(0.05)(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).round(decimals=4)
        tensor(0.2269)
    """

    reduction: Reduction

    def __init__(
        self,
        alpha: float = 0.05,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        check_options(reduction)
        check_weight(weight)
        _check_alpha(alpha)
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction)
        self.alpha = alpha

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the smoothed cross-entropy of logits (N, C, …)."""
        return smoothed_cross_entropy(
            logits, target, self.alpha, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """Show α and the reduction."""
        return f"alpha={self.alpha}, reduction={self.reduction!r}"
