"""Data that the page's script draws: numbers only, rounded to what an eye can see, in plain lists."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from focalcal.base.measures import Of, measure
from focalcal.metrics.binning import BinSums
from focalcal.plots.reliability import diagram_of_sums
from focalcal.plots.selective_prediction import risk_coverage_of_ranked
from focalcal.plots.smooth_diagram import smooth_of_sums, usual_width
from focalcal.plots.training_history import CURVES, TrainingCurves
from focalcal.report.reported_model import ReportedModel, ReportSettings
from focalcal.report.slider import BIN_COUNTS, Stop

# Shares are sent as whole ten-thousandths, which are shorter; −1 stands for "undefined".
_UNITS = 10_000
# Classes with a reliability diagram of their own, and rows of the table, over all models: both cost space in the file.
_CLASS_DIAGRAMS, _CLASS_ROWS = 2000, 12_000
_IMAGE_BYTES = 450_000
# From this many models on, diagrams have no 50 bins, which take as much space as all other numbers of bins.
_MANY_MODELS = 7


def bin_counts(models: int) -> tuple[int, ...]:
    """Return the numbers of bins that a diagram may have, in a report on this number of models."""
    return BIN_COUNTS if models < _MANY_MODELS else BIN_COUNTS[:-1]


def nearest_bins(wanted: int, models: int) -> int:
    """Return the number of bins on offer that is nearest to the one of the metrics."""
    return min(bin_counts(models), key=lambda count: abs(count - wanted))


def _outcomes(of: Of, event: str | None) -> list[str]:
    """Name what comes true and what does not."""
    if of != "score":
        return ["right", "wrong"]
    return ["class 1", "class 0"] if event is None else [event, f"not {event}"]


def model_payload(model: ReportedModel, settings: ReportSettings, models: int) -> dict[str, Any]:
    """Collect everything that is drawn of one model, in a report on this number of models."""
    scaling = model.scaling
    temperatures = [stop.temperature for stop in model.stops]
    axes = measure(model.before.of, model.before.event)
    width = usual_width(model.before.values["smooth_ece"], model.before.n)
    return {
        "name": model.name,
        "samples": model.before.n,
        "of": model.before.of,
        "outcomes": _outcomes(model.before.of, model.before.event),
        "axes": {"x": axes.confidence, "y": axes.outcome},
        "fitted": None if scaling is None else temperatures.index(scaling.temperature),
        "neutral": temperatures.index(1.0),
        "criterion": None if scaling is None else scaling.criterion,
        "crossFitted": scaling is not None and scaling.source == "cross",
        "stops": [_stop(stop, model.before.n, settings.level, width, bin_counts(models)) for stop in model.stops],
        "coverage": _coverage(model),
        "classes": _classes(model, settings, models),
        "mistakes": [
            {
                "id": mistake.id,
                "label": mistake.label,
                "prediction": mistake.prediction,
                "confidence": _round(mistake.confidence, 6),
            }
            for mistake in model.mistakes
        ],
        "confusions": [
            [pair.label, pair.prediction, _round(pair.count, 3), _round(pair.confidence, 4)]
            for pair in model.confusions
        ],
        "ood": [
            {"name": name, "x": _shares(roc.false_rates), "y": _shares(roc.true_rates), "auroc": _round(roc.auroc, 5)}
            for name, roc in model.ood.items()
        ],
        "curves": None if model.curves is None else _training(model.curves),
    }


def _stop(stop: Stop, samples: int, level: float, width: float, counts: Sequence[int]) -> dict[str, Any]:
    smooth = smooth_of_sums(stop.cells, samples, width)
    count = stop.cells.count.sum()
    return {
        "t": _round(stop.temperature, 6),
        "nll": _round(stop.nll, 6),
        "confidence": _round(float(stop.cells.confidence.sum() / count), 6),
        "accuracy": _round(float(stop.cells.correct.sum() / count), 6),
        "width": {
            bins: _bins(stop.equal_width(bins), samples, level) | {"floor": _round(stop.ece_floor(bins), 6)}
            for bins in counts
        },
        "mass": {bins: _bins(stop.ranked.equal_mass(bins), samples, level) for bins in counts},
        "smooth": _shares(smooth.accuracy),
    }


def _bins(sums: BinSums, samples: int, level: float) -> dict[str, Any]:
    diagram = diagram_of_sums(sums, samples, level)
    return {
        "ece": _round(diagram.ece, 6),
        "count": [_amount(value) for value in diagram.count.tolist()],
        "right": [_amount(value) for value in sums.correct.double().tolist()],
        "x": _shares(diagram.confidence),
        "low": _shares(diagram.low),
        "high": _shares(diagram.high),
    }


def _coverage(model: ReportedModel) -> list[dict[str, Any]]:
    shown = {"uncalibrated": 1.0}
    if model.scaling is not None:
        shown["after scaling"] = model.scaling.temperature
    found = []
    for name, temperature in shown.items():
        curve = risk_coverage_of_ranked(model.stop(temperature).ranked)
        rounded = {"y": _shares(curve.accuracy), "threshold": _shares(curve.threshold)}
        found.append({"name": name, "area": _round(curve.area, 6), **rounded})
    return found


def _classes(model: ReportedModel, settings: ReportSettings, models: int) -> dict[str, Any]:
    classes = model.classes
    rows = classes.largest_errors(_CLASS_ROWS // models)
    with_diagram = classes.largest_errors(max(1, _CLASS_DIAGRAMS // models))
    of = classes.predicted
    columns: dict[str, Any] = {
        "n": of.count,
        "accuracy": of.accuracy,
        "confidence": of.confidence,
        "gap": of.gap,
        "low": of.low,
        "high": of.high,
        "p": of.adjusted_p_value,
        "labelled": classes.count,
        "recall": classes.accuracy,
    }
    return {
        "rows": rows,
        **{name: [_round(float(column[i]), 4) for i in rows] for name, column in columns.items()},
        "ece": [_round(float(classes.classwise_ece[i]), 7) for i in rows],
        "diagrams": {i: _bins(classes.bins(i), model.before.n, settings.level) for i in with_diagram},
    }


def _training(curves: TrainingCurves) -> dict[str, Any]:
    values = {
        split: {key: [_round(value, 5) for value in column] for key, column in of.items()}
        for split, of in curves.values.items()
    }
    gammas = {name: [_round(value, 4) for value in share] for name, share in curves.gammas.items()}
    return {"epochs": curves.epochs.tolist(), "values": values, "gammas": gammas, "titles": CURVES}


def images(models: Sequence[ReportedModel], thumbnails: Mapping[str, bytes]) -> dict[str, str]:
    """Encode images by id, of the worst mistakes first, as many as there is room for."""
    found: dict[str, str] = {}
    room = _IMAGE_BYTES
    ranked = [mistake.id for rank in zip_longest(*(model.mistakes for model in models)) for mistake in rank if mistake]
    for name in dict.fromkeys(ranked):
        png = thumbnails.get(name, b"")
        if png and len(png) <= room:
            room -= len(png)
            found[name] = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    return found


def _amount(value: float) -> float | int | None:
    """Round a number of samples, or their weight."""
    return _round(value, 3 if value < 1000 else 0)


def _shares(values: Sequence[float] | np.ndarray) -> list[int]:
    return [-1 if math.isnan(value) else round(_UNITS * value) for value in values]


def _round(value: float, digits: int) -> float | int | None:
    """Round a number to these digits; None where JSON has no word for it."""
    if not math.isfinite(value):
        return None
    rounded = round(float(value), digits)
    return int(rounded) if rounded == int(rounded) else rounded


def shared_class_names(models: Iterable[ReportedModel]) -> tuple[list[list[str]], list[int]]:
    """Collect lists of class names, each once, and which of them each model has."""
    lists: list[list[str]] = []
    which = []
    for model in models:
        names = model.class_names
        if names not in lists:
            lists.append(names)
        which.append(lists.index(names))
    return lists, which
