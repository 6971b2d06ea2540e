"""scikit-learn: calibrated classifiers, calibration of probabilities, scorers, and the reliability diagram."""

from focalcal.integrations.sklearn.calibrated_classifier import CalibratedClassifier
from focalcal.integrations.sklearn.probability_calibrator import ProbabilityCalibrator
from focalcal.integrations.sklearn.reliability_display import ReliabilityDisplay
from focalcal.integrations.sklearn.scorers import (
    MetricScorer,
    neg_ada_ece,
    neg_brier,
    neg_classwise_ece,
    neg_ece,
    neg_nll,
    neg_smooth_ece,
)

__all__ = [
    "CalibratedClassifier",
    "MetricScorer",
    "ProbabilityCalibrator",
    "ReliabilityDisplay",
    "neg_ada_ece",
    "neg_brier",
    "neg_classwise_ece",
    "neg_ece",
    "neg_nll",
    "neg_smooth_ece",
]
