"""Logits or probabilities with labels: construct, check, save, load, read in blocks, and make with a network."""

from focalcal.predictions.checks import row_sum_tolerance
from focalcal.predictions.container import Predictions, concatenate
from focalcal.predictions.inference import predict
from focalcal.predictions.predictions_file import PredictionsFile, open_predictions
from focalcal.predictions.rows import Kind

__all__ = [
    "Kind",
    "Predictions",
    "PredictionsFile",
    "concatenate",
    "open_predictions",
    "predict",
    "row_sum_tolerance",
]
