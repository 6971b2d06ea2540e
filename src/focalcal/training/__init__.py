"""Training: one loop on Lightning Fabric for one or many devices, checkpoints, and records of every epoch.

The names are imported on first use: reading a run needs none of the packages that train.
"""

from typing import TYPE_CHECKING

from focalcal.base.lazy import lazy_names

if TYPE_CHECKING:
    from focalcal.training.run import train as train
    from focalcal.training.run_directory import Run as Run
    from focalcal.training.run_directory import RunDirectory as RunDirectory
    from focalcal.training.run_directory import open_run as open_run
    from focalcal.training.stopping import Diverged as Diverged
    from focalcal.training.stopping import Interrupted as Interrupted

__getattr__, __dir__, __all__ = lazy_names(__name__)
