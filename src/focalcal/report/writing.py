"""`write_report`: from predictions and runs to one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer
from focalcal.metrics.binning import check_bins
from focalcal.report.comparing import pairs, reference_of, table
from focalcal.report.content import model_content, numbers_of
from focalcal.report.destination import check_destination
from focalcal.report.examination import Examined, Request, examined
from focalcal.report.page import rendered
from focalcal.report.payload import bin_counts, images, model_payload, nearest_bins, shared_class_names
from focalcal.report.provenance import file_facts, versions
from focalcal.report.sources import Given, model_sources

MOST_MODELS = 12
# With fewer, the ends of a 90% interval are no more than the extremes of what was drawn.
_FEWEST_RESAMPLES = 20


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
        bootstrap: how many resamples the intervals are made of, at least 20; 0 for none.
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
    _check_settings(bins, bootstrap)
    check_destination(out, sources, val, ood)
    found = model_sources(sources, val, ood, reading)
    if len(found) > MOST_MODELS:
        raise ValueError(f"There are {len(found)} models; one report compares at most {MOST_MODELS}.")
    request = Request(bins, bootstrap, level, seed)
    models = [examined(source, request) for source in found]
    page = _page(models, request, title, command, thumbnails or {})
    with atomic_writer(out) as file:
        file.write(page.encode("utf-8"))
    return Path(out)


def _check_settings(bins: int, bootstrap: int) -> None:
    check_bins(bins)
    if bootstrap != 0 and bootstrap < _FEWEST_RESAMPLES:
        raise ValueError(
            f"{bootstrap} resamples (bootstrap) make no interval worth printing; take at least {_FEWEST_RESAMPLES}, "
            "or 0 for no intervals."
        )


def _page(
    models: list[Examined], request: Request, title: str | None, command: str | None, thumbnails: Mapping[str, bytes]
) -> str:
    differences, untested = pairs(models, request)
    names, which = shared_class_names(models)
    payloads = [model_payload(model, request, len(models)) for model in models]
    for payload, model, name_list in zip(payloads, models, which, strict=True):
        payload |= {"classNames": name_list, "before": model.before.to_dict()}
        payload["after"] = None if model.after is None else model.after.to_dict()
    origin = {
        "command": command,
        "versions": versions(),
        "files": file_facts((model.name, file.role, file.path) for model in models for file in model.source.files),
        "settings": {
            "bins": request.bins,
            "resamples": request.bootstrap,
            "level": request.level,
            "seed": request.seed,
        },
    }
    content = {
        "title": title or (f"Calibration of {models[0].name}" if len(models) == 1 else "Calibration compared"),
        "models": [model_content(model) for model in models],
        "comparison": table(models) if len(models) > 1 else None,
        "pairs": differences,
        "untested": untested,
        "reference": reference_of(models),
        "level": f"{100 * request.level:g}%",
        "bin_counts": bin_counts(len(models)),
        "chosen_bins": nearest_bins(request.bins, len(models)),
        "bins": request.bins,
        "origin": origin,
        "has_runs": any(model.curves is not None for model in models),
        "has_ood": any(model.ood for model in models),
    }
    data = {"classNames": names, "images": images(models, thumbnails), "models": payloads}
    return rendered(content, data, numbers_of(models, differences, origin))
