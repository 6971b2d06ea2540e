"""Losses side by side: trains each, scales each, and tells which differ."""

from focalcal.comparison.outcome import Outcome, outcome, write_outcome
from focalcal.comparison.plan import Plan, PlannedRun
from focalcal.comparison.processes import ComparisonInterrupted, train_all

__all__ = ["ComparisonInterrupted", "Outcome", "Plan", "PlannedRun", "outcome", "train_all", "write_outcome"]
