"""``evaluation.json``: what came out of a run, before and after temperature scaling."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.base.files import null_for_nan
from focalcal.calibrators import CalibrationWarning, TemperatureScaling
from focalcal.calibrators.temperature import Objective
from focalcal.metrics import evaluate
from focalcal.predictions import Predictions

if TYPE_CHECKING:
    from focalcal.training.trainer import Trainer

_OBJECTIVES: tuple[Objective, ...] = ("nll", "ece")


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
    scalers = {objective: fitted_temperature(objective, val) for objective in _OBJECTIVES}
    result["temperature"] = {objective: scaler.temperature_ for objective, scaler in scalers.items()}
    for split in ("val", "test"):
        file = folder / f"{split}.safetensors"
        if file.is_file():
            preds = Predictions.load(file)
            after = {f"after_{objective}": _values(scaler.transform(preds)) for objective, scaler in scalers.items()}
            result["splits"][split] = {"before": _values(preds), **after}
    return result


def fitted_temperature(objective: Objective, val: Predictions) -> TemperatureScaling:
    """Temperature scaling fitted on validation predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # T at its bound is there to be read in the result
        return TemperatureScaling(objective=objective).fit(val)


def _values(preds: Predictions) -> dict[str, float | None]:
    values: dict[str, float | None] = null_for_nan(evaluate(preds, bootstrap=0).values)
    return values
