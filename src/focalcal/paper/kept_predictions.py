"""Predictions that were kept of a run, before and after the paper's temperature scaling."""

from focalcal.calibrators import TemperatureScaling
from focalcal.calibrators.temperature import Objective
from focalcal.paper.result_folders import KeptRun
from focalcal.predictions import Predictions
from focalcal.training.evaluating import fit_temperature


def load_scaled(
    run: KeptRun, *splits: str, objective: Objective = "ece"
) -> tuple[TemperatureScaling, dict[str, tuple[Predictions, Predictions]]]:
    """Load splits of the epoch that the recipe selects, each before and after scaling.

    Args:
        run: A run whose predictions were kept.
        splits: Names such as ``test`` and ``svhn``.
        objective: What T minimises on the validation set.

    Returns:
        The fitted scaling, and a pair of predictions by split.

    Raises:
        ValueError: Predictions are not there.
    """
    kept = run.finished
    missing = [one for one in ("val", *splits) if kept is None or not kept.file(one, kept.shown).is_file()]
    if kept is None or missing:
        raise ValueError(f"The run {run.name} of {run.dataset} has no predictions for {missing[0]}.")
    scaler = fit_temperature(objective, kept.predictions("val", kept.shown))
    loaded = {split: kept.predictions(split, kept.shown) for split in splits}
    return scaler, {split: (preds, scaler.transform(preds)) for split, preds in loaded.items()}
