"""Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.

The public names are imported on first use, so that ``import focalcal`` stays fast.
"""

from typing import TYPE_CHECKING

from focalcal._version import __version__ as __version__
from focalcal.base.lazy import lazy_names

if TYPE_CHECKING:
    from focalcal import calibrators as calibrators
    from focalcal import data as data
    from focalcal import diagnosis as diagnosis
    from focalcal import gamma as gamma
    from focalcal import integrations as integrations
    from focalcal import losses as losses
    from focalcal import metrics as metrics
    from focalcal import models as models
    from focalcal import plots as plots
    from focalcal import predictions as predictions
    from focalcal import recipes as recipes
    from focalcal import report as report
    from focalcal import sweeps as sweeps
    from focalcal import training as training
    from focalcal.calibrators import AutoCalibration as AutoCalibration
    from focalcal.calibrators import BetaCalibration as BetaCalibration
    from focalcal.calibrators import CalibrationWarning as CalibrationWarning
    from focalcal.calibrators import DirichletCalibration as DirichletCalibration
    from focalcal.calibrators import EnsembleTemperatureScaling as EnsembleTemperatureScaling
    from focalcal.calibrators import FocalInverse as FocalInverse
    from focalcal.calibrators import FocalTemperatureScaling as FocalTemperatureScaling
    from focalcal.calibrators import HistogramBinning as HistogramBinning
    from focalcal.calibrators import Identity as Identity
    from focalcal.calibrators import IsotonicCalibration as IsotonicCalibration
    from focalcal.calibrators import MatrixScaling as MatrixScaling
    from focalcal.calibrators import PlattScaling as PlattScaling
    from focalcal.calibrators import QuadraticScaling as QuadraticScaling
    from focalcal.calibrators import StructuredScaling as StructuredScaling
    from focalcal.calibrators import TemperatureScaling as TemperatureScaling
    from focalcal.calibrators import VectorScaling as VectorScaling
    from focalcal.calibrators import build_calibrator as build_calibrator
    from focalcal.calibrators import calibrator_drift as calibrator_drift
    from focalcal.calibrators import fold as fold
    from focalcal.calibrators import fold_into as fold_into
    from focalcal.calibrators import load_calibrator as load_calibrator
    from focalcal.data import DataSet as DataSet
    from focalcal.data import load_data as load_data
    from focalcal.data import own_data as own_data
    from focalcal.diagnosis import Diagnosis as Diagnosis
    from focalcal.diagnosis import diagnose as diagnose
    from focalcal.gamma import EpochGamma as EpochGamma
    from focalcal.gamma import FixedGamma as FixedGamma
    from focalcal.gamma import SampleGamma as SampleGamma
    from focalcal.gamma import entropy_bound as entropy_bound
    from focalcal.gamma import focal_optimum as focal_optimum
    from focalcal.gamma import gamma_star as gamma_star
    from focalcal.gamma import gradient_factor as gradient_factor
    from focalcal.integrations.onnx import export_onnx as export_onnx
    from focalcal.losses import BinaryFocalLoss as BinaryFocalLoss
    from focalcal.losses import BrierLoss as BrierLoss
    from focalcal.losses import FocalLoss as FocalLoss
    from focalcal.losses import LabelSmoothingLoss as LabelSmoothingLoss
    from focalcal.losses import MMCELoss as MMCELoss
    from focalcal.losses import binary_focal_loss as binary_focal_loss
    from focalcal.losses import brier_loss as brier_loss
    from focalcal.losses import build_loss as build_loss
    from focalcal.losses import focal_loss as focal_loss
    from focalcal.losses import linear_focal_loss as linear_focal_loss
    from focalcal.losses import mmce as mmce
    from focalcal.losses import smoothed_cross_entropy as smoothed_cross_entropy
    from focalcal.metrics import Accumulator as Accumulator
    from focalcal.metrics import Evaluation as Evaluation
    from focalcal.metrics import compare as compare
    from focalcal.metrics import compare_many as compare_many
    from focalcal.metrics import evaluate as evaluate
    from focalcal.metrics import evaluate_shards as evaluate_shards
    from focalcal.metrics.bootstrap.intervals import bootstrap as bootstrap
    from focalcal.models import build_model as build_model
    from focalcal.predictions import Predictions as Predictions
    from focalcal.predictions import PredictionsFile as PredictionsFile
    from focalcal.predictions import open_predictions as open_predictions
    from focalcal.predictions import predict as predict
    from focalcal.recipes import Recipe as Recipe
    from focalcal.recipes import load_recipe as load_recipe
    from focalcal.recipes import recipe_names as recipe_names
    from focalcal.report import write_report as write_report
    from focalcal.sweeps import SweepResult as SweepResult
    from focalcal.sweeps import SweepResults as SweepResults
    from focalcal.sweeps import sweep as sweep
    from focalcal.sweeps import sweep_many as sweep_many
    from focalcal.training import Run as Run
    from focalcal.training import open_run as open_run
    from focalcal.training import train as train

__getattr__, __dir__, __all__ = lazy_names(__name__)
