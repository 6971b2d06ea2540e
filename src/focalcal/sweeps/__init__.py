"""Sweeps: one recipe with several losses and seeds, trained side by side, measured and compared."""

from focalcal.sweeps.plan import PAPER_LOSSES, Plan, PlannedRun
from focalcal.sweeps.processes import SweepInterrupted, train_all
from focalcal.sweeps.result import SweepResult, measure_plan, write_result
from focalcal.sweeps.sweeping import SweepFailed, sweep

__all__ = [
    "PAPER_LOSSES",
    "Plan",
    "PlannedRun",
    "SweepFailed",
    "SweepInterrupted",
    "SweepResult",
    "measure_plan",
    "sweep",
    "train_all",
    "write_result",
]
