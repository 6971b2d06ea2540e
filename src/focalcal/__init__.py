"""Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.

The public names are imported on first use, so that ``import focalcal`` stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from focalcal._version import __version__ as __version__

if TYPE_CHECKING:
    # What a type checker and an editor see; at run time each name is imported on first use.
    from focalcal import calibrators, gamma, losses, metrics, plots, predictions
    from focalcal.calibrators import (
        CalibrationWarning,
        DirichletCalibration,
        FocalInverse,
        FocalTemperatureScaling,
        HistogramBinning,
        Identity,
        IsotonicCalibration,
        MatrixScaling,
        TemperatureScaling,
        VectorScaling,
        build_calibrator,
        load_calibrator,
    )
    from focalcal.gamma import (
        EpochGamma,
        FixedGamma,
        SampleGamma,
        gamma_star,
        gradient_factor,
    )
    from focalcal.losses import (
        BrierLoss,
        FocalLoss,
        LabelSmoothingLoss,
        MMCELoss,
        binary_focal_loss,
        brier_loss,
        build_loss,
        focal_loss,
        mmce,
        smoothed_cross_entropy,
    )
    from focalcal.metrics import (
        Accumulator,
        Evaluation,
        bootstrap,
        compare,
        compare_many,
        evaluate,
    )
    from focalcal.predictions import (
        Predictions,
        PredictionsFile,
        open_predictions,
        predict,
    )

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
    "compare_many": "focalcal.metrics",
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
    "CalibrationWarning": "focalcal.calibrators",
    "build_calibrator": "focalcal.calibrators",
    "load_calibrator": "focalcal.calibrators",
}
_SUBMODULES = ("gamma", "losses", "predictions", "metrics", "calibrators", "plots")

__all__ = [
    "Accumulator",
    "BrierLoss",
    "CalibrationWarning",
    "DirichletCalibration",
    "EpochGamma",
    "Evaluation",
    "FixedGamma",
    "FocalInverse",
    "FocalLoss",
    "FocalTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "LabelSmoothingLoss",
    "MMCELoss",
    "MatrixScaling",
    "Predictions",
    "PredictionsFile",
    "SampleGamma",
    "TemperatureScaling",
    "VectorScaling",
    "__version__",
    "binary_focal_loss",
    "bootstrap",
    "brier_loss",
    "build_calibrator",
    "build_loss",
    "calibrators",
    "compare",
    "compare_many",
    "evaluate",
    "focal_loss",
    "gamma",
    "gamma_star",
    "gradient_factor",
    "load_calibrator",
    "losses",
    "metrics",
    "mmce",
    "open_predictions",
    "plots",
    "predict",
    "predictions",
    "smoothed_cross_entropy",
]


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
