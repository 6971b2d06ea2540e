"""Diagnosis: facts about predictions, and findings that make their metrics doubtful, each with advice."""

from focalcal.diagnosis.diagnosing import Diagnosis, diagnose
from focalcal.diagnosis.findings import Finding, Severity

__all__ = ["Diagnosis", "Finding", "Severity", "diagnose"]
