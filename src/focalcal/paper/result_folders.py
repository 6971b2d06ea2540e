"""Results at hand: committed folders of results, folders of sweeps and single runs, read alike."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from focalcal.base.files import parse_json, read_text
from focalcal.calibrators import TemperatureScaling
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from focalcal.sweeps.bleu_differences import BleuDifference, read_differences
from focalcal.sweeps.finished import INDEX, FinishedRun, finished_run, read_index
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result import CURVES, DIFFERENCES, FILES
from focalcal.sweeps.result_rows import Row, read_rows, title
from focalcal.sweeps.translated_run import CurvePoint, read_curves
from focalcal.training import RunDirectory, open_run
from focalcal.training.evaluator import fit_temperature
from focalcal.training.run_directory import read_history

DEFAULT = Path("results")
SNAPSHOT_BINS = 25  # of the paper's reliability plots of the training set
_SNAPSHOT = re.compile(r"epoch-(\d{5})\.safetensors")


@dataclass(frozen=True)
class KeptRun:
    """Remains of one run: its history, and perhaps recordings and predictions.

    Attributes:
        loss, seed: Loss and seed of the run.
        dataset, model: The paper's names.
        history_file: One line per epoch.
        norms_file: Histograms of gradient norms, which need not be there.
        snapshots_at: The sums of snapshots, or the folder of the snapshots themselves.
        finished: The predictions; None where none were kept.
    """

    loss: str
    seed: int
    dataset: str
    model: str
    history_file: Path
    norms_file: Path
    snapshots_at: Path
    finished: FinishedRun | None

    @property
    def name(self) -> str:
        """``fl-3, seed 0``."""
        return f"{self.loss}, seed {self.seed}"

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Every epoch."""
        return read_history(self.history_file)

    @cached_property
    def gradient_norms(self) -> list[dict[str, Any]]:
        """Histograms of gradient norms by epoch; empty where they were not recorded."""
        return read_history(self.norms_file)

    @cached_property
    def snapshots(self) -> list[dict[str, Any]]:
        """Sums over bins of confidence of the training set by epoch; empty where they were not recorded."""
        if self.snapshots_at.is_dir():
            return snapshot_sums(self.snapshots_at)
        if not self.snapshots_at.is_file():
            return []
        found: list[dict[str, Any]] = parse_json(read_text(self.snapshots_at))
        return found


@dataclass(frozen=True)
class ResultSet:
    """One folder of results, of a sweep or of a run.

    Attributes:
        name: Its name in tables.
        folder: Where it is.
        rows: Every figure, T by validation ECE; none for a single run.
        rows_by_nll: The same with T by validation NLL.
        runs: What is left of the runs, the paper's order of losses first seeds first.
    """

    name: str
    folder: Path
    rows: tuple[Row, ...]
    rows_by_nll: tuple[Row, ...]
    runs: tuple[KeptRun, ...]

    @cached_property
    def curves(self) -> tuple[CurvePoint, ...]:
        """BLEU and ECE by temperature, where the runs translate."""
        return tuple(read_curves(self.folder / CURVES))

    @cached_property
    def differences(self) -> tuple[BleuDifference, ...]:
        """Differences of BLEU by the paired bootstrap, where the runs translate."""
        return tuple(read_differences(self.folder / DIFFERENCES))

    def places(self) -> list[tuple[str, str]]:
        """Return the data sets and networks that it has figures of."""
        return list(dict.fromkeys((row.dataset, row.model) for row in self.rows))


def find_results(folders: Iterable[Path] | None = None) -> list[ResultSet]:
    """Read folders of results: each is one result, a sweep, a run, or a folder of those.

    Args:
        folders: The folders; by default ``results`` in the current directory.

    Raises:
        ValueError: A folder is not there or holds nothing of that kind.
    """
    given = list(folders or ())
    if not given and not DEFAULT.is_dir():
        raise ValueError(
            "There is no folder results here: go to a clone of focalcal, or name the folder of a sweep or of results."
        )
    found = [result for folder in given or [DEFAULT] for result in _read_folder(folder)]
    names = [result.folder.resolve() for result in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"{repeated.name} is given twice; give each folder once.")
    return found


def _read_folder(folder: Path) -> list[ResultSet]:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give one with a table.csv, or a run directory.")
    if _is_result(folder):
        return [_read(folder)]
    inside = [_read(one) for one in sorted(folder.iterdir()) if one.is_dir() and _is_result(one)]
    if not inside:
        raise ValueError(f"{folder} holds no results: neither a {FILES['ece']} of focalcal sweep nor a run directory.")
    return inside


def _is_result(folder: Path) -> bool:
    return (folder / FILES["ece"]).is_file() or _is_run(folder)


def _is_run(folder: Path) -> bool:
    return RunDirectory(folder).config.is_file()


def _read(folder: Path) -> ResultSet:
    tables = [folder / name for name in (FILES["ece"], FILES["nll"])]
    rows, by_nll = (tuple(read_rows(table)) if table.is_file() else () for table in tables)
    if _is_run(folder):
        runs = [_of_directory(folder)]
    elif (folder / "histories").is_dir():
        runs = _of_result(folder, rows)
    else:
        runs = [_of_directory(one) for one in sorted(folder.glob("*/seed-*")) if _is_run(one)]
    order = {loss: place for place, loss in enumerate(dict.fromkeys(row.method for row in rows))}
    runs.sort(key=lambda run: (run.seed, order.get(run.loss, len(order)), run.loss))
    return ResultSet(folder.resolve().name, folder, rows, by_nll, tuple(runs))


def _of_directory(folder: Path) -> KeptRun:
    """Describe a run directory."""
    recipe, files = open_run(folder).recipe, RunDirectory(folder)
    loss, seed = recipe.loss, recipe.seed
    finished = finished_run(PlannedRun(loss, seed, folder, recipe)) if files.is_finished else None
    return KeptRun(
        loss,
        seed,
        title(recipe.data.name),
        title(recipe.model.name),
        files.history,
        files.gradient_norms,
        files.snapshots,
        finished,
    )


def _of_result(folder: Path, rows: Sequence[Row]) -> list[KeptRun]:
    """Describe the runs that were collected in a folder of results."""
    kept = {one.name: one for one in read_index(folder / "predictions")} if _has_index(folder) else {}
    places = {(row.method, row.seed): (row.dataset, row.model) for row in rows if not row.is_out_of_distribution}
    runs = []
    for (loss, seed), place in places.items():
        name = f"{loss}-seed-{seed}"
        recorded = folder / "recorded" / name
        files = (folder / "histories" / f"{name}.jsonl", recorded / "gradient-norms.jsonl", recorded / "snapshots.json")
        runs.append(KeptRun(loss, seed, *place, *files, kept.get(name)))
    return runs


def _has_index(folder: Path) -> bool:
    return (folder / "predictions" / INDEX).is_file()


def snapshot_sums(folder: Path) -> list[dict[str, Any]]:
    """Add up each snapshot of a folder over 25 bins of equal width, by epoch, counted from 1."""
    found = {int(name[1]): file for file in folder.glob("*") if (name := _SNAPSHOT.fullmatch(file.name))}
    return [{"epoch": epoch, "bins": SNAPSHOT_BINS, **_sums(Predictions.load(found[epoch]))} for epoch in sorted(found)]


def _sums(preds: Predictions) -> dict[str, list[float]]:
    stats = sample_statistics(preds)
    sums = equal_width_sums(stats.confidence, stats.correct, SNAPSHOT_BINS, stats.weight)
    return {name: getattr(sums, name).tolist() for name in ("count", "confidence", "correct")}


def load_scaled(
    run: KeptRun, *splits: str, objective: Objective = "ece"
) -> tuple[TemperatureScaling, dict[str, tuple[Predictions, Predictions]]]:
    """Load splits of the epoch that the recipe selects, each before and after scaling.

    Args:
        run: A run whose predictions were kept.
        splits: Names such as ``test`` and ``svhn``.
        objective: What T minimises on the validation set.

    Returns:
        The fitted scaling, and a pair of predictions by split.

    Raises:
        ValueError: Predictions are not there.
    """
    kept = run.finished
    missing = [one for one in ("val", *splits) if kept is None or not kept.file(one, kept.shown).is_file()]
    if kept is None or missing:
        raise ValueError(f"The run {run.name} of {run.dataset} has no predictions for {missing[0]}.")
    scaler = fit_temperature(objective, kept.predictions("val", kept.shown))
    loaded = {split: kept.predictions(split, kept.shown) for split in splits}
    return scaler, {split: (preds, scaler.transform(preds)) for split, preds in loaded.items()}
