"""MMCE, the maximum mean calibration error (Kumar et al. 2018): differentiable, a penalty added to cross-entropy."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from focalcal.losses.focal import focal_loss
from focalcal.losses.loss_input import (
    LossInput,
    Reduction,
    check_indices,
    check_options,
    check_weight,
    prepare,
    transforms_active,
)

Normalization = Literal["published", "formula"]


def mmce(
    logits: Tensor, target: Tensor, *, weighted: bool = False, width: float = 0.4, ignore_index: int = -100
) -> Tensor:
    """Compute the MMCE of a batch, √(Σ_ij a_i a_j k_ij) with the kernel k_ij = exp(−|r_i − r_j| / width).

    r_i is the top probability of sample i; c_i is 1 if it is right, else 0. Plain: a_i = (c_i − r_i) / m for m samples.
    Weighted: a_i = (1 − r_i) / n for the n right ones and −r_i / (m − n) for the wrong ones; a group that is empty
    contributes nothing. Each sum is normalised once, by the number of its pairs.

    Args:
        logits: (C,), (N, C) or (N, C, d1, …). Time and memory grow with the square of the number of samples.
        target: Class indices, or class probabilities, of which the largest counts as the class.
        weighted: Normalise right and wrong samples separately.
        width: Width of the kernel; 0.4 in the paper.
        ignore_index: Class index that contributes nothing.

    Returns:
        A scalar ≥ 0, whose gradient where it is 0 is 0. An empty batch gives 0.

    Examples:
        >>> import torch
        >>> mmce(torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0])).round(decimals=4)
        tensor(0.4820)
    """
    _check_width(width)
    given = prepare(logits, target, ignore_index=ignore_index)
    if given.is_hard and given.target.is_cpu and not (torch.compiler.is_compiling() or transforms_active()):
        check_indices(given)  # an index out of range would only count as wrong
    return _root(_square(_groups(given), weighted, width, power=1)).to(given.dtype)


class _Groups(NamedTuple):
    """The (M,) top probabilities, and which samples are right and wrong; ignored ones are neither."""

    confidence: Tensor
    right: Tensor
    wrong: Tensor


def _groups(given: LossInput) -> _Groups:
    label = given.target if given.is_hard else given.target.argmax(1)
    valid = given.valid() if given.is_hard else torch.ones_like(label, dtype=torch.bool)
    confidence, prediction = torch.softmax(given.logits, 1).max(1)
    return _Groups(confidence, valid & (prediction == label), valid & (prediction != label))


def _square(groups: _Groups, weighted: bool, width: float, power: int) -> Tensor:
    """Return the square of MMCE, each sum divided by the number of its pairs to the ``power``."""
    confidence, right, wrong = groups
    if weighted:
        a = _share(1 - confidence, right, power) - _share(confidence, wrong, power)
    else:
        a = _share(right.to(confidence.dtype) - confidence, right | wrong, power)
    kernel = torch.exp(-(confidence.unsqueeze(0) - confidence.unsqueeze(1)).abs() / width)
    return (a * (kernel * a).sum(1)).sum()  # not a matrix product, which autocast would take in half precision


def _share(values: Tensor, group: Tensor, power: int) -> Tensor:
    """Divide the values of a group by its size; 0 outside it, and everywhere if it is empty."""
    size = group.sum().clamp(min=1).to(values.dtype)
    return values * group / size**power


def _root(squared: Tensor) -> Tensor:
    """Take the square root with derivative 0 at 0, the minimum of the kernel form; rounding may give x < 0."""
    nothing = squared <= 0
    return torch.where(nothing, 0.0, torch.where(nothing, 1.0, squared).sqrt())


def _as_published(groups: _Groups, weighted: bool, width: float) -> Tensor:
    """Compute the MMCE that the paper's MMCE column was trained with; weighted, it is 0 if a group is empty."""
    root = torch.sqrt(_square(groups, weighted, width, power=2).clamp(min=0) + 1e-10)
    return torch.where(groups.right.any() & groups.wrong.any(), root, 0.0) if weighted else root


def _check_width(width: float) -> None:
    if not width > 0:
        raise ValueError(f"The kernel's width must be positive, got {width}.")


class MMCELoss(nn.CrossEntropyLoss):
    """Cross-entropy + λ · MMCE.

    The penalty belongs to the batch, not to a sample. Under ``sum`` it is multiplied by what the mean divides by, the
    number of labelled samples N (or the sum of their class weights): N · (mean cross-entropy + λ · MMCE), so that the
    ratio of the two terms does not depend on the reduction or on the size of the batch.

    Args:
        penalty: λ.
        weighted: Normalise right and wrong samples separately in MMCE, as the paper does.
        width: Width of the kernel.
        normalization: "published" divides each sum by the number of its pairs twice and adds 1e-10 under the root,
            which is what the paper's MMCE column was trained with; in a batch of 128 it makes the penalty tens of
            times smaller. Its weighted form is 0 in a batch that is all right or all wrong. "formula" divides once.
            λ = 2 was chosen for the published one and is far too strong for the formula (on the Sentiment Treebank it
            broke training): start an order of magnitude lower there.
        weight: (C,) weights of the classes in cross-entropy.
        ignore_index: Class index that contributes nothing.
        reduction: "mean", or "sum" for N times that.

    Examples:
        >>> import torch
        >>> loss = MMCELoss(penalty=2.0)
        >>> loss(torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0])).round(decimals=4)
        tensor(3.9462)
    """

    reduction: Reduction

    def __init__(
        self,
        penalty: float = 2.0,
        *,
        weighted: bool = True,
        width: float = 0.4,
        normalization: Normalization = "published",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        check_options(reduction)
        check_weight(weight)
        _check_width(width)
        if reduction == "none":
            raise ValueError("MMCE belongs to a batch and has no value per sample: reduction must be mean or sum.")
        if normalization not in ("published", "formula"):
            raise ValueError(f"normalization must be published or formula, got {normalization!r}.")
        if not penalty >= 0:
            raise ValueError(f"The penalty must be at least 0, got {penalty}.")
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction)
        self.penalty = penalty
        self.weighted = weighted
        self.width = width
        self.normalization = normalization

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute cross-entropy of logits (N, C, …) plus the penalty."""
        cross_entropy = focal_loss(
            logits, target, 0.0, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )
        given = prepare(logits, target, weight=self.weight, ignore_index=self.ignore_index, reduction="mean")
        penalty, divisor = self.penalty * self._mmce(_groups(given)), given.divisor()
        if self.reduction == "sum" and divisor is not None:
            penalty = penalty * divisor
        return cross_entropy + penalty.to(given.dtype)

    def _mmce(self, groups: _Groups) -> Tensor:
        if self.normalization == "published":
            return _as_published(groups, self.weighted, self.width)
        return _root(_square(groups, self.weighted, self.width, power=1))

    def extra_repr(self) -> str:
        """Show λ, the form and the reduction."""
        form = "weighted" if self.weighted else "plain"
        return f"penalty={self.penalty}, {form}, {self.normalization}, reduction={self.reduction!r}"
