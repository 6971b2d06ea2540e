"""Figures of a finished run: before and after temperature scaling, for the best and for the last epoch."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from focalcal.calibrators import TemperatureScaling
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics import Evaluation, evaluate, ood_auroc
from focalcal.metrics.ood import auroc_interval
from focalcal.predictions import Predictions
from focalcal.predictions.masking import answer_classes
from focalcal.sweeps.finished import FinishedRun
from focalcal.sweeps.result_rows import Row, Selection, title
from focalcal.training.evaluator import fit_temperature

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
# What is measured of data that is out of distribution and yet has labels of the same classes.
_SHIFTED = ("error", "ece")
# Low, high and method; None and "" if there is no interval.
Interval = tuple[float | None, float | None, str]


@dataclass(frozen=True)
class ScoredEpoch:
    """One epoch of one run with one way of fitting T.

    Attributes:
        test: Predictions, uncalibrated and scaled.
        temperature: T, fitted on validation.
        rows: The figures.
    """

    method: str
    seed: int
    selection: Selection
    test: tuple[Predictions, Predictions]
    temperature: float
    rows: tuple[Row, ...]


def score(run: FinishedRun, selection: Selection, objective: Objective, *, bootstrap: int, level: float) -> ScoredEpoch:
    """Measure one epoch of a run; the temperature is fitted on its validation predictions."""
    val, test = (run.predictions(split, selection) for split in ("val", "test"))
    scaler = fit_temperature(objective, val)
    scaled = scaler.transform(test)
    measure = _Measure(run, selection, bootstrap, level)
    rows = [measure.row("epoch", "", float(run.epochs[selection]))]
    rows += measure.metrics((test, scaled), (*_FIXED, *_SCALED), scaler)
    for split in run.splits(selection)[2:]:
        rows += measure.out_of_distribution((test, scaled), split, scaler)
    return ScoredEpoch(run.loss, run.seed, selection, (test, scaled), scaler.temperature_, tuple(rows))


@dataclass(frozen=True)
class _Measure:
    """Turns predictions into rows."""

    run: FinishedRun
    selection: Selection
    bootstrap: int
    level: float

    def metrics(
        self, pair: tuple[Predictions, Predictions], names: Sequence[str], scaler: TemperatureScaling, dataset: str = ""
    ) -> Iterator[Row]:
        """Yield metrics before and after scaling; those that scaling cannot change once."""
        possible = [name for name in names if name != "top_5_accuracy" or len(answer_classes(pair[0])) > 5]
        yield from self._metrics(pair[0], possible, "pre", None, dataset)
        changed = [name for name in possible if name in _SCALED]
        yield from self._metrics(pair[1], changed, "post", scaler.temperature_, dataset)

    def _metrics(
        self, preds: Predictions, names: Sequence[str], scaling: str, temperature: float | None, dataset: str
    ) -> Iterator[Row]:
        result = evaluate(preds, metrics=names, bootstrap=self.bootstrap, level=self.level)
        for name, value in result.values.items():
            if math.isfinite(value):
                metric, shown = (_FIXED[name], "") if name in _FIXED else (_SCALED[name], scaling)
                yield self.row(metric, shown, 100 * value, _interval(result, name), temperature, dataset)

    def out_of_distribution(
        self, test: tuple[Predictions, Predictions], split: str, scaler: TemperatureScaling
    ) -> Iterator[Row]:
        """Yield AUROC of the entropy; error and ECE if the labels are of the classes that the run was trained for."""
        dataset = f"{title(self.run.data)}/{title(split)}"
        outside = self.run.predictions(split, self.selection)
        pair = (outside, scaler.transform(outside))
        for scaling, temperature, inside, other in zip(
            ("pre", "post"), (None, scaler.temperature_), test, pair, strict=True
        ):
            auroc = 100 * ood_auroc(inside, other, score="entropy")
            ends = auroc_interval(inside, other, score="entropy", level=self.level) if self.bootstrap else None
            interval: Interval = (None, None, "") if ends is None else (100 * ends[0], 100 * ends[1], "delong")
            yield self.row("ood_auroc", scaling, auroc, interval, temperature, dataset)
        if split.startswith(f"{self.run.data}_"):  # the same images, with noise
            yield from self.metrics(pair, _SHIFTED, scaler, dataset)

    def row(
        self,
        metric: str,
        scaling: str,
        value: float,
        interval: Interval = (None, None, ""),
        temperature: float | None = None,
        dataset: str = "",
    ) -> Row:
        """Make one figure of this epoch."""
        run = self.run
        names = (dataset or title(run.data), title(run.model), run.loss)
        low, high, method = interval
        return Row(*names, run.seed, self.selection, metric, scaling, value, low, high, method, temperature)


def _interval(result: Evaluation, name: str) -> Interval:
    """Return the interval in percent, with its method."""
    low, high = result.intervals.get(name, (math.nan, math.nan))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None, ""
    return 100 * low, 100 * high, result.methods[name]
