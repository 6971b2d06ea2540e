"""Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.

The public names are imported on first use, so that ``import focalcal`` stays fast.
"""

import importlib
from typing import Any

from focalcal._version import __version__ as __version__

# Public name -> the module that has it.
_WHERE = {
    "gradient_factor": "focalcal.gamma",
    "gamma_star": "focalcal.gamma",
    "FixedGamma": "focalcal.gamma",
    "EpochGamma": "focalcal.gamma",
    "SampleGamma": "focalcal.gamma",
    "focal_loss": "focalcal.losses",
    "FocalLoss": "focalcal.losses",
    "binary_focal_loss": "focalcal.losses",
    "brier_loss": "focalcal.losses",
    "BrierLoss": "focalcal.losses",
    "mmce": "focalcal.losses",
    "MMCELoss": "focalcal.losses",
    "smoothed_cross_entropy": "focalcal.losses",
    "LabelSmoothingLoss": "focalcal.losses",
    "build_loss": "focalcal.losses",
    "Predictions": "focalcal.predictions",
    "PredictionsFile": "focalcal.predictions",
    "open_predictions": "focalcal.predictions",
    "predict": "focalcal.predictions",
    "evaluate": "focalcal.metrics",
    "Evaluation": "focalcal.metrics",
    "Accumulator": "focalcal.metrics",
    "compare": "focalcal.metrics",
    "bootstrap": "focalcal.metrics",
    "TemperatureScaling": "focalcal.calibrators",
    "VectorScaling": "focalcal.calibrators",
    "MatrixScaling": "focalcal.calibrators",
    "DirichletCalibration": "focalcal.calibrators",
    "IsotonicCalibration": "focalcal.calibrators",
    "HistogramBinning": "focalcal.calibrators",
    "Identity": "focalcal.calibrators",
    "FocalInverse": "focalcal.calibrators",
    "FocalTemperatureScaling": "focalcal.calibrators",
    "build_calibrator": "focalcal.calibrators",
    "load_calibrator": "focalcal.calibrators",
}
_SUBMODULES = ("gamma", "losses", "predictions", "metrics", "calibrators", "plots")

__all__ = ["__version__", *_SUBMODULES, *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"focalcal.{name}")
    else:
        raise AttributeError(f"module 'focalcal' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
