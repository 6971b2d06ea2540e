"""`write_report`: from predictions and runs to one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from focalcal.metrics import METRIC_TITLES
from focalcal.predictions.atomic import atomic_writer
from focalcal.report.comparing import pairs, table
from focalcal.report.examination import Examined, Request, examined
from focalcal.report.page import rendered
from focalcal.report.payload import model_payload, shared_class_names
from focalcal.report.provenance import file_facts, versions
from focalcal.report.readings import READINGS, written, written_interval
from focalcal.report.sources import Given, model_sources
from focalcal.report.sweep import BIN_COUNTS
from focalcal.report.verdict import shows_miscalibration
from focalcal.report.wording import fitted_on, headline, next_steps, sentences

MOST_MODELS = 12
_KEY_METRICS = ("accuracy", "ece", "nll", "confident_share")


def write_report(
    sources: Given | Sequence[Given] | Mapping[str, Given],
    out: str | os.PathLike[str],
    *,
    val: Given | Sequence[Given] | Mapping[str, Given] | None = None,
    ood: Mapping[str, Given] | None = None,
    title: str | None = None,
    bins: int = 15,
    bootstrap: int = 1000,
    level: float = 0.90,
    seed: int = 0,
    thumbnails: Mapping[str, bytes] | None = None,
    command: str | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Path:
    """Write a report about a model, or a comparison of up to 12, as one HTML file that needs no network.

    Args:
        sources: predictions, files of them, or run directories; one, several, or by name.
        out: the file to write.
        val: predictions to fit a temperature on: for one model, or one each. A run directory has its own. Without any,
            the temperature is cross-fitted on the predictions themselves, and the report says so.
        ood: predictions of the model on out-of-distribution data, by the data's name; for one model. Those of a run
            directory are found by themselves.
        title: of the page.
        bins: of the metrics' bins; the diagram has a choice of its own.
        bootstrap: how many resamples the intervals are made of; 0 for none.
        level: of the intervals.
        seed: the same seed gives the same report.
        thumbnails: small PNG images by id, shown with the most confident mistakes.
        command: what made the report, to be written at its end.
        reading: options of `open_predictions` for files.

    Returns:
        The file that was written.

    Raises:
        ImportError: plotly or jinja2 is missing; the sentence names the extra to install.
        ValueError: one sentence that says what is wrong with a source.

    Examples:
        >>> import tempfile
        >>> from focalcal.predictions import Predictions
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]] * 20, [0, 1, 1] * 20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_report({"my model": preds}, Path(folder, "report.html"), bootstrap=100)
        ...     page.name, "my model" in page.read_text(encoding="utf-8")
        ('report.html', True)
    """
    found = model_sources(sources, val, ood, reading)
    if len(found) > MOST_MODELS:
        raise ValueError(f"There are {len(found)} models; one report compares at most {MOST_MODELS}.")
    request = Request(bins, bootstrap, level, seed)
    models = [examined(source, request) for source in found]
    page = _page(models, request, title, command, thumbnails or {})
    with atomic_writer(out) as file:
        file.write(page.encode("utf-8"))
    return Path(out)


def _page(
    models: list[Examined], request: Request, title: str | None, command: str | None, thumbnails: Mapping[str, bytes]
) -> str:
    differences, untested = pairs(models, request)
    names, which = shared_class_names(models)
    payloads = [model_payload(model, request, len(models), thumbnails) for model in models]
    for payload, model, name_list in zip(payloads, models, which, strict=True):
        payload |= {"classNames": name_list, "before": model.before.to_dict()}
        payload["after"] = None if model.after is None else model.after.to_dict()
    origin = {
        "command": command,
        "versions": versions(),
        "files": [fact for model in models for fact in file_facts(model.source.files)],
        "settings": {
            "bins": request.bins,
            "resamples": request.bootstrap,
            "level": request.level,
            "seed": request.seed,
        },
    }
    content = {
        "title": title or (f"Calibration of {models[0].name}" if len(models) == 1 else "Calibration compared"),
        "models": [_model_content(model) for model in models],
        "comparison": table(models) if len(models) > 1 else None,
        "pairs": differences,
        "untested": untested,
        "level": f"{100 * request.level:g}%",
        "bin_counts": BIN_COUNTS,
        "origin": origin,
        "has_runs": any(model.curves is not None for model in models),
        "has_ood": any(model.ood for model in models),
    }
    data = {"level": request.level, "bins": request.bins, "classNames": names, "models": payloads}
    return rendered(content, data, _numbers(models, differences, origin))


def _model_content(model: Examined) -> dict[str, Any]:
    before, after = model.before, model.after
    return {
        "name": model.name,
        "facts": _facts(model),
        "headline": headline(model),
        "mood": "fine" if shows_miscalibration(before) is False else "off",
        "sentences": sentences(model),
        "steps": next_steps(model),
        "tiles": [_tile(model, name) for name in _KEY_METRICS],
        "metrics": [
            {
                "title": METRIC_TITLES[name],
                "words": READINGS[name].words,
                "before": written(name, value),
                "interval": written_interval(before.intervals.get(name), partial(written, name)),
                "after": "" if after is None or name not in after.values else written(name, after.values[name]),
                "after_interval": ""
                if after is None
                else written_interval(after.intervals.get(name), partial(written, name)),
            }
            for name, value in before.values.items()
        ],
        "notes": list(model.notes),
        "scaling": None if model.scaling is None else fitted_on(model.scaling),
        "config": model.source.config,
    }


def _facts(model: Examined) -> str:
    data = model.source.data
    split = "" if data.split is None else f", split {data.split}"
    return f"{model.before.n:,} samples, {model.before.num_classes:,} classes{split}"


def _tile(model: Examined, name: str) -> dict[str, str]:
    """A key number, its interval, and what it becomes."""
    write = partial(written, name)
    interval = written_interval(model.before.intervals.get(name), write)
    beside = f"floor {write(model.before.values['ece_floor'])}" if name == "ece" else ""
    if model.after is not None and name != "accuracy":
        scaled = f"scaled {write(model.after.values[name])}"
        beside = f"{beside} · {scaled}" if beside else scaled
    return {
        "title": {"confident_share": "≥ 99% sure"}.get(name, METRIC_TITLES[name]),
        "value": write(model.before.values[name]),
        "interval": interval,
        "beside": beside,
        "words": READINGS[name].words,
    }


def _numbers(models: list[Examined], differences: list[dict[str, Any]], origin: dict[str, Any]) -> dict[str, Any]:
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
