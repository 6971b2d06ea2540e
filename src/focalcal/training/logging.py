"""Where the history goes beside ``history.jsonl``: the loggers that Fabric takes, imported on use."""

import importlib
from pathlib import Path
from typing import Any

from focalcal.recipes.settings import LoggingSettings

# Name in recipes -> module, class, what to install, and the arguments that put its files into the run directory.
_LOGGERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "tensorboard": (
        "lightning_fabric.loggers",
        "TensorBoardLogger",
        "focalcal[tensorboard]",
        {"name": "", "version": ""},
    ),
    "csv": (
        "lightning_fabric.loggers",
        "CSVLogger",
        "lightning-fabric",
        {"name": "", "version": "", "flush_logs_every_n_steps": 1},
    ),
    "mlflow": ("lightning.pytorch.loggers", "MLFlowLogger", "lightning mlflow", {}),
    "wandb": ("lightning.pytorch.loggers", "WandbLogger", "lightning wandb", {}),
}


def build_loggers(settings: LoggingSettings, folder: Path) -> list[Any]:
    """The loggers that a recipe asks for; those that write files write them to ``logs/`` in the run directory."""
    return [_logger(name, folder) for name in settings.to]


def _logger(name: str, folder: Path) -> Any:
    module, kind, package, options = _LOGGERS[name]
    place = "save_dir" if name != "tensorboard" and name != "csv" else "root_dir"
    try:
        return getattr(importlib.import_module(module), kind)(**{place: str(folder / "logs" / name)}, **options)
    except ImportError as error:
        raise ValueError(f"logging.to={name} needs packages that are not installed: pip install {package}.") from error
