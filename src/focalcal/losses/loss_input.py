"""Loss input: logits and targets, checked and flattened to (M, C), and the reduction of terms as PyTorch does it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["none", "mean", "sum"]
# The mean divides by a number of samples or a sum of weights; None stands for no division.
Divisor = Tensor | int | None
_REDUCTIONS = ("none", "mean", "sum")
_HALF = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class LossInput:
    """Checked input of a loss, with every dimension but the classes flattened into one.

    ``logits`` is (M, C), float32 or float64; ``target`` is (M,) int64 for classes or (M, C) for class probabilities;
    ``weight`` is (C,) or None. ``shape`` and ``dtype`` are those of the unreduced result.
    """

    logits: Tensor
    target: Tensor
    weight: Tensor | None
    ignore_index: int
    reduction: Reduction
    shape: torch.Size
    dtype: torch.dtype

    @property
    def is_hard(self) -> bool:
        """Return whether the targets are class indices."""
        return self.target.dim() == 1

    def rows(self, rows: slice) -> "LossInput":
        """Return the input of some of the M samples."""
        return replace(self, logits=self.logits[rows], target=self.target[rows])

    def valid(self) -> Tensor:
        """Return (M,) bool: False where the class index is ignored."""
        return self.target != self.ignore_index

    def sample_weight(self, valid: Tensor) -> Tensor:
        """Return the (M,) weights of the samples' classes, 0 for the ignored."""
        if self.weight is None:
            return valid.to(self.logits.dtype)
        return self.weight[self.target * valid] * valid

    def class_probabilities(self, smoothing: float = 0.0) -> Tensor:
        """Return (M, C) q, smoothed as in PyTorch, (1 − ε) q + ε / C; rows of ignored indices are 0."""
        classes = self.logits.shape[1]
        if not self.is_hard:
            return self.target * (1 - smoothing) + smoothing / classes
        valid = self.valid().unsqueeze(1)
        q = torch.full_like(self.logits, smoothing / classes)
        return q.scatter(1, self.target.unsqueeze(1) * valid, 1 - smoothing + smoothing / classes) * valid

    def divisor(self) -> Divisor:
        """Return the number that the sum of the terms is divided by, as in PyTorch; None unless it is the mean.

        The mean over class indices is over the weight of those that are not ignored (NaN where there are none), the
        mean over class probabilities over the number of samples.
        """
        if self.reduction != "mean":
            return None
        if not self.is_hard:
            return self.logits.shape[0]
        valid = self.valid()
        return valid.sum() if self.weight is None else self.sample_weight(valid).sum()

    def reduce(self, terms: Tensor, divisor: Divisor) -> Tensor:
        """Reduce (M,) terms that are weighted already."""
        if self.reduction == "none":
            return terms.reshape(self.shape).to(self.dtype)
        total = terms.sum()
        if divisor is None:
            return total.to(self.dtype)
        if isinstance(divisor, int) or not torch.is_grad_enabled():
            return (total / divisor).to(self.dtype)
        # 0/0 only in the value: as in PyTorch, a batch that is ignored completely has loss NaN and gradient 0.
        return torch.where(divisor == 0, torch.nan, total / nonzero(divisor)).to(self.dtype)


def transforms_active() -> bool:
    """Return whether torch.func, or a mode that traces or fakes operations, is active: values must not be read then."""
    # torch has no public names for either, and autograd.Function's own support for torch.func costs more per call than
    # all of a small loss.
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def nonzero(divisor: Tensor | int) -> Tensor | int:
    """Replace 0 by 1, so that 0 divided by it stays 0."""
    if not isinstance(divisor, Tensor):
        return divisor or 1
    # A count is never negative, a sum of weights may be.
    return torch.where(divisor == 0, 1, divisor) if divisor.is_floating_point() else divisor.clamp(min=1)


def prepare(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> LossInput:
    """Check what can be checked without reading values, and flatten.

    Shapes are PyTorch's: logits (C,), (N, C) or (N, C, d1, …) with integer targets (), (N,) or (N, d1, …), or
    floating-point targets of the logits' own shape.
    """
    _check_types(logits, target, weight)
    shape, soft = logits.shape, target.is_floating_point()
    if not shape:
        raise ValueError("Logits of shape () have no class dimension: it should be (C,), (N, C) or (N, C, d1, …).")
    class_dim = 0 if len(shape) == 1 else 1
    sample_shape = shape[:class_dim] if len(shape) < 3 else shape[:1] + shape[2:]
    _check_shapes(shape, target, weight, sample_shape, shape[class_dim], soft)
    if soft and ignore_index >= 0:
        raise ValueError(f"ignore_index works with class indices only, got {ignore_index} with class probabilities.")
    return LossInput(
        logits=_compute_type(_flatten(logits, class_dim)),
        target=_flatten(target, class_dim).to(_compute_dtype(logits)) if soft else _flat_indices(target),
        weight=None if weight is None else weight.to(_compute_dtype(logits)),
        ignore_index=ignore_index,
        reduction=reduction,
        shape=sample_shape,
        dtype=_result_dtype(logits),
    )


def check_options(reduction: str, label_smoothing: float = 0.0) -> None:
    """Raise for an unknown reduction, and for a smoothing outside [0, 1]."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of none, mean and sum, got {reduction!r}.")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}.")


def check_weight(weight: Tensor | None) -> None:
    """Raise for class weights that cannot fit any logits."""
    if weight is None:
        return
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise TypeError("The class weights must be a floating-point tensor.")
    if weight.dim() != 1 or len(weight) < 2:
        raise ValueError(f"The class weights must have shape (C,) with at least 2 classes, got {tuple(weight.shape)}.")
    if weight.requires_grad:
        raise ValueError("The class weights are not differentiated: pass weight.detach().")


def check_values(given: LossInput) -> None:
    """Check every value, which synchronises an accelerator: NaN and +inf, negative targets and weights, indices."""
    if bool((given.logits.isnan() | (given.logits == torch.inf)).any()):
        raise ValueError("The logits contain NaN or +inf.")
    check_indices(given)
    if not given.is_hard and not bool(((given.target >= 0) & given.target.isfinite()).all()):
        raise ValueError("The class probabilities contain a negative or non-finite value.")
    if given.weight is not None and not bool(((given.weight >= 0) & given.weight.isfinite()).all()):
        raise ValueError("The class weights contain a negative or non-finite value.")


def naming_bad_index(compute: Callable[[], Tensor], given: LossInput) -> Tensor:
    """Run ``compute``; if it fails on a class index out of range, raise an error that names the index."""
    if torch.compiler.is_compiling() or transforms_active():
        return compute()
    try:
        return compute()
    except (IndexError, RuntimeError):
        check_indices(given)
        raise


def check_indices(given: LossInput) -> None:
    """Raise for a class index that is neither in range nor ignored, naming it; class probabilities have none."""
    if not given.is_hard:
        return
    classes = given.logits.shape[1]
    wrong = given.target[given.valid() & ((given.target < 0) | (given.target >= classes))]
    if wrong.numel():
        raise ValueError(
            f"Target {int(wrong[0])} is out of range: {classes} classes are numbered 0 to {classes - 1}, "
            f"and only ignore_index ({given.ignore_index}) may lie outside."
        )


def _check_types(logits: Tensor, target: Tensor, weight: Tensor | None) -> None:
    if not isinstance(logits, Tensor) or not isinstance(target, Tensor):
        raise TypeError(f"Logits and target must be tensors, got {type(logits).__name__} and {type(target).__name__}.")
    if not logits.is_floating_point():
        raise TypeError(f"Logits must be floating-point, got {logits.dtype}.")
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"The target must hold class indices or class probabilities, got {target.dtype}.")
    check_weight(weight)


def _check_shapes(
    shape: torch.Size, target: Tensor, weight: Tensor | None, sample_shape: torch.Size, classes: int, soft: bool
) -> None:
    if classes < 2:
        raise ValueError(f"A classifier needs at least 2 classes, got logits of shape {tuple(shape)}.")
    expected = shape if soft else sample_shape
    if target.shape != expected:
        kind = "class probabilities" if soft else "class indices"
        raise ValueError(
            f"Logits of shape {tuple(shape)} need {kind} of shape {tuple(expected)}, got {tuple(target.shape)}."
        )
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"{classes} classes need class weights of shape ({classes},), got {tuple(weight.shape)}.")


def _flatten(values: Tensor, class_dim: int) -> Tensor:
    if values.dim() == 2:
        return values
    return values.movedim(class_dim, -1).reshape(-1, values.shape[class_dim])


def _flat_indices(target: Tensor) -> Tensor:
    return target if target.dim() == 1 and target.dtype == torch.int64 else target.reshape(-1).long()


def _compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in _HALF else x.dtype


def _compute_type(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _HALF else x


def _result_dtype(logits: Tensor) -> torch.dtype:
    """Return the logits' own type, as in ``F.cross_entropy``; float32 for half precision under autocast."""
    if logits.dtype in _HALF and torch.is_autocast_enabled(logits.device.type):
        return torch.float32
    return logits.dtype
