"""The formats by their endings."""

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from focalcal.base.files import atomic_writer
from focalcal.predictions.container import Predictions
from focalcal.predictions.failures import Path

if TYPE_CHECKING:
    from focalcal.predictions.formats.compact import Compact

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


def save_predictions(preds: Predictions, path: Path, compact: "Compact | None" = None) -> None:
    """Write predictions in the format that the ending names, or in the compact form that safetensors has."""
    chosen = format_of(path)
    if not hasattr(chosen, "write"):
        raise ValueError(f"{os.fspath(path)} cannot be written: an npy has no place for labels; save to .npz.")
    options: dict[str, Any] = {}
    if compact is not None:
        if chosen.__name__.rpartition(".")[2] != "safetensors":
            raise ValueError(f"{os.fspath(path)} cannot be compact: only .safetensors has that form.")
        options = {"compact": compact}
    with atomic_writer(path) as file:
        chosen.write(preds, file, **options)
