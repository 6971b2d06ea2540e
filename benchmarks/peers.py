"""The peers, each behind one small function; they live in an environment of their own that ``make bench`` sets up."""

import importlib.util
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def torch_uncertainty_metrics() -> types.ModuleType:
    """torch-uncertainty's calibration metrics without the rest of it, which imports torchvision."""
    root = Path(next(iter(importlib.util.find_spec("torch_uncertainty").submodule_search_locations)))
    for name in ("torch_uncertainty", "torch_uncertainty.metrics", "torch_uncertainty.metrics.classification"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules.setdefault(name, package)
    return importlib.import_module("torch_uncertainty.metrics.classification.calibration")


def scikit_learn_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that scikit-learn's calibrator fits."""
    from sklearn.calibration import _TemperatureScaling

    return 1 / float(_TemperatureScaling().fit(logits.numpy(), labels.numpy()).beta_)


def probmetrics_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that probmetrics' calibrator fits."""
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    calibrator = TemperatureScalingCalibrator()
    calibrator.fit_torch(CategoricalLogits(logits), labels)
    return 1 / float(calibrator.invtemp_)


def torchmetrics_ece(probs: Tensor, labels: Tensor) -> float:
    """ECE with 15 bins by torchmetrics."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    return float(multiclass_calibration_error(probs, labels, num_classes=probs.shape[1], n_bins=15))


def torch_uncertainty_errors(probs: Tensor, labels: Tensor) -> tuple[float, float]:
    """AdaECE and classwise-ECE with 15 bins by torch-uncertainty."""
    metrics = torch_uncertainty_metrics()
    classes = probs.shape[1]
    adaptive = metrics.AdaptiveCalibrationError(task="multiclass", num_classes=classes, num_bins=15)
    classwise = metrics.ClasswiseCalibrationError(num_classes=classes, num_bins=15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(adaptive(probs, labels)), float(classwise(probs, labels))


def uncertainty_calibration_bootstrap(probs: np.ndarray, labels: np.ndarray) -> list[float]:
    """uncertainty-calibration's interval of the top-label ECE, from its 100 bootstrap samples."""
    import calibration

    return calibration.get_calibration_error_uncertainties(probs, labels, p=1, mode="top-label")


def require() -> None:
    """Exits with a sentence where the peers are not installed."""
    missing = [n for n in ("torch_uncertainty", "torchmetrics", "probmetrics", "calibration") if not _has(n)]
    if missing:
        sys.exit(f"The peers {', '.join(missing)} are not installed here: run this through `make bench`.")


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def naive_grid(logits: Tensor, labels: Tensor, temperatures: list[float]) -> float:
    """The temperature of least ECE by a loop of softmax + ECE, as it is usually written."""
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
