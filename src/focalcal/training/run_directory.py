"""Run directories: the names of their files, and reading them. Reading needs none of the packages that train."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args

from focalcal.base.files import atomic_writer, make_folder, parse_json, read_text
from focalcal.predictions import Predictions
from focalcal.recipes import Recipe, load_recipe

if TYPE_CHECKING:
    from torch import nn

    from focalcal.data import DataSet

Selection = Literal["selected", "last"]
# Figures of a split: as they are, and with the temperatures of lowest validation NLL and ECE.
_SCALED = ("before", "after_nll", "after_ece")


@dataclass(frozen=True)
class RunDirectory:
    """The layout of a run directory: every file in it is named here and nowhere else.

    Attributes:
        path: The directory, which need not be there.

    Examples:
        >>> RunDirectory(Path("runs/a")).predictions("test").as_posix()
        'runs/a/predictions/test.safetensors'
    """

    path: Path

    @property
    def config(self) -> Path:
        """The recipe with every change applied."""
        return self.path / "config.yaml"

    @property
    def environment(self) -> Path:
        """Versions, device, command, and facts about the data."""
        return self.path / "environment.json"

    @property
    def history(self) -> Path:
        """One line per epoch."""
        return self.path / "history.jsonl"

    @property
    def evaluation(self) -> Path:
        """Metrics before and after temperature scaling; written last."""
        return self.path / "evaluation.json"

    @property
    def vocabulary(self) -> Path:
        """The subword vocabulary of a run that translates."""
        return self.path / "vocabulary.model"

    def translation(self, split: str, temperature: float) -> Path:
        """Return the translations of a split by beam search at a temperature, one per line."""
        return self.path / "translations" / f"{split}-T{temperature:.6g}.txt"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        """The folder of loggers that write files."""
        return self.path / "logs"

    @property
    def output(self) -> Path:
        """The text that a run of a sweep prints."""
        return self.path / "train.log"

    @property
    def lock(self) -> Path:
        """The file that the process holds that trains here."""
        return self.path / ".lock"

    @property
    def predictions_folder(self) -> Path:
        """The folder of the predictions; see `prediction_file`."""
        return self.path / "predictions"

    def predictions(self, split: str, selection: Selection = "selected") -> Path:
        """Return the predictions for a split; if the last epoch is the selected one, they are stored once."""
        if selection not in get_args(Selection):
            raise ValueError(f"Predictions are of the epoch 'selected' or 'last', got {selection!r}.")
        last = prediction_file(self.predictions_folder, split, last=True)
        return last if selection == "last" and last.is_file() else prediction_file(self.predictions_folder, split)

    @property
    def snapshots(self) -> Path:
        """The folder of training-set predictions; see ``record.snapshots_at``."""
        return self.predictions_folder / "train"

    def snapshot(self, epoch: int) -> Path:
        """Return the training-set predictions after an epoch, counted from 1."""
        return self.snapshots / f"epoch-{epoch:05d}.safetensors"

    @property
    def gradient_norms(self) -> Path:
        """Histograms of gradient norms, one line per recorded epoch; see ``record.gradient_norms_at``."""
        return self.path / "recorded" / "gradient-norms.jsonl"

    @property
    def has_checkpoints(self) -> bool:
        """True if training has begun."""
        return any(self.checkpoints.glob("*.safetensors"))

    @property
    def is_finished(self) -> bool:
        """True if nothing is left to do: the evaluation is there, and so are the predictions that it is about."""
        try:
            splits = read_evaluation(self.evaluation)["splits"]
        except ValueError:
            return False
        return all(os.path.isfile(self.predictions(split)) for split in splits)


def prediction_file(folder: Path, split: str, *, last: bool = False) -> Path:
    """Return the file of a split in a folder of predictions; ``last`` means the last epoch, if stored apart."""
    return (folder / "last" if last else folder) / f"{split}.safetensors"


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        path: The run directory.
        recipe: The recipe that it was trained with.
    """

    path: Path
    recipe: Recipe

    @property
    def files(self) -> RunDirectory:
        """The names of the run's files."""
        return RunDirectory(self.path)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return read_history(self.files.history)

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """Metrics of the selected epoch's predictions, before and after temperature scaling."""
        return read_evaluation(self.files.evaluation)

    def predictions(self, split: str = "test", selection: Selection = "selected") -> Predictions:
        """Load the predictions for a split, of the ``selected`` epoch or of the ``last`` one."""
        return Predictions.load(self.files.predictions(split, selection))

    def data(self) -> "DataSet":
        """Load the data set that the run was trained with again, with the same settings.

        Raises:
            ValueError: It was data of your own, or a file is missing or wrong.
        """
        from focalcal.training.building import build_data  # it needs the packages that train

        if self.recipe.data.name == "own":
            raise ValueError("The run was trained with data of your own, which it cannot load.")
        return build_data(self.recipe)

    def network(
        self, *, model: "nn.Module | None" = None, data: "DataSet | None" = None, checkpoint: Path | None = None
    ) -> "nn.Module":
        """Load the trained network with the weights of the selected epoch, on the CPU and in evaluation mode.

        Args:
            model: A network of your own, if the run trained one; its weights are replaced.
            data: The data set of the run, if it has been loaded already (:meth:`data`); it says how many classes and
                words there are.
            checkpoint: A file of ``checkpoints/`` whose weights are loaded instead.

        Raises:
            ValueError: There is no checkpoint, or the weights or the words of the data do not fit.
        """
        from focalcal.training.building import load_network  # it needs the packages that train

        return load_network(self, model, data, checkpoint)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the directory of a run.

    Raises:
        ValueError: It is not a run directory.
    """
    files = RunDirectory(Path(path))
    if not files.config.is_file():
        raise ValueError(f"{files.path} is not a run directory: it has no {files.config.name}.")
    return Run(files.path, load_recipe(files.config))


def read_evaluation(path: Path) -> dict[str, Any]:
    """Read the evaluation of a run.

    Raises:
        ValueError: It is missing or damaged.
    """
    try:
        content = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is missing or damaged ({error}); resume the run to write it again.") from error
    if not _is_evaluation(content):
        raise ValueError(f"{path} is damaged: it is not an evaluation; resume the run to write it again.")
    return content


def _is_evaluation(content: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether it has an epoch, temperatures, and the same figures of each split before and after scaling."""
    splits = content.get("splits") if isinstance(content, dict) else None
    if not isinstance(splits, dict) or "val" not in splits:
        return False
    epoch, figures = content.get("epoch"), ("error", "nll", "ece")
    return (
        type(epoch) is int
        and 0 <= epoch < 2**31
        and _has_numbers(content.get("temperature"), ("nll", "ece"))
        and all(isinstance(split, dict) for split in splits.values())
        and all(_has_numbers(split.get(name), figures) for split in splits.values() for name in _SCALED)
    )


def _has_numbers(table: Any, names: Sequence[str]) -> bool:
    """Return whether a table has these entries, and only numbers; null is one that is not finite."""
    is_table = isinstance(table, dict) and all(name in table for name in names)
    return is_table and all(value is None or type(value) in (int, float) for value in table.values())


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON record per line; an empty list if there is no such file."""
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}, is not JSON; it is not a history of focalcal.") from error
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}, is not a record; it is not a history of focalcal.")
        records.append(record)
    return records


def write_history(path: Path, records: list[dict[str, Any]]) -> None:
    """Write one JSON record per line, the whole file again each time: a reader never sees half a line."""
    make_folder(path.parent)
    text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
    with atomic_writer(path) as file:
        file.write(text.encode())
