"""Finished runs, ready to be measured: in their run directories, or in a folder that only kept predictions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer, parse_json, read_text
from focalcal.predictions import Predictions
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result_rows import Selection
from focalcal.training.run_directory import open_run, prediction_file

# Out-of-distribution sets, in the order of tables; CIFAR-10-C without a number is severity 5, the paper's.
OOD_SPLITS = ("svhn", "cifar10_c_1", "cifar10_c_2", "cifar10_c_3", "cifar10_c_4", "cifar10_c")
INDEX = "runs.json"


@dataclass(frozen=True)
class FinishedRun:
    """One loss with one seed, after training.

    Attributes:
        loss, seed, data, model: Their names in the recipe.
        select: The recipe's rule for the selected epoch.
        epochs: The epoch, counted from 1, by selection; ``best`` only if the rule is not ``last``.
        folder: Predictions of the selected epoch; those of the last epoch are in ``last``, or the same.
    """

    loss: str
    seed: int
    data: str
    model: str
    select: str
    epochs: Mapping[Selection, int]
    folder: Path

    @property
    def name(self) -> str:
        """``fl-3-seed-0``."""
        return f"{self.loss}-seed-{self.seed}"

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Those whose predictions are there, the recipe's own first."""
        return tuple(one for one in self.epochs if self.file("test", one).is_file())

    @property
    def shown(self) -> Selection:
        """The recipe's own selection."""
        return "last" if self.select == "last" else "best"

    def file(self, split: str, selection: Selection) -> Path:
        """Return the file of the predictions of a split, which need not be there."""
        is_apart = selection != self.shown and self.epochs[selection] != self.epochs[self.shown]
        return prediction_file(self.folder, split, last=is_apart)

    def splits(self, selection: Selection) -> tuple[str, ...]:
        """Validation, test and the out-of-distribution sets that there are predictions for."""
        return tuple(one for one in ("val", "test", *OOD_SPLITS) if self.file(one, selection).is_file())

    def predictions(self, split: str, selection: Selection) -> Predictions:
        """Load the predictions of a split."""
        return Predictions.load(self.file(split, selection))

    def facts(self) -> dict[str, Any]:
        """Return everything but the folder, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "folder"}


def finished_run(run: PlannedRun) -> FinishedRun:
    """Describe a finished run of a sweep, in its run directory."""
    last = run.recipe.epochs
    selected = int(open_run(run.path).evaluation["epoch"]) + 1
    epochs: dict[Selection, int] = {"last": last} if run.recipe.select == "last" else {"best": selected, "last": last}
    names = (run.recipe.data.name, run.recipe.model.name, run.recipe.select)
    return FinishedRun(run.loss, run.seed, *names, epochs, run.files.predictions_folder)


def write_index(folder: Path, runs: Sequence[FinishedRun]) -> None:
    """Write what must be known of runs whose predictions are all that was kept."""
    with atomic_writer(folder / INDEX) as file:
        file.write((json.dumps([run.facts() for run in runs], indent=1) + "\n").encode())


def read_index(folder: Path) -> list[FinishedRun]:
    """Read the runs whose predictions were kept in a folder, each in a folder of its own: ``fl-3-seed-0``.

    Raises:
        ValueError: One sentence, where there is no such folder or its index is damaged.
    """
    index = folder / INDEX
    try:
        content = parse_json(read_text(index))
        return [_from_facts(folder, **facts) for facts in content]
    except OSError:
        raise ValueError(f"{folder} holds no predictions of runs: it has no {INDEX}.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{index} is damaged ({error}); collect the runs again.") from None


def _from_facts(
    folder: Path, *, loss: object, seed: object, data: object, model: object, select: object, epochs: object
) -> FinishedRun:
    """Check what an index says of a run."""
    names = (loss, data, model, select)
    if not all(isinstance(name, str) for name in names) or "/" in str(loss) or not _is_whole(seed):
        raise ValueError("a run's loss, data, model and select are names, and its seed is a whole number")
    shown = "last" if select == "last" else "best"
    if not isinstance(epochs, dict) or not {"last", shown} <= epochs.keys() <= {"best", "last"}:
        raise ValueError("a run's epochs are those of its selections, best and last")
    if not all(_is_whole(epoch) for epoch in epochs.values()):
        raise ValueError("an epoch is a whole number")
    return FinishedRun(
        str(loss), int(str(seed)), str(data), str(model), str(select), epochs, folder / f"{loss}-seed-{seed}"
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
