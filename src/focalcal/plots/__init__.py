"""Pictures: one function prepares the data, another draws it on a matplotlib axis. Needs ``focalcal[plots]``."""

from focalcal.plots.gradient_factor import draw_gradient_factor, gradient_factor_curves
from focalcal.plots.histograms import ConfidenceHistogram, confidence_histogram, draw_confidence_histogram
from focalcal.plots.reliability import (
    ReliabilityDiagram,
    class_reliability_diagram,
    draw_reliability_diagram,
    reliability_diagram,
)
from focalcal.plots.roc_curves import Roc, draw_roc, roc
from focalcal.plots.selective_prediction import RiskCoverage, draw_risk_coverage, risk_coverage
from focalcal.plots.smooth_diagram import SmoothReliability, smooth_reliability
from focalcal.plots.training_history import TrainingCurves, draw_training_curves, training_curves

__all__ = [
    "ConfidenceHistogram",
    "ReliabilityDiagram",
    "RiskCoverage",
    "Roc",
    "SmoothReliability",
    "TrainingCurves",
    "class_reliability_diagram",
    "confidence_histogram",
    "draw_confidence_histogram",
    "draw_gradient_factor",
    "draw_reliability_diagram",
    "draw_risk_coverage",
    "draw_roc",
    "draw_training_curves",
    "gradient_factor_curves",
    "reliability_diagram",
    "risk_coverage",
    "roc",
    "smooth_reliability",
    "training_curves",
]
