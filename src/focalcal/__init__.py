"""Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.

The public names are imported on first use, so that ``import focalcal`` stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from focalcal._version import __version__ as __version__

if TYPE_CHECKING:
    # What a type checker and an editor see; at run time each name is imported on first use.
    from focalcal import (
        calibrators,
        data,
        diagnosis,
        gamma,
        losses,
        metrics,
        models,
        plots,
        predictions,
        recipes,
        report,
        sweeps,
        training,
    )
    from focalcal.calibrators import (
        AutoCalibration,
        BetaCalibration,
        CalibrationWarning,
        DirichletCalibration,
        EnsembleTemperatureScaling,
        FocalInverse,
        FocalTemperatureScaling,
        HistogramBinning,
        Identity,
        IsotonicCalibration,
        MatrixScaling,
        PlattScaling,
        QuadraticScaling,
        StructuredScaling,
        TemperatureScaling,
        VectorScaling,
        build_calibrator,
        load_calibrator,
    )
    from focalcal.data import DataSet, load_data, own_data
    from focalcal.diagnosis import Diagnosis, diagnose
    from focalcal.gamma import (
        EpochGamma,
        FixedGamma,
        SampleGamma,
        entropy_bound,
        focal_optimum,
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
        linear_focal_loss,
        mmce,
        smoothed_cross_entropy,
    )
    from focalcal.metrics import (
        Accumulator,
        Evaluation,
        compare,
        compare_many,
        evaluate,
    )
    from focalcal.metrics.bootstrap.intervals import bootstrap
    from focalcal.models import build_model
    from focalcal.predictions import (
        Predictions,
        PredictionsFile,
        open_predictions,
        predict,
    )
    from focalcal.recipes import Recipe, load_recipe, recipe_names
    from focalcal.report import write_report
    from focalcal.sweeps import SweepResult, SweepResults, sweep, sweep_many
    from focalcal.training import Run, open_run, train

# Public name -> the module that has it.
_WHERE = {
    "gradient_factor": "focalcal.gamma",
    "gamma_star": "focalcal.gamma",
    "focal_optimum": "focalcal.gamma",
    "entropy_bound": "focalcal.gamma",
    "FixedGamma": "focalcal.gamma",
    "EpochGamma": "focalcal.gamma",
    "SampleGamma": "focalcal.gamma",
    "focal_loss": "focalcal.losses",
    "FocalLoss": "focalcal.losses",
    "binary_focal_loss": "focalcal.losses",
    "linear_focal_loss": "focalcal.losses",
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
    "bootstrap": "focalcal.metrics.bootstrap.intervals",
    "TemperatureScaling": "focalcal.calibrators",
    "VectorScaling": "focalcal.calibrators",
    "StructuredScaling": "focalcal.calibrators",
    "EnsembleTemperatureScaling": "focalcal.calibrators",
    "AutoCalibration": "focalcal.calibrators",
    "PlattScaling": "focalcal.calibrators",
    "BetaCalibration": "focalcal.calibrators",
    "QuadraticScaling": "focalcal.calibrators",
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
    "sweep": "focalcal.sweeps",
    "sweep_many": "focalcal.sweeps",
    "SweepResult": "focalcal.sweeps",
    "SweepResults": "focalcal.sweeps",
    "diagnose": "focalcal.diagnosis",
    "Diagnosis": "focalcal.diagnosis",
    "write_report": "focalcal.report",
    "build_model": "focalcal.models",
    "DataSet": "focalcal.data",
    "load_data": "focalcal.data",
    "own_data": "focalcal.data",
    "Recipe": "focalcal.recipes",
    "load_recipe": "focalcal.recipes",
    "recipe_names": "focalcal.recipes",
    "Run": "focalcal.training",
    "open_run": "focalcal.training",
    "train": "focalcal.training",
}
_SUBMODULES = (
    "gamma",
    "losses",
    "models",
    "data",
    "recipes",
    "training",
    "predictions",
    "metrics",
    "calibrators",
    "diagnosis",
    "plots",
    "report",
    "sweeps",
)

__all__ = [
    "Accumulator",
    "AutoCalibration",
    "BetaCalibration",
    "BrierLoss",
    "CalibrationWarning",
    "DataSet",
    "Diagnosis",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
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
    "PlattScaling",
    "Predictions",
    "PredictionsFile",
    "QuadraticScaling",
    "Recipe",
    "Run",
    "SampleGamma",
    "StructuredScaling",
    "SweepResult",
    "SweepResults",
    "TemperatureScaling",
    "VectorScaling",
    "__version__",
    "binary_focal_loss",
    "bootstrap",
    "brier_loss",
    "build_calibrator",
    "build_loss",
    "build_model",
    "calibrators",
    "compare",
    "compare_many",
    "data",
    "diagnose",
    "diagnosis",
    "entropy_bound",
    "evaluate",
    "focal_loss",
    "focal_optimum",
    "gamma",
    "gamma_star",
    "gradient_factor",
    "linear_focal_loss",
    "load_calibrator",
    "load_data",
    "load_recipe",
    "losses",
    "metrics",
    "mmce",
    "models",
    "open_predictions",
    "open_run",
    "own_data",
    "plots",
    "predict",
    "predictions",
    "recipe_names",
    "recipes",
    "report",
    "smoothed_cross_entropy",
    "sweep",
    "sweep_many",
    "sweeps",
    "train",
    "training",
    "write_report",
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
