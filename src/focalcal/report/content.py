"""What the page's template writes about models, and what a program may read of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from focalcal.metrics import METRIC_TITLES
from focalcal.report.examination import Examined
from focalcal.report.readings import READINGS, counted, written, written_interval
from focalcal.report.wording import fitted_on, headline, mood, next_steps, sentences

_KEY_METRICS = ("accuracy", "ece", "nll", "confident_share")


def model_content(model: Examined) -> dict[str, Any]:
    """Words and tables about one model."""
    return {
        "name": model.name,
        "facts": _facts(model),
        "headline": headline(model),
        "mood": mood(model),
        "sentences": sentences(model),
        "steps": next_steps(model),
        "tiles": [_tile(model, name) for name in _KEY_METRICS],
        "metrics": [_metric_row(model, name) for name in model.before.values],
        "notes": list(model.notes),
        "scaling": None if model.scaling is None else fitted_on(model.scaling),
        "config": model.source.config,
    }


def _metric_row(model: Examined, name: str) -> dict[str, str]:
    """A metric as it is and scaled; empty where there is no such number."""
    row = {"title": METRIC_TITLES[name], "words": READINGS[name].words}
    for key, evaluation in (("before", model.before), ("after", model.after)):
        values = {} if evaluation is None else evaluation.values
        intervals = {} if evaluation is None else evaluation.intervals
        row[key] = written(name, values[name]) if name in values else ""
        row[f"{key}_interval"] = written_interval(intervals.get(name), partial(written, name))
    return row


def _facts(model: Examined) -> str:
    data = model.source.data
    split = "" if data.split is None else f", split {data.split}"
    soft = ", soft labels" if model.has_soft_labels else ""
    n, k = model.before.n, model.before.num_classes
    return f"{counted(n, 'sample')}, {counted(k, 'class')}{split}{soft}"


def _tile(model: Examined, name: str) -> dict[str, str]:
    """A key number, its interval, and what it becomes."""
    write = partial(written, name)
    interval = written_interval(model.before.intervals.get(name), write)
    beside = f"floor {write(model.before.values['ece_floor'])}" if name == "ece" else ""
    if model.after is not None and name != "accuracy":
        scaled = f"scaled {write(model.after.values[name])}"
        if name == "ece":
            scaled += f" (floor {write(model.after.values['ece_floor'])})"
        beside = f"{beside} · {scaled}" if beside else scaled
    return {
        "title": {"confident_share": "≥ 99% sure"}.get(name, METRIC_TITLES[name]),
        "value": write(model.before.values[name]),
        "interval": interval,
        "beside": beside,
        "words": READINGS[name].words,
    }


def numbers_of(models: list[Examined], differences: list[dict[str, Any]], origin: dict[str, Any]) -> dict[str, Any]:
    """What a program may want to read."""
    return {
        "models": [
            {
                "name": model.name,
                "verdict": sentences(model),
                "before": model.before.to_dict(),
                "after": None if model.after is None else model.after.to_dict(),
                "temperature": None
                if model.scaling is None
                else {
                    "value": model.scaling.temperature,
                    "fitted": list(model.scaling.temperatures),
                    "source": model.scaling.source,
                    "samples": model.scaling.fitted_samples,
                },
                "ood": {name: {"auroc": roc.auroc, "fpr_at_95": roc.fpr_at_95} for name, roc in model.ood.items()},
                "notes": list(model.notes),
            }
            for model in models
        ],
        "differences": [
            {"names": list(d["names"]), "metric": d["metric"], "when": d["when"], **d["numbers"]} for d in differences
        ],
        **origin,
    }
