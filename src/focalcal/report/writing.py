"""`write_report`: from predictions and runs to one HTML file."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from focalcal._version import __version__
from focalcal.base.files import atomic_writer, check_destination, file_sha256
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics.binning import check_bins
from focalcal.predictions import Predictions, PredictionsFile
from focalcal.report.content import model_content, numbers_of, render
from focalcal.report.mistakes import run_thumbnails
from focalcal.report.model_comparison import pairs, reference_of, table
from focalcal.report.model_sources import Given, model_sources
from focalcal.report.payload import bin_counts, images, model_payload, nearest_bins, shared_class_names
from focalcal.report.reported_model import ReportedModel, ReportSettings, measure_model
from focalcal.training import RunDirectory

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "plotly")
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
    by: str | Sequence[str] | None = None,
    objective: Objective | None = None,
    thumbnails: Mapping[str, bytes] | None = None,
    command: str | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Path:
    """Write a report about a model, or a comparison of up to 12, as one HTML file that needs no network.

    Args:
        sources: Predictions, files of them, or run directories; one, several, or by name.
        out: The file to write.
        val: Predictions to fit a temperature on: for one model, or one each. A run directory has its own. Without any,
            the temperature is cross-fitted on the predictions themselves, and the report says so.
        ood: Predictions of the model on out-of-distribution data, by the data's name; for one model. Those of a run
            directory are found by themselves.
        title: Title of the page.
        bins: Number of bins of the metrics; the diagram has a choice of its own.
        bootstrap: Number of resamples for the confidence intervals, at least 20; 0 for none.
        level: Level of the intervals.
        seed: Seed for the resamples; the same seed gives the same report.
        by: Columns of groups that are shown group by group.
        objective: What T minimises: ``"ece"`` (the paper's grid) or ``"nll"``. By default ``"ece"`` where all sources
            are run directories, as in the table of `sweep`, and ``"nll"`` otherwise, as in ``focalcal calibrate``.
        thumbnails: Small PNG images by id, shown with the most confident mistakes; by default those of the data sets
            that the run directories were trained on, where they are images.
        command: What made the report, to be written at its end.
        reading: Options of `open_predictions` for files.

    Returns:
        The file that was written.

    Raises:
        ImportError: Plotly or Jinja2 is missing; the sentence names the extra to install.
        ValueError: One sentence that says what is wrong with a source.

    Examples:
        >>> import tempfile
        >>> from focalcal.predictions import Predictions
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]] * 20, [0, 1, 1] * 20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_report({"my model": preds}, Path(folder, "report.html"), bootstrap=100)
        ...     page.name, "my model" in page.read_text(encoding="utf-8")
        ('report.html', True)
    """
    _check_settings(bins, bootstrap, objective)
    _check_out(out, sources, val, ood)
    found = model_sources(sources, val, ood, reading)
    if len(found) > MOST_MODELS:
        raise ValueError(f"There are {len(found)} models; one report compares at most {MOST_MODELS}.")
    all_runs = all(source.is_run for source in found)
    columns = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    settings = ReportSettings(bins, bootstrap, level, seed, objective or ("ece" if all_runs else "nll"), columns)
    models = [measure_model(source, settings) for source in found]
    if thumbnails is None:
        thumbnails = run_thumbnails([path for path in _paths(sources) if path.is_dir()]) if all_runs else {}
    page = _page(models, settings, title, command, thumbnails)
    with atomic_writer(out) as file:
        file.write(page.encode("utf-8"))
    return Path(out)


def _check_settings(bins: int, bootstrap: int, objective: str | None) -> None:
    check_bins(bins)
    if objective not in (None, "ece", "nll"):
        raise ValueError(f"objective must be 'ece' or 'nll', not {objective!r}.")
    if bootstrap != 0 and bootstrap < _FEWEST_RESAMPLES:
        raise ValueError(
            f"{bootstrap} resamples (bootstrap) are too few for a confidence interval; take at least "
            f"{_FEWEST_RESAMPLES}, or 0 for no intervals."
        )


def _page(
    models: list[ReportedModel],
    settings: ReportSettings,
    title: str | None,
    command: str | None,
    thumbnails: Mapping[str, bytes],
) -> str:
    differences, untested = pairs(models, settings)
    names, which = shared_class_names(models)
    payloads = [model_payload(model, settings, len(models)) for model in models]
    for payload, model, name_list in zip(payloads, models, which, strict=True):
        payload |= {"classNames": name_list, "before": replace(model.before, by={}).to_dict()}
        payload["after"] = None if model.after is None else model.after.to_dict()
    origin = {
        "command": command,
        "versions": _versions(),
        "files": _file_facts((model.name, file.role, file.path) for model in models for file in model.source.files),
        "settings": {
            "bins": settings.bins,
            "resamples": settings.bootstrap,
            "level": settings.level,
            "seed": settings.seed,
            "temperature by": settings.objective.upper(),
        },
    }
    content = {
        "title": title or (f"Calibration of {models[0].name}" if len(models) == 1 else "Calibration compared"),
        "models": [model_content(model) for model in models],
        "comparison": table(models) if len(models) > 1 else None,
        "pairs": differences,
        "untested": untested,
        "reference": reference_of(models),
        "level": f"{100 * settings.level:g}%",
        "bin_counts": bin_counts(len(models)),
        "chosen_bins": nearest_bins(settings.bins, len(models)),
        "bins": settings.bins,
        "origin": origin,
        "has_runs": any(model.curves is not None for model in models),
        "has_groups": any(model.before.by for model in models),
        "has_ood": any(model.ood for model in models),
    }
    data = {"classNames": names, "images": images(models, thumbnails), "models": payloads}
    return render(content, data, numbers_of(models, differences, origin))


def _versions() -> dict[str, str]:
    """Return the versions of Python, of focalcal, and of what computes and draws."""
    found = {"focalcal": __version__, "Python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in _PACKAGES}


def _file_facts(uses: Iterable[tuple[str, str, Path]]) -> list[dict[str, Any]]:
    """Collect name, size, SHA-256 and uses of each file, once; of its folders only the one that holds it is named.

    Args:
        uses: The model's name, the file's role in it, and the file.
    """
    found: dict[Path, dict[str, Any]] = {}
    for model, role, path in uses:
        fact = found.setdefault(path.resolve(), {"uses": []})
        if not fact["uses"]:
            fact |= {"name": f"{path.resolve().parent.name}/{path.name}", "bytes": path.stat().st_size}
            fact |= {"sha256": file_sha256(path)}
        fact["uses"].append({"model": model, "role": role})
    return list(found.values())


def _check_out(out: str | os.PathLike[str], *given: Any) -> None:
    """Raise unless a report can be written to ``out`` without harm to what is read.

    Args:
        out: The file to write.
        given: Sources, validation predictions, out-of-distribution predictions: as `write_report` takes them.
    """
    paths = _paths(given)
    check_destination(out, [path for path in paths if not path.is_dir()])
    target = Path(os.path.realpath(out))  # a link is written through
    for run in paths if target.exists() else []:
        if run.is_dir():
            _check_run(os.fspath(out), target, run)


def _paths(given: Any) -> list[Path]:
    """Collect all paths in sources of any form: one, several, or by name."""
    if given is None or isinstance(given, Predictions):
        return []
    if isinstance(given, str | os.PathLike):
        return [Path(given)]
    if isinstance(given, PredictionsFile):
        return [Path(given.path)]
    several: Iterable[Any] = given.values() if isinstance(given, Mapping) else given
    return [path for each in several for path in _paths(each)]


def _check_run(name: str, target: Path, run: Path) -> None:
    """Refuse a file of a run directory: its files may be links to files elsewhere, or files elsewhere links to them."""
    inside = target.is_relative_to(run.resolve()) and target.suffix.lower() != ".html"
    files = RunDirectory(run)
    read = [*files.predictions_folder.glob("*.safetensors"), files.history, files.config]
    if inside or any(path.exists() and target.samefile(path) for path in read):
        raise ValueError(f"{name} is a file of the run {run.name}; write to another name, which ends in .html.")
