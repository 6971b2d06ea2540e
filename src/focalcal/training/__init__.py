"""Training: one loop on Lightning Fabric for one or many devices, checkpoints, and what is recorded each epoch."""

from focalcal.training.interruption import Interrupted
from focalcal.training.run import Run, open_run, predictions_path, train
from focalcal.training.trainer import Diverged, Trainer

__all__ = ["Diverged", "Interrupted", "Run", "Trainer", "open_run", "predictions_path", "train"]
