"""One model of a report: everything that is measured of it, in a few passes over its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from focalcal.base.chunks import chunk_rows
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics import Evaluation, evaluate
from focalcal.metrics.catalogue import names_for
from focalcal.metrics.samples import block_statistics, of_answers
from focalcal.plots.roc_curves import Roc, roc
from focalcal.plots.training_history import TrainingCurves, training_curves
from focalcal.predictions import Predictions, concatenate
from focalcal.predictions.masking import answer_classes, answer_names
from focalcal.report.classes import Classes, ClassesSoFar, distinct_names
from focalcal.report.mistakes import Confusion, Mistake, MistakesSoFar
from focalcal.report.model_sources import Data, ModelSource
from focalcal.report.scaling import Scaling, fit_scaling
from focalcal.report.slider import Slider, Stop, stops_with

# What scaling can change, and error beside it.
AFTER_METRICS = (
    *("error", "accuracy", "nll", "brier", "ece", "ece_floor", "smooth_ece", "ada_ece", "classwise_ece", "signed_gap"),
    *("mean_confidence", "confident_share", "confident_accuracy"),
)
_VALUES_IN_A_BLOCK, _ROWS_IN_A_BLOCK = 2**21, 2**16
# A ROC curve of more samples than this is drawn from some of them.
_ROC_SAMPLES = 2**18


@dataclass(frozen=True)
class ReportSettings:
    """Numbers of bins and resamples, the intervals' level, the seed, T's objective, and columns of groups."""

    bins: int = 15
    bootstrap: int = 1000
    level: float = 0.90
    seed: int = 0
    objective: Objective = "nll"
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportedModel:
    """One model.

    Attributes:
        source: The source.
        before: All metrics of the uncalibrated predictions.
        after: Metrics that scaling may change, after scaling; None if there is no temperature.
        scaling: The temperature.
        stops: The values that the slider shows.
        classes: One row per class.
        mistakes: The most confident ones.
        confusions: Pairs of classes that are confused.
        ood: A ROC curve by out-of-distribution data.
        curves: The training curves of a run.
        notes: Sentences about what could not be done.
        impossible: Number of labels that were given probability 0.
        has_soft_labels: True if the labels are class probabilities.
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
        """The name that the report calls it by."""
        return self.source.name

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, or numbers; each can be seen, and told from the others."""
        return distinct_names(answer_names(self.source.data) or [str(i) for i in answer_classes(self.source.data)])

    def stop(self, temperature: float) -> Stop:
        """Find the stop of a temperature that the slider has."""
        return next(stop for stop in self.stops if stop.temperature == temperature)


def measure_model(source: ModelSource, settings: ReportSettings) -> ReportedModel:
    """Read and measure; a file too large for memory is read four times, in blocks."""
    data = source.data
    scaling, notes = fit_scaling(data, source.val, settings.objective)
    how: dict[str, Any] = {name: getattr(settings, name) for name in ("bins", "bootstrap", "level", "seed")}
    before = evaluate(data, by=settings.by, **how)
    after = None
    if scaling is not None:
        names = names_for(AFTER_METRICS, data.num_classes, data.of)
        after = evaluate(scaling.scale(data), metrics=names, **how)
    passed = _one_pass(data, scaling, settings.bins)
    curves = None if source.history is None else training_curves(source.history)
    return ReportedModel(
        source=source,
        before=before,
        after=after,
        scaling=scaling,
        stops=passed.slider.stops(),
        classes=passed.classes.classes(settings.level),
        mistakes=passed.mistakes.worst(),
        confusions=passed.mistakes.confusions(),
        ood={name: roc(_some(data), _some(outside)) for name, outside in source.ood.items()},
        curves=curves,
        notes=(*notes, *before.notes, *(() if curves is None else curves.notes), *source.notes),
        impossible=passed.impossible,
        has_soft_labels=passed.has_soft_labels,
    )


class _Passed(NamedTuple):
    slider: Slider
    classes: ClassesSoFar
    mistakes: MistakesSoFar
    impossible: int
    has_soft_labels: bool


def _one_pass(data: Data, scaling: Scaling | None, bins: int) -> _Passed:
    samples = len(data) if isinstance(data, Predictions) else data.num_samples
    slider = Slider(stops_with(None if scaling is None else scaling.temperature), samples)
    answers = len(answer_classes(data))
    mistakes = MistakesSoFar(answers)
    classes: ClassesSoFar | None = None
    impossible, soft = 0, False
    for block in data.blocks(min(_ROWS_IN_A_BLOCK, chunk_rows(data.num_classes, _VALUES_IN_A_BLOCK))):
        classes = classes or ClassesSoFar(answers, bins, block.weights is not None)
        soft |= block.has_soft_labels
        start = 0
        for stats, probs in block_statistics(block):
            part = block.select(range(start, start + len(stats))) if len(stats) < len(block) else block
            slider.add(part, stats)
            answered = of_answers(stats)
            classes.add(answered, probs, part.clusters)
            mistakes.add(answered, part.ids)
            # What weighs nothing does not count.
            impossible += int((stats.nll.isinf() & (True if stats.weight is None else stats.weight > 0)).sum())
            start += len(stats)
    assert classes is not None  # predictions without samples do not exist
    return _Passed(slider, classes, mistakes, impossible, soft)


def _some(data: Data) -> Predictions:
    """Return all samples, or evenly spread ones where there are more than a curve needs."""
    samples = len(data) if isinstance(data, Predictions) else data.num_samples
    stride = -(-samples // _ROC_SAMPLES)
    if isinstance(data, Predictions):
        return data if stride == 1 else data.select(range(0, samples, stride))
    parts, first = [], 0
    for block in data.blocks():
        parts.append(block.select(range(-first % stride, len(block), stride)))
        first += len(block)
    return concatenate(parts)
