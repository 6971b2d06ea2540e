"""Binary focal loss: one logit per decision, with γ fixed or chosen by a policy."""

import torch
from torch import Tensor, nn

from focalcal.gamma import GammaPolicy, as_policy
from focalcal.losses.focal_terms import FocalRule, traceable_focal
from focalcal.losses.loss_input import Reduction, check_options, prepare
from focalcal.losses.named_gamma import policy_of


def binary_focal_loss(
    logit: Tensor,
    target: Tensor,
    gamma: float | GammaPolicy = 3.0,
    *,
    alpha: float | None = None,
    pos_weight: Tensor | float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the focal loss of one logit per decision: the two-class ``focal_loss`` of logits (0, z).

    With p = sigmoid(z) and a target t in [0, 1]: −t w (1 − p)^γ log p − (1 − t) p^γ log(1 − p). At γ = 0 it is
    ``binary_cross_entropy_with_logits``. With ``alpha`` the first term is multiplied by α and the second by 1 − α.

    Args:
        logit: z of any shape.
        target: Probability of the positive class, of the same shape; booleans and 0/1 integers work too.
        gamma: γ ≥ 0 or a policy; each of the two terms takes the γ of its own probability.
        alpha: Balance α in [0, 1] of the positive class (0.25 for dense object detection); None for no balance, which
            is twice the loss of α = 0.5.
        pos_weight: w, weight of the positive class; a number, or a tensor that broadcasts with ``logit``.
        reduction: "mean", "sum" or "none".

    Returns:
        A scalar, or the loss of each element for "none".

    Examples:
        >>> import torch
        >>> logit, target = torch.tensor([2.0, -1.0]), torch.tensor([1, 1])
        >>> binary_focal_loss(logit, target, gamma=2.0).round(decimals=4)
        tensor(0.3518)
        >>> binary_focal_loss(logit, target, gamma=2.0, alpha=0.25).round(decimals=4)
        tensor(0.0880)
    """
    if not isinstance(logit, Tensor) or not logit.is_floating_point():
        raise TypeError("The logit must be a floating-point tensor.")
    if not isinstance(target, Tensor) or target.shape != logit.shape:
        shape = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"A logit of shape {tuple(logit.shape)} needs a target of the same shape, got {shape}.")
    if target.is_complex():
        raise TypeError("The target must hold probabilities of the positive class, got complex numbers.")
    check_options(reduction)
    _check_alpha(alpha)
    positive = target.to(logit.dtype)
    masses = [1 - positive, positive * _positive_weight(pos_weight, logit)]
    if alpha is not None:
        masses = [masses[0] * (1 - alpha), masses[1] * alpha]
    mass = torch.stack(masses, -1).reshape(-1, 2)
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


def _check_alpha(alpha: float | None) -> None:
    if alpha is not None and not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie in [0, 1], got {alpha}.")


class BinaryFocalLoss(nn.BCEWithLogitsLoss):
    """``binary_focal_loss`` as a module that replaces ``torch.nn.BCEWithLogitsLoss``, which it is a subclass of.

    Args:
        gamma: γ ≥ 0, a policy, or a name of the paper ("fl-3", "flsd-53", …) as in ``FocalLoss``.
        alpha: Balance α of the positive class, 1 − α of the negative one; None for no balance.
        pos_weight: Weight of the positive class, a buffer that moves with the module; broadcasts with the logits.
        reduction: "mean", "sum" or "none".

    Examples:
        >>> import torch
        >>> BinaryFocalLoss(2.0, alpha=0.25)(torch.tensor([2.0, -1.0]), torch.tensor([1, 1])).round(decimals=4)
        tensor(0.0880)
    """

    reduction: Reduction

    def __init__(
        self,
        gamma: float | str | GammaPolicy = 3.0,
        *,
        alpha: float | None = None,
        pos_weight: Tensor | float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        check_options(reduction)
        _check_alpha(alpha)
        if pos_weight is not None and not isinstance(pos_weight, Tensor):
            pos_weight = torch.tensor(float(pos_weight))
        super().__init__(reduction=reduction, pos_weight=pos_weight)
        self.gamma = policy_of(gamma)
        self.alpha = alpha
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell a γ schedule the epoch, counted from 0; other policies ignore it."""
        self.gamma.at_epoch(epoch)  # raises if there is no such epoch
        self.epoch = epoch

    def forward(self, logit: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits of any shape and targets in [0, 1] of the same shape."""
        return binary_focal_loss(
            logit,
            target,
            self.gamma.at_epoch(self.epoch),
            alpha=self.alpha,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Show the γ policy, α and the reduction."""
        return f"{self.gamma}, alpha={self.alpha}, reduction={self.reduction!r}"
