"""The comparison of several models: a table with confidence intervals, and which differences are significant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from focalcal.metrics import METRICS, Evaluation
from focalcal.metrics.bootstrap.comparison import compare_many
from focalcal.metrics.bootstrap.differences import Difference
from focalcal.predictions import Predictions
from focalcal.report.readings import format_change, format_interval, format_value
from focalcal.report.reported_model import ReportedModel, ReportSettings

# The columns of the table, lower is better in all of them; error does not depend on the temperature.
_COLUMNS = (
    ("error", "before"),
    *((m, w) for m in ("nll", "ece", "ada_ece", "classwise_ece") for w in ("before", "after")),
)
_PAIRED = ("error", "nll", "ece", "ada_ece")
# All pairs of up to this many models; of more, each with the best.
_ALL_PAIRS = 5


@dataclass(frozen=True)
class Cell:
    """One number of the table for people."""

    text: str
    interval: str
    best: bool


def table(models: Sequence[ReportedModel]) -> dict[str, Any]:
    """Collect headings, and for each model its name, its temperature and its cells."""
    columns = [c for c in _COLUMNS if c[1] == "before" or any(model.after is not None for model in models)]
    best = {column: _best(models, *column) for column in columns}
    rows = []
    for model in models:
        cells = [_cell(_evaluation(model, when), metric, best[metric, when]) for metric, when in columns]
        t = "–" if model.scaling is None else f"{model.scaling.temperature:.2f}"
        rows.append({"name": model.name, "temperature": t, "cells": cells})
    headings = [
        (METRICS[m].heading, {"before": "uncalibrated", "after": "scaled"}[w] if m != "error" else "")
        for m, w in columns
    ]
    criteria = {model.scaling.criterion for model in models if model.scaling is not None}
    by = f", by {criteria.pop()}" if len(criteria) == 1 else ""
    return {"headings": headings, "rows": rows, "temperature_heading": f"T{by}"}


def _evaluation(model: ReportedModel, when: str) -> Evaluation | None:
    return model.before if when == "before" else model.after


def _best(models: Sequence[ReportedModel], metric: str, when: str) -> float:
    values = [found.values[metric] for model in models if (found := _evaluation(model, when)) is not None]
    return min(values, default=float("nan"))


def _cell(evaluation: Evaluation | None, metric: str, best: float) -> Cell:
    if evaluation is None:
        return Cell("–", "", False)
    value, write = evaluation.values[metric], partial(format_value, metric)
    # The table has many columns: a percent sign above is enough.
    interval = format_interval(evaluation.intervals.get(metric), write).replace("%", "").replace(" – ", "–")
    return Cell(write(value), interval, value == best)


def pairs(models: Sequence[ReportedModel], settings: ReportSettings) -> tuple[list[dict[str, Any]], str]:
    """Test differences of pairs of models, before and after scaling; or say in a sentence why that cannot be done."""
    if len(models) < 2:
        return [], ""
    if not settings.bootstrap:
        return [], "Without resamples (bootstrap 0), differences are not tested."
    if not all(isinstance(model.source.data, Predictions) for model in models):
        return [], "Differences are not tested: the files are too large to be held in memory."
    found = []
    try:
        for when in ("before", "after"):
            if when == "before" or all(model.scaling is not None for model in models):
                found += _pairs(models, settings, when)
    except ValueError as error:
        return [], f"Differences are not tested, because the models were not evaluated on the same samples. {error}"
    return found, ""


def _pairs(models: Sequence[ReportedModel], settings: ReportSettings, when: str) -> list[dict[str, Any]]:
    predictions = {model.name: _predictions(model, when) for model in models}
    metrics = _PAIRED if when == "before" else [m for m in _PAIRED if m != "error"]
    comparisons = compare_many(
        predictions,
        reference=reference_of(models),
        metrics=metrics,
        bootstrap=settings.bootstrap,
        permutations=settings.bootstrap,
        level=settings.level,
        seed=settings.seed,
        bins=settings.bins,
    )
    return [_for_people(difference, when) for c in comparisons for difference in c.differences.values()]


def reference_of(models: Sequence[ReportedModel]) -> str | None:
    """Choose the model that all others are compared with, where there are too many for all pairs: the best by NLL."""
    return min(models, key=lambda model: model.before.values["nll"]).name if len(models) > _ALL_PAIRS else None


def _predictions(model: ReportedModel, when: str) -> Predictions:
    data = model.source.data
    assert isinstance(data, Predictions)
    if when == "before":
        return data
    assert model.scaling is not None
    return model.scaling.apply(data)


def _for_people(difference: Difference, when: str) -> dict[str, Any]:
    metric = difference.metric
    lower = difference.names[0] if difference.difference < 0 else difference.names[1]
    return {
        "metric": metric,
        "title": METRICS[metric].heading,
        "when": when,
        "names": difference.names,
        "difference": format_change(metric, difference.difference),
        "interval": format_interval(difference.interval, partial(format_change, metric)),
        "p": _p_value(difference.adjusted_p_value),
        "significant": difference.is_significant,
        "lower": lower,
        "numbers": difference.to_dict(),
    }


def _p_value(value: float) -> str:
    """Write a p-value; nothing where a difference has none."""
    if math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
