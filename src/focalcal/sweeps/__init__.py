"""Sweeps: recipes with several losses and seeds, trained here, on Ray or by SLURM, measured and compared."""

from focalcal.sweeps.plan import PAPER_LOSSES, Plan, PlannedRun, parse_grid, plan_grid
from focalcal.sweeps.processes import SweepInterrupted, train_all
from focalcal.sweeps.ray_runs import RayOptions
from focalcal.sweeps.result import SweepResult, measure_plan, write_result
from focalcal.sweeps.slurm import read_task, write_slurm_job
from focalcal.sweeps.sweeping import SweepFailed, SweepResults, check_plans, run_plans, sweep, sweep_many

__all__ = [
    "PAPER_LOSSES",
    "Plan",
    "PlannedRun",
    "RayOptions",
    "SweepFailed",
    "SweepInterrupted",
    "SweepResult",
    "SweepResults",
    "check_plans",
    "measure_plan",
    "parse_grid",
    "plan_grid",
    "read_task",
    "run_plans",
    "sweep",
    "sweep_many",
    "train_all",
    "write_result",
    "write_slurm_job",
]
