"""Calibrators: fitted on validation predictions and applied to others."""

from focalcal.calibrators.affine import DirichletCalibration, MatrixScaling, VectorScaling
from focalcal.calibrators.auto import AutoCalibration, Candidate
from focalcal.calibrators.base import CalibrationWarning, Calibrator
from focalcal.calibrators.binary import BetaCalibration, PlattScaling, QuadraticScaling
from focalcal.calibrators.calibrator_registry import METHODS, build_calibrator, load_calibrator
from focalcal.calibrators.drift import CalibratorDrift, ScoreChange, calibrator_drift
from focalcal.calibrators.ensemble import EnsembleTemperatureScaling
from focalcal.calibrators.focal_inverse import FocalInverse, FocalTemperatureScaling
from focalcal.calibrators.folding import fold, fold_into
from focalcal.calibrators.identity import Identity
from focalcal.calibrators.one_vs_rest import HistogramBinning, IsotonicCalibration
from focalcal.calibrators.record import FitRecord
from focalcal.calibrators.sharded_calibration import AppliedShards, calibrate_shards, fit_temperature_on_shards
from focalcal.calibrators.structured import StructuredScaling
from focalcal.calibrators.temperature_scaling import TemperatureScaling

__all__ = [
    "METHODS",
    "AppliedShards",
    "AutoCalibration",
    "BetaCalibration",
    "CalibrationWarning",
    "Calibrator",
    "CalibratorDrift",
    "Candidate",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "FitRecord",
    "FocalInverse",
    "FocalTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "MatrixScaling",
    "PlattScaling",
    "QuadraticScaling",
    "ScoreChange",
    "StructuredScaling",
    "TemperatureScaling",
    "VectorScaling",
    "build_calibrator",
    "calibrate_shards",
    "calibrator_drift",
    "fit_temperature_on_shards",
    "fold",
    "fold_into",
    "load_calibrator",
]
