"""γ schedules of losses that a framework trains with."""

import warnings
from collections.abc import Iterable

from torch import nn

from focalcal.gamma import EpochGamma
from focalcal.losses import BinaryFocalLoss, FocalLoss

Scheduled = FocalLoss | BinaryFocalLoss


def focal_losses(modules: Iterable[nn.Module]) -> list[Scheduled]:
    """Find the focal losses among modules and everything in them, each once.

    Examples:
        >>> len(focal_losses([nn.Sequential(nn.Linear(2, 2), FocalLoss()), BinaryFocalLoss()]))
        2
    """
    found = (part for module in modules for part in module.modules() if isinstance(part, Scheduled))
    return list(dict.fromkeys(found))


def set_epoch(losses: Iterable[Scheduled], epoch: int) -> None:
    """Tell γ schedules the epoch, counted from 0."""
    for loss in losses:
        loss.set_epoch(epoch)


def warn_of_unreached_phases(losses: Iterable[Scheduled], epochs: float) -> None:
    """Warn of a γ schedule that a run of this many epochs does not get through."""
    for loss in losses:
        if isinstance(loss.gamma, EpochGamma) and loss.gamma.starts[-1] >= epochs:
            warnings.warn(
                f"The last phase of {loss.gamma} begins in epoch {loss.gamma.starts[-1]}, and the run ends after "
                f"{epochs:g}: scale it with EpochGamma(…).scaled(epochs), or build_loss(name, epochs=…).",
                stacklevel=2,
            )
