"""Everything that a report says about one model, worked out in a few passes over its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from focalcal.metrics import Evaluation, evaluate
from focalcal.metrics.statistics import block_statistics
from focalcal.plots.roc import Roc, roc
from focalcal.plots.training_curves import TrainingCurves, training_curves
from focalcal.predictions import Predictions, concatenate
from focalcal.predictions.masking import answer_classes, answer_names
from focalcal.report.classes import Classes, ClassesSoFar, distinct_names
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
        impossible: how many labels were given probability 0.
        has_soft_labels: whether the labels are class probabilities.
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
    impossible: int = 0
    has_soft_labels: bool = False

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.source.name

    @property
    def class_names(self) -> list[str]:
        """Of the file, or numbers; each can be seen, and told from the others."""
        return distinct_names(answer_names(self.source.data) or [str(i) for i in answer_classes(self.source.data)])

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
    passed = _one_pass(data, scaling, r.bins)
    curves = None if source.history is None else training_curves(source.history)
    return Examined(
        source=source,
        before=before,
        after=after,
        scaling=scaling,
        stops=passed.sweep.stops(),
        classes=passed.classes.classes(),
        mistakes=passed.mistakes.worst(),
        confusions=passed.mistakes.confusions(),
        ood={name: roc(_some(data), _some(outside)) for name, outside in source.ood.items()},
        curves=curves,
        notes=(*notes, *before.notes, *(() if curves is None else curves.notes)),
        impossible=passed.impossible,
        has_soft_labels=passed.has_soft_labels,
    )


class _Passed(NamedTuple):
    sweep: Sweep
    classes: ClassesSoFar
    mistakes: MistakesSoFar
    impossible: int
    has_soft_labels: bool


def _one_pass(data: Data, scaling: Scaling | None, bins: int) -> _Passed:
    samples = len(data) if isinstance(data, Predictions) else data.num_samples
    sweep = Sweep(stops_with(None if scaling is None else scaling.temperature), samples)
    answers = len(answer_classes(data))
    mistakes = MistakesSoFar(answers)
    classes: ClassesSoFar | None = None
    impossible, soft = 0, False
    for block in data.blocks(max(1, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // data.num_classes))):
        classes = classes or ClassesSoFar(answers, bins, block.weights is not None)
        soft |= block.has_soft_labels
        start = 0
        for stats, probs in block_statistics(block):
            part = block.select(range(start, start + len(stats))) if len(stats) < len(block) else block
            sweep.add(part, stats)
            classes.add(stats, probs)
            mistakes.add(stats, part.ids)
            # What weighs nothing does not count.
            impossible += int((stats.nll.isinf() & (True if stats.weight is None else stats.weight > 0)).sum())
            start += len(stats)
    assert classes is not None  # predictions without samples do not exist
    return _Passed(sweep, classes, mistakes, impossible, soft)


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
