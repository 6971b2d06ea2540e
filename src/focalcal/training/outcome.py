"""``evaluation.json``: what came out of a run, before and after temperature scaling."""

import math
import warnings
from pathlib import Path
from typing import Any

from focalcal.calibrators import CalibrationWarning, TemperatureScaling
from focalcal.metrics import evaluate
from focalcal.predictions import Predictions
from focalcal.training.trainer import Trainer

_OBJECTIVES = ("nll", "ece")


def run_evaluation(folder: Path, trainer: Trainer) -> dict[str, Any]:
    """Metrics of every split that has labels of the same classes; no intervals, which ``focalcal evaluate`` gives."""
    val = Predictions.load(folder / "val.safetensors")
    best = trainer.best
    result: dict[str, Any] = {
        "recipe": trainer.recipe.name,
        "loss": trainer.recipe.loss,
        "seed": trainer.recipe.seed,
        "selection": trainer.recipe.select,
        "epoch": trainer.recipe.epochs - 1 if best is None else best["epoch"],
        "temperature": {},
        "splits": {},
    }
    scalers = {objective: _fitted(objective, val) for objective in _OBJECTIVES}
    result["temperature"] = {objective: scaler.temperature_ for objective, scaler in scalers.items()}
    for split in ("val", "test"):
        file = folder / f"{split}.safetensors"
        if file.is_file():
            preds = Predictions.load(file)
            after = {f"after_{objective}": _values(scaler.transform(preds)) for objective, scaler in scalers.items()}
            result["splits"][split] = {"before": _values(preds), **after}
    return result


def _fitted(objective: Any, val: Predictions) -> TemperatureScaling:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # T at its bound is there to be read in the result
        return TemperatureScaling(objective=objective).fit(val)


def _values(preds: Predictions) -> dict[str, float | None]:
    values = evaluate(preds, bootstrap=0).values
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
