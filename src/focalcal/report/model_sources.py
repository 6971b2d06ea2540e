"""Sources of a report: predictions in memory or in files, or run directories, each with a name, checked to agree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from focalcal.base.files import distinct_names, file_sha256, read_text
from focalcal.data.subwords import SubwordVocabulary
from focalcal.metrics.evaluating import READ_WHOLE_BYTES, READ_WHOLE_VALUES
from focalcal.predictions import Predictions, PredictionsFile, open_predictions
from focalcal.predictions.shards import ShardedFile, find_shards, is_pattern
from focalcal.predictions.token_predictions import holds_tokens
from focalcal.training import RunDirectory

Data = Predictions | PredictionsFile
Given = Data | str | os.PathLike[str]

# Splits of a run that are of the data that the model was made for, as test_2017 is; every other one is
# out-of-distribution.
_INSIDE = ("train", "val", "test")
_TOKENS = "Each sample is a token, predicted from the source sentence and from the true tokens before it."
_LONGEST_CONFIG = 20_000


class ReadFile(NamedTuple):
    """A file and its role: predictions, validation, out-of-distribution, history, configuration."""

    path: Path
    role: str


@dataclass(frozen=True)
class ModelSource:
    """Everything about one model that there is to read.

    Attributes:
        name: The name in the report.
        data: The predictions that are reported on; a file only where it is too large to be read whole.
        val: Predictions that a temperature is fitted on, or None.
        ood: Predictions on out-of-distribution data by its name.
        history: A run's ``history.jsonl``, or None.
        config: A run's configuration as text, or None.
        is_run: True for a run directory.
        files: The files that were read, each with what it is to the model.
        notes: Sentences about what the samples are.
    """

    name: str
    data: Data
    val: Data | None = None
    ood: Mapping[str, Data] = field(default_factory=dict)
    history: Path | None = None
    config: str | None = None
    is_run: bool = False
    files: tuple[ReadFile, ...] = ()
    notes: tuple[str, ...] = ()


def model_sources(
    sources: Given | Sequence[Given] | Mapping[str, Given],
    val: Given | Sequence[Given] | Mapping[str, Given] | None = None,
    ood: Mapping[str, Given] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> list[ModelSource]:
    """Return one source per model, with distinct names.

    Args:
        sources: Predictions, files or run directories; one, several, or by name.
        val: Predictions to fit a temperature on, for one model, or in the order (or by the names) of the models.
        ood: Out-of-distribution predictions by the name of their data, for a single model.
        reading: Options of `open_predictions`.
    """
    named = _name_sources(sources)
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


def _name_sources(sources: Given | Sequence[Given] | Mapping[str, Given]) -> dict[str, Given]:
    if isinstance(sources, Mapping):
        if not all(name.strip() for name in sources):
            raise ValueError("A model has an empty name; give each a name that can be read.")
        return dict(sources)
    several = [sources] if isinstance(sources, str | os.PathLike | Predictions | PredictionsFile) else list(sources)
    paths = [Path("predictions") if isinstance(one, Predictions) else _path(one) for one in several]
    return dict(zip(distinct_names(paths), several, strict=True))


def _path(given: PredictionsFile | str | os.PathLike[str]) -> Path:
    return Path(given.path if isinstance(given, PredictionsFile) else given)


def _of(name: str, given: Given, options: dict[str, Any]) -> ModelSource:
    if isinstance(given, str | os.PathLike) and Path(given).is_dir():
        return _of_run(name, Path(given))
    notes = () if isinstance(given, Predictions) else _notes(_path(given))
    return ModelSource(name, data_of(given, options), files=_files(given, "predictions"), notes=notes)


def _of_run(name: str, folder: Path) -> ModelSource:
    """Read a run directory: its test predictions, and whatever else it has."""
    run = RunDirectory(folder)
    test, val = run.predictions("test"), run.predictions("val")
    if not test.is_file():
        raise ValueError(
            f"{folder} is a folder without predictions/test.safetensors; give a predictions file or a run directory."
        )
    outside = [path for path in sorted(test.parent.glob("*.safetensors")) if not path.stem.startswith(_INSIDE)]
    roles = {test: "predictions", val: "validation", run.history: "history", run.config: "configuration"}
    roles |= {path: f"out-of-distribution: {path.stem}" for path in outside}
    options = _subwords(run)
    return ModelSource(
        name,
        data_of(test, options),
        data_of(val, options) if val.is_file() else None,
        {path.stem: data_of(path, options) for path in outside},
        run.history if run.history.is_file() else None,
        read_text(run.config)[:_LONGEST_CONFIG] if run.config.is_file() else None,
        True,
        tuple(ReadFile(path, role) for path, role in roles.items() if path.is_file()),
        _notes(test),
    )


def _subwords(run: RunDirectory) -> dict[str, Any]:
    """Name the classes of a run that translates by their subwords, where sentencepiece is there to read them."""
    if not run.vocabulary.is_file():
        return {}
    try:
        return {"class_names": SubwordVocabulary.load(run.vocabulary).subwords()}
    except ImportError:
        return {}


def _notes(path: Path) -> tuple[str, ...]:
    return (_TOKENS,) if holds_tokens(path) else ()


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
    """Use validation predictions that were given instead of a run's own."""
    val = data_of(given, options)
    if same_predictions(source.data, val):
        raise ValueError(
            f"The validation predictions of {source.name} are the predictions that are reported on; "
            "give those of other samples, or none for a cross-fit."
        )
    files = [file for file in source.files if file.role != "validation"]
    return replace(source, val=val, files=(*files, *_files(given, "validation")))


def _with_ood(source: ModelSource, ood: Mapping[str, Given], options: dict[str, Any]) -> ModelSource:
    options = {name: value for name, value in options.items() if name not in ("labels", "split")}
    files = [file for name, given in ood.items() for file in _files(given, f"out-of-distribution: {name}")]
    more = {name: data_of(given, options) for name, given in ood.items()}
    return replace(source, ood={**source.ood, **more}, files=(*source.files, *files))


def _files(given: Given, role: str) -> tuple[ReadFile, ...]:
    if isinstance(given, Predictions):
        return ()
    if isinstance(given, ShardedFile):
        return tuple(ReadFile(Path(file.local_path), role) for file in given.files)
    if is_pattern(_path(given)):
        return tuple(ReadFile(Path(path), role) for path in find_shards(_path(given)))
    return (ReadFile(_path(given), role),)


def data_of(given: Given, options: Mapping[str, Any]) -> Data:
    """Read the predictions, or leave them in their file where that is too large to be read whole."""
    if isinstance(given, Predictions):
        return given
    file = given if isinstance(given, PredictionsFile) else open_predictions(given, **options)
    small = file.size <= READ_WHOLE_BYTES
    return file.read() if small and file.num_samples * file.num_classes <= READ_WHOLE_VALUES else file


def check_classes(data: Data, val: Data | None, ood: Mapping[str, Data]) -> None:
    """Raise unless all have the same number of classes."""
    others = {} if val is None else {"validation": val}
    others |= {f"out-of-distribution ({name})": outside for name, outside in ood.items()}
    for name, other in others.items():
        if other.num_classes != data.num_classes:
            raise ValueError(
                f"The {name} predictions have {other.num_classes} classes and the others {data.num_classes}; "
                "use predictions of one and the same network."
            )
        if other.masked_classes != data.masked_classes:
            raise ValueError(
                f"The {name} predictions have different masked classes than the others; use predictions of one and the "
                "same network."
            )


def same_predictions(first: Data, second: Data) -> bool:
    """Return whether two are the same samples with the same outputs, in memory or in files of the same bytes.

    Examples:
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], [0, 1])
        >>> same_predictions(preds, preds.select([0, 1])), same_predictions(preds, preds.select([1, 0]))
        (True, False)
    """
    if isinstance(first, Predictions) and isinstance(second, Predictions):
        return torch.equal(first.values, second.values) and torch.equal(first.labels, second.labels)
    if isinstance(first, Predictions) or isinstance(second, Predictions):
        return False
    if os.path.samefile(first.local_path, second.local_path):
        return True
    alike = first.size == second.size
    return alike and file_sha256(first.local_path) == file_sha256(second.local_path)
