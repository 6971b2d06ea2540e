"""Registry of losses: the paper's losses by the paper's names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from focalcal.loss_names import LOSS_NAMES, numbered_loss, problem_of_loss
from focalcal.losses.brier import BrierLoss
from focalcal.losses.cross_entropy import CrossEntropyLoss
from focalcal.losses.focal import FocalLoss
from focalcal.losses.mmce_loss import MMCELoss
from focalcal.losses.named_gamma import named_gamma
from focalcal.losses.smoothing import LabelSmoothingLoss

__all__ = ["LOSS_NAMES", "build_loss"]

_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "cross-entropy": CrossEntropyLoss,
    "brier": BrierLoss,
    "mmce": partial(MMCELoss, normalization="published"),
    "mmce-formula": partial(MMCELoss, normalization="formula"),
}


def build_loss(name: str, *, epochs: int | None = None, **options: Any) -> nn.Module:
    """Build a loss by its name in the paper.

    cross-entropy, brier, mmce, mmce-formula, ls-0.05 and any ls-<α>, fl-1, fl-2, fl-3 and any fl-<γ>, flsc-531,
    flsc-532, flsd-53, flsd-532.

    Args:
        name: Name of the loss.
        epochs: Length of the run, for γ schedules (flsc-…): their phases are scaled to it from the paper's 350.
        options: Options of the loss: ``weight``, ``ignore_index``, ``reduction``, … and ``penalty``, the λ of MMCE.

    Returns:
        A module that is called with logits and targets, as ``torch.nn.CrossEntropyLoss`` is.

    Examples:
        >>> build_loss("flsd-53").gamma
        SampleGamma(thresholds=(0.2,), gammas=(5.0, 3.0))
        >>> build_loss("flsc-531", epochs=35).gamma
        EpochGamma({0: 5.0, 10: 3.0, 25: 1.0})
    """
    if not isinstance(name, str):
        raise TypeError(f"The name of a loss is a string, got {type(name).__name__}.")
    problem = problem_of_loss(name)
    if problem is not None:
        raise ValueError(problem if problem.endswith("?") else f"{problem}.")
    numbered = numbered_loss(name)
    if numbered is not None and numbered[0] == "ls":
        return LabelSmoothingLoss(numbered[1], **options)
    if name in _BUILDERS:
        return _BUILDERS[name](**options)
    return FocalLoss(named_gamma(name, epochs), **options)
