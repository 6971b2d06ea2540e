"""What is fitted on validation predictions and applied to others."""

from focalcal.calibrators.base import CalibrationWarning, Calibrator
from focalcal.calibrators.dirichlet import DirichletCalibration
from focalcal.calibrators.focal import FocalInverse, FocalTemperatureScaling
from focalcal.calibrators.histogram import HistogramBinning
from focalcal.calibrators.identity import Identity
from focalcal.calibrators.isotonic import IsotonicCalibration
from focalcal.calibrators.linear import MatrixScaling, VectorScaling
from focalcal.calibrators.record import FitRecord
from focalcal.calibrators.registry import METHODS, build_calibrator, load_calibrator
from focalcal.calibrators.temperature import TemperatureScaling

__all__ = [
    "METHODS",
    "CalibrationWarning",
    "Calibrator",
    "DirichletCalibration",
    "FitRecord",
    "FocalInverse",
    "FocalTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "MatrixScaling",
    "TemperatureScaling",
    "VectorScaling",
    "build_calibrator",
    "load_calibrator",
]
