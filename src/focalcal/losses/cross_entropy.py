"""Cross-entropy: PyTorch's own, with class probabilities of 0 on masked classes."""

from typing import cast

from torch import Tensor, nn

from focalcal.losses.focal import focal_loss
from focalcal.losses.loss_input import Reduction


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """``torch.nn.CrossEntropyLoss`` with 0 · log 0 = 0.

    With class indices it is PyTorch's own computation. With class probabilities PyTorch gives NaN where a class of
    probability 0 has a logit of −inf (a masked class); here such a class contributes nothing.

    Examples:
        >>> import torch
        >>> logits, target = torch.tensor([[0.0, 0.0, -torch.inf]]), torch.tensor([[0.5, 0.5, 0.0]])
        >>> CrossEntropyLoss()(logits, target), nn.CrossEntropyLoss()(logits, target)
        (tensor(0.6931), tensor(nan))
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # PyTorch's name for the logits
        """Compute the cross-entropy of logits (N, C, …) and class indices or class probabilities."""
        if not isinstance(target, Tensor) or not target.is_floating_point():
            return super().forward(input, target)
        return focal_loss(
            input,
            target,
            0.0,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=cast(Reduction, self.reduction),
        )
