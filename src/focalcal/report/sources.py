"""What a report is made of: predictions in memory or in files, or run directories, each with a name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from focalcal.metrics.evaluate import READ_WHOLE_BYTES, READ_WHOLE_VALUES
from focalcal.predictions import Predictions, PredictionsFile, open_predictions
from focalcal.report.agreement import check_classes, same_predictions

Data = Predictions | PredictionsFile
Given = Data | str | os.PathLike[str]

# Splits of a run that are of the data that the model was made for; every other one is out of distribution.
_INSIDE = ("train", "train_eval", "val", "test")
_LONGEST_CONFIG = 20_000


class ReadFile(NamedTuple):
    """A file and its role: predictions, validation, out of distribution, history, configuration."""

    path: Path
    role: str


@dataclass(frozen=True)
class ModelSource:
    """Everything about one model that there is to read.

    Attributes:
        name: what the report calls it.
        data: the predictions that are reported on; a file only where it is too large to be read whole.
        val: predictions that a temperature is fitted on, or None.
        ood: predictions on out-of-distribution data by its name.
        history: a run's ``history.jsonl``, or None.
        config: a run's configuration as text, or None.
        files: the files that were read, each with what it is to the model.
    """

    name: str
    data: Data
    val: Data | None = None
    ood: Mapping[str, Data] = field(default_factory=dict)
    history: Path | None = None
    config: str | None = None
    files: tuple[ReadFile, ...] = ()


def model_sources(
    sources: Given | Sequence[Given] | Mapping[str, Given],
    val: Given | Sequence[Given] | Mapping[str, Given] | None = None,
    ood: Mapping[str, Given] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> list[ModelSource]:
    """One source a model, with distinct names.

    Args:
        sources: predictions, files or run directories; one, several, or by name.
        val: predictions to fit a temperature on, for one model, or in the order (or by the names) of the models.
        ood: out-of-distribution predictions by the name of their data, for a single model.
        reading: options of `open_predictions`.
    """
    named = _named(sources)
    if not named:
        raise ValueError("There is nothing to report on; give at least one predictions file or run directory.")
    options = dict(reading or {})
    found = [_of(name, given, options) for name, given in named.items()]
    found = _with_val(found, val, options)
    if ood:
        if len(found) > 1:
            raise ValueError("Out-of-distribution predictions belong to one model; give them with one source only.")
        found = [_with_ood(found[0], ood, options)]
    for source in found:
        check_classes(source.data, source.val, source.ood)
    return found


def _named(sources: Given | Sequence[Given] | Mapping[str, Given]) -> dict[str, Given]:
    if isinstance(sources, Mapping):
        if not all(name.strip() for name in sources):
            raise ValueError("A model has an empty name; give each a name that can be read.")
        return dict(sources)
    several = [sources] if isinstance(sources, str | os.PathLike | Predictions | PredictionsFile) else list(sources)
    return dict(zip(_distinct_names(several), several, strict=True))


def _distinct_names(sources: Sequence[Given]) -> list[str]:
    """The files' names, with as many folders before them as it takes to tell them apart; else with a number."""
    paths = [Path(source.path) if isinstance(source, PredictionsFile) else source for source in sources]
    parts = [Path(p).resolve().parts[1:] if isinstance(p, str | os.PathLike) else ("predictions",) for p in paths]
    for depth in range(1, 1 + max((len(part) for part in parts), default=0)):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    names = [part[-1] for part in parts]
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, start=1)]


def _of(name: str, given: Given, options: dict[str, Any]) -> ModelSource:
    if isinstance(given, str | os.PathLike) and Path(given).is_dir():
        return _of_run(name, Path(given))
    return ModelSource(name, data_of(given, options), files=_files(given, "predictions"))


def _of_run(name: str, folder: Path) -> ModelSource:
    """A run directory: its test predictions, and whatever else it has."""
    test, val = (folder / "predictions" / f"{split}.safetensors" for split in ("test", "val"))
    if not test.is_file():
        raise ValueError(
            f"{folder} is a folder without predictions/test.safetensors; give a predictions file or a run directory."
        )
    outside = [path for path in sorted(test.parent.glob("*.safetensors")) if path.stem not in _INSIDE]
    history, config = folder / "history.jsonl", folder / "config.yaml"
    roles = {test: "predictions", val: "validation", history: "history", config: "configuration"}
    roles |= {path: f"out of distribution: {path.stem}" for path in outside}
    return ModelSource(
        name,
        data_of(test, {}),
        data_of(val, {}) if val.is_file() else None,
        {path.stem: data_of(path, {}) for path in outside},
        history if history.is_file() else None,
        _text(config)[:_LONGEST_CONFIG] if config.is_file() else None,
        tuple(ReadFile(path, role) for path, role in roles.items() if path.is_file()),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8; a run's configuration is YAML.") from None


def _with_val(found: list[ModelSource], val: Any, options: dict[str, Any]) -> list[ModelSource]:
    if val is None:
        return found
    if isinstance(val, Mapping):
        given = {source.name: val[source.name] for source in found if source.name in val}
        if unknown := [name for name in val if name not in given]:
            raise ValueError(f"There is no model {unknown[0]!r} to fit on the validation predictions of that name.")
    else:
        several = [val] if isinstance(val, str | os.PathLike | Predictions | PredictionsFile) else list(val)
        if len(several) != len(found):
            raise ValueError(f"There are {len(several)} validation predictions for {len(found)} models; give one each.")
        given = dict(zip([source.name for source in found], several, strict=True))
    # Labels and a split given apart are those of the main file.
    options = {name: value for name, value in options.items() if name not in ("labels", "split")}
    return [_with_val_of(source, given[source.name], options) if source.name in given else source for source in found]


def _with_val_of(source: ModelSource, given: Given, options: dict[str, Any]) -> ModelSource:
    """A run's own validation predictions give way to others."""
    val = data_of(given, options)
    if same_predictions(source.data, val):
        raise ValueError(
            f"The validation predictions of {source.name} are the very predictions that are reported on; "
            "give those of other samples, or none for a cross-fit."
        )
    files = [file for file in source.files if file.role != "validation"]
    return replace(source, val=val, files=(*files, *_files(given, "validation")))


def _with_ood(source: ModelSource, ood: Mapping[str, Given], options: dict[str, Any]) -> ModelSource:
    options = {name: value for name, value in options.items() if name not in ("labels", "split")}
    files = [file for name, given in ood.items() for file in _files(given, f"out of distribution: {name}")]
    more = {name: data_of(given, options) for name, given in ood.items()}
    return replace(source, ood={**source.ood, **more}, files=(*source.files, *files))


def _files(given: Given, role: str) -> tuple[ReadFile, ...]:
    if isinstance(given, Predictions):
        return ()
    return (ReadFile(Path(given.path if isinstance(given, PredictionsFile) else given), role),)


def data_of(given: Given, options: Mapping[str, Any]) -> Data:
    """The predictions; left in their file only where that is too large to be read whole."""
    if isinstance(given, Predictions):
        return given
    file = given if isinstance(given, PredictionsFile) else open_predictions(given, **options)
    small = os.path.getsize(file.path) <= READ_WHOLE_BYTES
    return file.read() if small and file.num_samples * file.num_classes <= READ_WHOLE_VALUES else file
