"""Predictions of finished runs, kept in results/: as small as the printed figures allow, within a budget."""

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from focalcal.sweeps.finished import FinishedRun
from focalcal.sweeps.result import FILES
from focalcal.sweeps.result_rows import Row, Selection, write_value
from focalcal.sweeps.scoring import score

# All five severities of CIFAR-10-C would break the budget of a run: the rows of these are in the tables, and stay.
LEFT_OUT = ("cifar10_c_1", "cifar10_c_2", "cifar10_c_3", "cifar10_c_4")
_NEEDED = ("val", "test")
MOST_OF_A_RUN, MOST_IN_ALL = 1_000_000, 15_000_000  # bytes


def keep(
    runs: Sequence[FinishedRun], folder: Path, *, without_ood: Collection[str] = (), without_last: bool = False
) -> list[FinishedRun]:
    """Write the predictions of runs into an empty folder, a folder each, and give the runs as they now stand there.

    Args:
        runs: in their run directories.
        folder: where to.
        without_ood: losses whose out-of-distribution sets are left out.
        without_last: leave the last epoch out where another one was selected.

    Raises:
        ValueError: one sentence, for two runs of one name, or a run that takes more than its budget.
    """
    names = [run.name for run in runs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"Two runs are called {twice[0]}: keep each in a folder of its own.")
    return [_keep(run, folder / run.name, run.loss not in without_ood, not without_last) for run in runs]


def size(folder: Path) -> int:
    """The bytes of all files in a folder; 0 if there is none."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def check_in_all(folders: Iterable[Path]) -> None:
    """Refuse more predictions than results/ may hold."""
    total = sum(size(folder) for folder in folders)
    if total > MOST_IN_ALL:
        raise ValueError(
            f"All predictions would take {megabytes(total)}, more than {megabytes(MOST_IN_ALL)}: leave some out with "
            "--without-ood LOSS,… or --without-last."
        )


def megabytes(count: int) -> str:
    """Bytes for people.

    Examples:
        >>> megabytes(1_234_567)
        '1.23 MB'
    """
    return f"{count / 1e6:.2f} MB"


def _keep(run: FinishedRun, folder: Path, with_ood: bool, with_last: bool) -> FinishedRun:
    there = replace(run, folder=folder)
    _write(run, there, run.shown, with_ood)
    if size(folder) > MOST_OF_A_RUN:
        way_out = f": leave its out-of-distribution sets out with --without-ood {run.loss}" if with_ood else ""
        raise ValueError(f"{run.name} takes {megabytes(size(folder))}, more than 1 MB per run{way_out}.")
    if with_last and run.shown != "last" and there.file("test", "last") != there.file("test", "best"):
        _write(run, there, "last", with_ood)
        if size(folder) > MOST_OF_A_RUN:
            shutil.rmtree(folder / "last")
    return there


def _write(run: FinishedRun, there: FinishedRun, selection: Selection, with_ood: bool) -> None:
    """Every split in float32, and then in float16 where that changes no printed figure."""
    splits = [split for split in run.splits(selection) if split not in LEFT_OUT and (with_ood or split in _NEEDED)]
    for split in splits:
        file = there.file(split, selection)
        file.parent.mkdir(parents=True, exist_ok=True)
        run.predictions(split, selection).save(file, compact="float32")
    expected = printed(run, selection)
    for split in splits:
        file = there.file(split, selection)
        wide = file.read_bytes()
        run.predictions(split, selection).save(file, compact="float16")
        if any(expected.get(key) != text for key, text in printed(there, selection).items()):
            file.write_bytes(wide)


def printed(run: FinishedRun, selection: Selection) -> dict[tuple[str, ...], str]:
    """Every figure of an epoch as tables print it, T included, for both ways of fitting T."""
    return {
        (objective, row.dataset, row.metric, row.temperature_scaling): _printed(row)
        for objective in FILES
        for row in score(run, selection, objective, bootstrap=0, level=0.9).rows
    }


def _printed(row: Row) -> str:
    # A table prints what was measured, or what it finds in a csv file, whose six digits may round the other way.
    return f"{row.value:.2f} {float(str(write_value(row.value))):.2f} {row.temperature or 0:.2f}"
