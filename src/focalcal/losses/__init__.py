"""Losses: one file per family, and ``build_loss`` by the paper's names."""

from focalcal.losses.binary_focal import BinaryFocalLoss, binary_focal_loss
from focalcal.losses.brier import BrierLoss, brier_loss
from focalcal.losses.focal import FocalLoss, focal_loss
from focalcal.losses.linear_focal import linear_focal_loss
from focalcal.losses.loss_registry import LOSS_NAMES, build_loss
from focalcal.losses.mmce_loss import MMCELoss, mmce
from focalcal.losses.smoothing import LabelSmoothingLoss, smoothed_cross_entropy

__all__ = [
    "LOSS_NAMES",
    "BinaryFocalLoss",
    "BrierLoss",
    "FocalLoss",
    "LabelSmoothingLoss",
    "MMCELoss",
    "binary_focal_loss",
    "brier_loss",
    "build_loss",
    "focal_loss",
    "linear_focal_loss",
    "mmce",
    "smoothed_cross_entropy",
]
