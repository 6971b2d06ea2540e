"""Training: one loop on Lightning Fabric for one or many devices, checkpoints, and what is recorded each epoch.

The names are imported on first use: reading a run needs none of the packages that train.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.training.divergence import Diverged
    from focalcal.training.interruption import Interrupted
    from focalcal.training.run import train
    from focalcal.training.run_directory import Run, open_run, predictions_path
    from focalcal.training.trainer import Trainer

_HOMES = {
    "divergence": ("Diverged",),
    "interruption": ("Interrupted",),
    "run": ("train",),
    "run_directory": ("Run", "open_run", "predictions_path"),
    "trainer": ("Trainer",),
}

__all__ = ["Diverged", "Interrupted", "Run", "Trainer", "open_run", "predictions_path", "train"]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"focalcal.training.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
