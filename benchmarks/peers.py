"""Peers, each behind one small function; ``make bench`` installs them into an environment of their own."""

import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")
PACKAGES = {
    "scikit-learn": "sklearn",
    "probmetrics": "probmetrics",
    "torchmetrics": "torchmetrics",
    "torch-uncertainty": "torch_uncertainty",
    "uncertainty-calibration": "calibration",
}


def is_installed(peer: str) -> bool:
    return importlib.util.find_spec(PACKAGES[peer]) is not None


def installed(calls: Mapping[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
    """Return the calls of those peers that are installed."""
    return {peer: call for peer, call in calls.items() if is_installed(peer)}


@cache
def torch_uncertainty_metrics() -> types.ModuleType:
    """Import torch-uncertainty's calibration metrics without the rest of it, which imports torchvision."""
    for name in ("torch_uncertainty", "torch_uncertainty.metrics", "torch_uncertainty.metrics.classification"):
        specification = importlib.util.find_spec(name)
        assert specification is not None
        # A package with its path that has not run its own __init__.
        sys.modules[name] = importlib.util.module_from_spec(specification)
    return importlib.import_module("torch_uncertainty.metrics.classification.calibration")


def scikit_learn_temperature(logits: Tensor, labels: Tensor) -> float:
    """Fit a temperature with scikit-learn's calibrator."""
    from sklearn.calibration import _TemperatureScaling

    return 1 / float(_TemperatureScaling().fit(logits.numpy(), labels.numpy()).beta_)


def probmetrics_temperature(logits: Tensor, labels: Tensor) -> float:
    """Fit a temperature with probmetrics' calibrator."""
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    calibrator = TemperatureScalingCalibrator()
    calibrator.fit_torch(CategoricalLogits(logits), labels)
    return 1 / float(calibrator.invtemp_)


def torchmetrics_ece(probs: Tensor, labels: Tensor) -> float:
    """Compute ECE with 15 bins by torchmetrics."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    return float(multiclass_calibration_error(probs, labels, num_classes=probs.shape[1], n_bins=15))


def torch_uncertainty_errors(probs: Tensor, labels: Tensor) -> tuple[float, float]:
    """Compute AdaECE and classwise-ECE with 15 bins by torch-uncertainty."""
    metrics = torch_uncertainty_metrics()
    classes = probs.shape[1]
    adaptive = metrics.AdaptiveCalibrationError(task="multiclass", num_classes=classes, num_bins=15)
    classwise = metrics.ClasswiseCalibrationError(num_classes=classes, num_bins=15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(adaptive(probs, labels)), float(classwise(probs, labels))


def uncertainty_calibration_bootstrap(probs: np.ndarray, labels: np.ndarray) -> list[float]:
    """Compute uncertainty-calibration's interval of the top-label ECE, from its 100 bootstrap samples."""
    import calibration

    return calibration.get_calibration_error_uncertainties(probs, labels, p=1, mode="top-label")


def naive_grid(logits: Tensor, labels: Tensor, temperatures: list[float]) -> float:
    """Find the temperature of least ECE by a loop of softmax + ECE, as it is usually written."""
    best, chosen = np.inf, 1.0
    for temperature in temperatures:
        confidence, prediction = torch.softmax(logits / temperature, 1).max(1)
        right = (prediction == labels).float()
        index = torch.bucketize(confidence, torch.linspace(0, 1, 16)[1:-1])
        total = torch.zeros(())
        for b in range(15):
            inside = index == b
            if inside.any():
                total += inside.float().mean() * (confidence[inside].mean() - right[inside].mean()).abs()
        if total < best:
            best, chosen = float(total), temperature
    return chosen
