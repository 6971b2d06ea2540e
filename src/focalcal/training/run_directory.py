"""A run directory: what is in it, and who may write to it. It can be read without the packages that train."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.predictions import Predictions
from focalcal.recipes import Recipe, load_recipe
from focalcal.training.history import read_history

if TYPE_CHECKING:
    from torch import nn

    from focalcal.data import DataSet

# What may be another when a run goes on: where it computes and what it writes beside its results, not what comes out.
_FREE_TO_CHANGE = {"hardware", "checkpoint", "logging", "about", "name"}
_NEVER_FREE = {"hardware.precision"}


class RunInUse(ValueError):
    """Another process writes to the run directory."""


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        path: the run directory.
        recipe: what it was made with.
    """

    path: Path
    recipe: Recipe

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """A record of each epoch."""
        return read_history(self.path / "history.jsonl")

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """What was measured on the predictions of the selected epoch, before and after temperature scaling."""
        content: dict[str, Any] = json.loads((self.path / "evaluation.json").read_text(encoding="utf-8"))
        return content

    def predictions(self, split: str = "test", selection: str = "selected") -> Predictions:
        """The predictions for a split, of the ``selected`` epoch or of the ``last`` one."""
        return Predictions.load(predictions_path(self.path, split, selection))

    def data(self) -> "DataSet":
        """The data set that the run was trained with, loaded anew with the same settings.

        Raises:
            ValueError: it was data of your own, or a file is missing or wrong.
        """
        from focalcal.training.building import build_data  # it needs the packages that train

        if self.recipe.data.name == "own":
            raise ValueError("The run was made with data of your own, which it cannot load.")
        return build_data(self.recipe)

    def network(self, *, model: "nn.Module | None" = None, data: "DataSet | None" = None) -> "nn.Module":
        """The trained network with the weights of the selected epoch, on the CPU and in evaluation mode.

        Args:
            model: the network of your own, where the run trained one; its weights are replaced.
            data: the data set of the run, where it has been loaded already (:meth:`data`); it says how many classes
                and words there are.

        Raises:
            ValueError: there is no checkpoint, or the weights or the words of the data do not fit.
        """
        from focalcal.training.trained import trained_network  # it needs the packages that train

        return trained_network(self, model, data)


def predictions_path(run: Path, split: str, selection: str = "selected") -> Path:
    """Where a run's predictions are; where the last epoch was the selected one they are stored once."""
    folder = run / "predictions"
    last = folder / "last" / f"{split}.safetensors"
    return last if selection == "last" and last.is_file() else folder / f"{split}.safetensors"


def snapshot_path(run: Path, epoch: int) -> Path:
    """The predictions for the training set after an epoch, counted from 1; see ``record.snapshots_at``."""
    return run / "predictions" / "train" / f"epoch-{epoch:05d}.safetensors"


def gradient_norms_path(run: Path) -> Path:
    """The histograms of gradient norms, one line per recorded epoch; see ``record.gradient_norms_at``."""
    return run / "recorded" / "gradient-norms.jsonl"


def open_run(path: str | os.PathLike[str]) -> Run:
    """A run that is there already."""
    folder = Path(path)
    if not (folder / "config.yaml").is_file():
        raise ValueError(f"{folder} is no run directory: it has no config.yaml.")
    return Run(folder, load_recipe(folder / "config.yaml"))


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to be done: what was measured is there, and what it was measured on."""
    try:
        content = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        splits, _ = list(content["splits"]), int(content["epoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return all(predictions_path(folder, split).is_file() for split in splits)


def check_place(folder: Path, recipe: Recipe, resume: bool) -> None:
    """Refuse a folder that holds another run, or this one where it is not to be continued: nothing is written over."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give another folder for the run.")
    config = folder / "config.yaml"
    has_begun = (folder / "evaluation.json").exists() or any(folder.glob("checkpoints/*.safetensors"))
    if not config.is_file() or not has_begun:
        return
    if not resume:
        raise ValueError(f"{folder} holds a run already: go on with it by --resume (resume=True), or choose another.")
    changed = _differences(load_recipe(config), recipe)
    if changed:
        what = f"The run in {folder} was begun with {' and '.join(changed)}"
        raise ValueError(f"{what}: go on with the same, or choose another folder.")


def check_same_data(folder: Path, facts: Mapping[str, Any]) -> None:
    """Refuse to go on with other data than a run was begun with: what was learnt from may now be the test set."""
    before = recorded_data(folder)
    if not any(folder.glob("checkpoints/*.safetensors")) or before is None:
        return  # nothing has begun, or it is of another making; its weights still have to fit
    changed = other_data(before, facts)
    if changed:
        raise ValueError(
            f"The {changed} of the data have changed since the run in {folder} was begun: restore them, or choose "
            "another folder."
        )


def recorded_data(folder: Path) -> Mapping[str, Any] | None:
    """What a run has recorded of its data; None where it has not."""
    try:
        found = json.loads((folder / "environment.json").read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, Mapping) else None


def other_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What of the data is not the same, in a word or two; None where nothing is."""
    same = json.loads(json.dumps(dict(now)))
    facts = (("files", "files"), ("split_sha256", "splits"), ("glove", "word vectors"))
    return next((what for key, what in facts if before.get(key) != same.get(key)), None)


def _differences(before: Recipe, now: Recipe) -> list[str]:
    """``another epochs (2, not 3)`` for each field that decides what comes out."""
    old, new = _flat(before.model_dump(mode="json")), _flat(now.model_dump(mode="json"))
    keys = [key for key in {**old, **new} if key.partition(".")[0] not in _FREE_TO_CHANGE or key in _NEVER_FREE]
    return [f"another {key} ({old.get(key)}, not {new.get(key)})" for key in keys if old.get(key) != new.get(key)]


def _flat(group: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in group.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold a run directory, which is made if it is not there: two processes that write to one would spoil it.

    The hold ends with the process, however it ends. A folder that is still empty in the end is taken away again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made: {error.strerror}.") from error
    lock = folder / ".lock"
    with open(lock, "a", encoding="utf-8") as file:
        _hold(file.fileno(), folder)
        try:
            yield
        finally:
            if [entry.name for entry in folder.iterdir()] == [lock.name]:
                with suppress(OSError):
                    lock.unlink()
                    folder.rmdir()


def _hold(descriptor: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no such locks; there the user must take care
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunInUse(f"{folder} is being trained by another process: wait for it, or choose another.") from error
