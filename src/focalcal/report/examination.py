"""Everything that a report says about one model, worked out in a few passes over its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from focalcal.metrics import Evaluation, evaluate
from focalcal.metrics.statistics import block_statistics
from focalcal.plots.roc import Roc, roc
from focalcal.plots.training_curves import TrainingCurves, training_curves
from focalcal.predictions import Predictions, concatenate
from focalcal.report.classes import Classes, ClassesSoFar
from focalcal.report.mistakes import Confusion, Mistake, MistakesSoFar
from focalcal.report.sources import Data, ModelSource
from focalcal.report.sweep import Stop, Sweep, stops_with
from focalcal.report.temperature import Scaling, fitted_scaling

# What scaling can change, and error beside it.
AFTER_METRICS = (
    *("error", "accuracy", "nll", "brier", "ece", "ece_floor", "smooth_ece", "ada_ece", "classwise_ece", "signed_gap"),
    *("mean_confidence", "confident_share", "confident_accuracy"),
)
_VALUES_AT_ONCE, _ROWS_AT_ONCE = 2**21, 2**16
# A ROC curve of more samples than this is drawn from some of them.
_ROC_SAMPLES = 2**18


@dataclass(frozen=True)
class Request:
    """How things are measured: numbers of bins and resamples, the intervals' level, the seed."""

    bins: int = 15
    bootstrap: int = 1000
    level: float = 0.90
    seed: int = 0


@dataclass(frozen=True)
class Examined:
    """One model.

    Attributes:
        source: what was read.
        before: all metrics of the predictions as they are.
        after: those that scaling may change, after scaling; None where there is no temperature.
        scaling: the temperature.
        stops: what the slider shows.
        classes: a row a class.
        mistakes: the most confident ones.
        confusions: which class is taken for which.
        ood: a ROC curve by out-of-distribution data.
        curves: of the training, for a run.
        notes: sentences about what could not be done.
    """

    source: ModelSource
    before: Evaluation
    after: Evaluation | None
    scaling: Scaling | None
    stops: list[Stop]
    classes: Classes
    mistakes: list[Mistake]
    confusions: list[Confusion]
    ood: Mapping[str, Roc] = field(default_factory=dict)
    curves: TrainingCurves | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.source.name

    @property
    def class_names(self) -> list[str]:
        """Of the file, or numbers."""
        return list(self.source.data.class_names or map(str, range(self.before.num_classes)))

    def stop(self, temperature: float) -> Stop:
        """The stop of a temperature that the slider has."""
        return next(stop for stop in self.stops if stop.temperature == temperature)


def examined(source: ModelSource, request: Request) -> Examined:
    """Read and measure; a file too large for memory is read four times, in blocks."""
    data, r = source.data, request
    scaling, notes = fitted_scaling(data, source.val)
    before = evaluate(data, None, r.bins, r.bootstrap, r.level, r.seed)
    after = None
    if scaling is not None:
        after = evaluate(scaling.scaled(data), AFTER_METRICS, r.bins, r.bootstrap, r.level, r.seed)
    sweep, classes, mistakes = _one_pass(data, scaling, r.bins)
    return Examined(
        source=source,
        before=before,
        after=after,
        scaling=scaling,
        stops=sweep.stops(),
        classes=classes.classes(),
        mistakes=mistakes.worst(),
        confusions=mistakes.confusions(),
        ood={name: roc(_some(data), _some(outside)) for name, outside in source.ood.items()},
        curves=None if source.history is None else training_curves(source.history),
        notes=(*notes, *before.notes),
    )


def _one_pass(data: Data, scaling: Scaling | None, bins: int) -> tuple[Sweep, ClassesSoFar, MistakesSoFar]:
    samples = len(data) if isinstance(data, Predictions) else data.num_samples
    sweep = Sweep(stops_with(None if scaling is None else scaling.temperature), samples)
    mistakes = MistakesSoFar(data.num_classes)
    classes: ClassesSoFar | None = None
    for block in data.blocks(max(1, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // data.num_classes))):
        classes = classes or ClassesSoFar(data.num_classes, bins, block.weights is not None)
        start = 0
        for stats, probs in block_statistics(block):
            part = block.select(range(start, start + len(stats))) if len(stats) < len(block) else block
            sweep.add(part, stats)
            classes.add(stats, probs)
            mistakes.add(stats, part.ids)
            start += len(stats)
    assert classes is not None  # predictions without samples do not exist
    return sweep, classes, mistakes


def _some(data: Data) -> Predictions:
    """All samples, or evenly spread ones where there are more than a curve needs."""
    samples = len(data) if isinstance(data, Predictions) else data.num_samples
    stride = -(-samples // _ROC_SAMPLES)
    if isinstance(data, Predictions):
        return data if stride == 1 else data.select(range(0, samples, stride))
    parts, first = [], 0
    for block in data.blocks():
        parts.append(block.select(range(-first % stride, len(block), stride)))
        first += len(block)
    return concatenate(parts)
