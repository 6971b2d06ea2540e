"""The temperature that a report proposes, and predictions scaled by it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from focalcal.calibrators import CalibrationWarning, TemperatureScaling
from focalcal.calibrators.base import keep_argmax
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.predictions import Predictions, PredictionsFile, concatenate
from focalcal.report.model_sources import Data, check_classes, same_predictions
from focalcal.report.readings import pluralise

# A file too large for memory is fitted on every n-th sample, which leaves about this many outputs (64 MB).
_FITTED_VALUES = 2**24
# Five parts while a fit takes no time, and two beyond that.
_MANY_VALUES = 2**22
FEWEST_SAMPLES = 10


@dataclass(frozen=True)
class Scaling:
    """One temperature, or several that take turns over the samples.

    Attributes:
        temperatures: Sample i is scaled by number i mod their count.
        source: "val" if fitted on validation predictions, "cross" if on the other parts of the same predictions.
        fitted_samples: Number of samples that the fit saw (each of them, for several).
        objective: "nll" or "ece", which the fit minimises.
    """

    temperatures: tuple[float, ...]
    source: str
    fitted_samples: int
    objective: Objective = "nll"

    @property
    def temperature(self) -> float:
        """The one, or the geometric mean."""
        return math.exp(sum(map(math.log, self.temperatures)) / len(self.temperatures))

    @property
    def criterion(self) -> str:
        """The objective for people: ``validation ECE``, or ``NLL`` for a cross-fit."""
        return f"{'validation ' if self.source == 'val' else ''}{self.objective.upper()}"

    def apply(self, preds: Predictions, first: int = 0) -> Predictions:
        """Scale predictions, of samples that ``first`` others came before."""
        rows = torch.tensor(self.temperatures, dtype=preds.values.dtype)[
            (torch.arange(len(preds)) + first) % len(self.temperatures)
        ]
        scaled, start = torch.empty_like(preds.values), 0
        for block in preds.blocks():
            part = slice(start, start + len(block))
            torch.div(block.logits(), rows[part, None], out=scaled[part])
            _keep_predictions(block.values, scaled[part])
            start += len(block)
        return replace(preds, values=scaled, kind="logits")

    def scale(self, data: Data) -> Data:
        """Scale predictions, or a file block by block as it is read."""
        return self.apply(data) if isinstance(data, Predictions) else _ScaledFile(data, self)


def _keep_predictions(before: Tensor, after: Tensor) -> None:
    """`keep_argmax` where it is needed: a rounded quotient never changes the order, but may make two outputs equal."""
    equal = torch.eq(after, after.amax(1, keepdim=True), out=torch.empty_like(after))
    tied = (equal.sum(1) > 1).nonzero()[:, 0]
    if len(tied):
        chosen = after[tied]
        keep_argmax(before[tied], chosen)
        after[tied] = chosen


class _ScaledFile(PredictionsFile):
    """A file of predictions, scaled as it is read."""

    def __init__(self, file: PredictionsFile, scaling: Scaling) -> None:
        super().__init__(file.path, file._opened)
        self._file, self._scaling = file, scaling
        self.kind = "logits"

    @property
    def num_samples(self) -> int:
        return self._file.num_samples

    @property
    def size(self) -> int:
        return self._file.size

    def blocks(self, rows: int | None = None, *, is_part: bool = False) -> Iterator[Predictions]:
        first = 0
        for block in self._file.blocks(rows, is_part=is_part):
            yield self._scaling.apply(block, first)
            first += len(block)

    def read(self) -> Predictions:
        return self._scaling.apply(self._file.read())


def fit_scaling(data: Data, val: Data | None, objective: Objective = "nll") -> tuple[Scaling | None, list[str]]:
    """Fit a temperature on validation predictions, or cross-fit it; return sentences about what went wrong, too.

    There is none where the fit has no finite answer: where the label always has the largest output, for example.
    """
    if val is not None:
        check_classes(data, val, {})
        _check_split(val.split)
        if same_predictions(data, val):
            scaling, notes = fit_scaling(data, None, objective)
            return scaling, [*notes, "The validation predictions are those that are reported on, and were not used."]
        parts = [_thinned(val)]
    else:
        preds = _thinned(data)
        if len(preds) < FEWEST_SAMPLES:
            few = f"{pluralise(len(preds), 'sample')} {'is' if len(preds) == 1 else 'are'} too few"
            return None, [f"No temperature is proposed: {few} to fit one and to try it."]
        parts = _other_parts(preds)
    temperatures, notes = [], []
    for part in parts:
        temperature, said = _fit(part, objective)
        temperatures.append(temperature)
        notes += said
    if notes:
        return None, [f"No temperature is proposed. {notes[0]}"]
    source = "cross" if val is None else "val"
    return Scaling(tuple(t for t in temperatures if t is not None), source, len(parts[0]), objective), []


def _check_split(split: str | None) -> None:
    if (split or "").strip().lower() == "test":
        raise ValueError(
            "The validation predictions say that they are of split 'test', and a temperature is to be tried on other "
            "samples than it is fitted on; give validation predictions, or none for a cross-fit."
        )


def _fit(preds: Predictions, objective: Objective) -> tuple[float | None, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            temperature = TemperatureScaling(objective=objective).fit(preds, allow_test=True).temperature_
        except ValueError as error:
            return None, [str(error)]
    return temperature, [str(item.message) for item in caught if issubclass(item.category, CalibrationWarning)]


def _other_parts(preds: Predictions) -> list[Predictions]:
    """Return, for each of a few parts of the samples (dealt out in turn), all the others, which its T is fitted on."""
    count = 2 if preds.values.numel() > _MANY_VALUES else 5
    part = torch.arange(len(preds)) % count
    return [preds.select(part != i) for i in range(count)]


def _thinned(data: Data) -> Predictions:
    """Keep few enough samples to be fitted on in memory."""
    if isinstance(data, Predictions):
        return data
    # An odd stride keeps every part of a cross-fit in what is left.
    stride = max(1, math.ceil(data.num_samples * data.num_classes / _FITTED_VALUES)) | 1
    parts, first = [], 0
    for block in data.blocks():
        kept: Tensor = torch.arange(-first % stride, len(block), stride)
        parts.append(block.select(kept))
        first += len(block)
    return concatenate(parts)
