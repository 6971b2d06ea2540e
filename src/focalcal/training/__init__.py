"""Training: one loop on Lightning Fabric for one or many devices, checkpoints, and records of every epoch.

The names are imported on first use: reading a run needs none of the packages that train.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.training.run import train
    from focalcal.training.run_directory import Run, RunDirectory, open_run
    from focalcal.training.stopping import Diverged, Interrupted

_HOMES = {
    "run": ("train",),
    "run_directory": ("Run", "RunDirectory", "open_run"),
    "stopping": ("Diverged", "Interrupted"),
}

__all__ = ["Diverged", "Interrupted", "Run", "RunDirectory", "open_run", "train"]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"focalcal.training.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
