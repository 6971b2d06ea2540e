"""From a finished run to its figures: before and after temperature scaling, for the best and for the last epoch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from focalcal.calibrators import TemperatureScaling
from focalcal.calibrators.temperature import Objective
from focalcal.comparison.plan import PlannedRun
from focalcal.comparison.rows import Row, Selection, title
from focalcal.metrics import Evaluation, evaluate, ood_auroc
from focalcal.predictions import Predictions
from focalcal.predictions.masking import answer_classes
from focalcal.training import open_run
from focalcal.training.outcome import fitted_temperature

# Metrics by the names of the published table; what temperature scaling cannot change comes first.
_FIXED = {"error": "error", "top_5_accuracy": "top5_accuracy"}
_SCALED = {
    "ece": "ece",
    "ada_ece": "ada_ece",
    "classwise_ece": "classwise_ece",
    "mce": "mce",
    "nll": "nll",
    "confident_share": "s99_share",
    "confident_accuracy": "s99_accuracy",
}


@dataclass(frozen=True)
class Scored:
    """One epoch of one run with one way of fitting T.

    Attributes:
        test: predictions as they are, and scaled.
        temperature: T, fitted on validation.
        rows: its figures.
    """

    method: str
    seed: int
    selection: Selection
    test: tuple[Predictions, Predictions]
    temperature: float
    rows: tuple[Row, ...]


def score(run: PlannedRun, selection: Selection, objective: Objective, *, bootstrap: int, level: float) -> Scored:
    """Measure one epoch of a run; the temperature is fitted on its validation predictions."""
    opened = open_run(run.path)
    which = "last" if selection == "last" else "selected"
    val, test = (opened.predictions(split, which) for split in ("val", "test"))
    scaler = fitted_temperature(objective, val)
    scaled = scaler.transform(test)
    epoch = run.recipe.epochs - 1 if selection == "last" else int(opened.evaluation["epoch"])
    others = {split: opened.predictions(split, which) for split in getattr(run.recipe.data, "ood", ())}
    rows = [_row(run, selection, "epoch", "", epoch + 1.0)]
    before, after = (_evaluated(preds, bootstrap, level) for preds in (test, scaled))
    rows += _metric_rows(run, selection, before, "pre", None)
    rows += _metric_rows(run, selection, after, "post", scaler.temperature_)
    rows += _ood_rows(run, selection, (test, scaled), others, scaler)
    return Scored(run.loss, run.seed, selection, (test, scaled), scaler.temperature_, tuple(rows))


def _evaluated(preds: Predictions, bootstrap: int, level: float) -> Evaluation:
    names = [name for name in (*_FIXED, *_SCALED) if name != "top_5_accuracy" or len(answer_classes(preds)) > 5]
    return evaluate(preds, names, bootstrap=bootstrap, level=level)


def _metric_rows(
    run: PlannedRun, selection: Selection, result: Evaluation, scaling: str, temperature: float | None
) -> Iterator[Row]:
    for name, value in result.values.items():
        if name in _FIXED and scaling == "post":
            continue
        low, high = result.intervals.get(name, (None, None))
        if math.isfinite(value):
            shown = "" if name in _FIXED else scaling
            metric = {**_FIXED, **_SCALED}[name]
            yield _row(run, selection, metric, shown, 100 * value, _percent(low), _percent(high), temperature)


def _percent(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else 100 * value


def _row(
    run: PlannedRun,
    selection: Selection,
    metric: str,
    scaling: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    temperature: float | None = None,
    dataset: str = "",
) -> Row:
    names = (dataset or title(run.recipe.data.name), title(run.recipe.model.name), run.loss)
    return Row(*names, run.seed, selection, metric, scaling, value, low, high, temperature)


def _ood_rows(
    run: PlannedRun,
    selection: Selection,
    test: tuple[Predictions, Predictions],
    others: dict[str, Predictions],
    scaler: TemperatureScaling,
) -> Iterator[Row]:
    for name, preds in others.items():
        dataset = f"{title(run.recipe.data.name)}/{title(name)}"
        pairs = (("pre", test[0], preds, None), ("post", test[1], scaler.transform(preds), scaler.temperature_))
        for scaling, inside, outside, temperature in pairs:
            auroc = 100 * ood_auroc(inside, outside, score="entropy")
            yield _row(run, selection, "ood_auroc", scaling, auroc, temperature=temperature, dataset=dataset)
