"""The formats by their endings."""

import os
from importlib import import_module
from types import ModuleType

from focalcal.base.files import atomic_writer
from focalcal.predictions.container import Predictions
from focalcal.predictions.failures import Path

# Each module has ``BROKEN``, ``open_source(path, choices)`` and, but for npy, ``write(preds, file)``.
_MODULES = {
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".npy": "npy",
    ".parquet": "parquet",
    ".csv": "csv",
}


def format_of(path: Path) -> ModuleType:
    """Import the module of the format that the ending names; only then, since pyarrow takes its time."""
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in _MODULES:
        raise ValueError(f"{name} ends in none of {', '.join(_MODULES)}; predictions are in one of these formats.")
    return import_module(f"focalcal.predictions.formats.{_MODULES[ending]}")


def save_predictions(preds: Predictions, path: Path) -> None:
    """Write predictions in the format that the ending names."""
    chosen = format_of(path)
    if not hasattr(chosen, "write"):
        raise ValueError(f"{os.fspath(path)} cannot be written: an npy has no place for labels; save to .npz.")
    with atomic_writer(path) as file:
        chosen.write(preds, file)
