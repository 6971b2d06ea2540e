"""Puts a finished comparison into results/, or makes its tables again from the predictions that are kept there.

    python results/collect.py runs/resnet8 cifar10_resnet8 'focalcal compare cifar10/resnet8 --out runs/resnet8'
    python results/collect.py --again cifar10_resnet8

The first keeps the predictions of every run (as small as the printed figures allow, at most 1 MB per run and 15 MB in
all), its history and what else it recorded, and writes a README with the command, the versions and the date. The
second needs nothing but this repository. Both write the tables from the kept predictions, and put the paper's figures
beside them where it has any. A figure whose predictions are not kept stays as it was measured when it was collected.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from focalcal.comparison.finished import FinishedRun, finished_run, read_index
from focalcal.comparison.outcome import FILES, measure
from focalcal.comparison.plan import PlannedRun
from focalcal.comparison.rows import Row, read_rows, title, write_rows
from focalcal.paper import published
from focalcal.training.run_directory import open_run
from kept_predictions import check_in_all, keep, megabytes, size
from recorded_files import copy_histories, copy_recorded
from result_pages import beside_the_paper, how_it_was_made

RESULTS = Path(__file__).parent
_HOW = "\n## How it was made\n\n"


def collect(
    comparison: Path,
    name: str,
    command: str,
    *,
    without_ood: Sequence[str] = (),
    without_last: bool = False,
    bootstrap: int = 1000,
    results: Path = RESULTS,
) -> None:
    """Keep what a comparison's runs left, and say how it was made; nothing changes where the budget does not allow it.

    Args:
        comparison: the folder that ``focalcal compare`` wrote.
        name: of the folder in results/.
        command: that made it, for the README.
        without_ood: losses whose out-of-distribution predictions are not kept.
        without_last: keep no predictions of the last epoch where another one was selected.
        bootstrap: how many resamples make the intervals.
        results: where to.
    """
    folder = results / name
    runs = _runs(comparison, without_ood)
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix=".collecting-") as place:
        new = Path(place, "predictions")
        new.mkdir()
        kept = keep(runs, new, without_ood=without_ood, without_last=without_last)
        check_in_all([new, *(other for other in results.glob("*/predictions") if other.parent != folder)])
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "predictions", ignore_errors=True)
        new.rename(folder / "predictions")
    paths = {run.name: run.folder.parent for run in runs}
    copy_histories(paths, folder / "histories")
    copy_recorded(paths, folder / "recorded")
    for table in FILES.values():
        write_rows(folder / table, read_rows(comparison / table))
    how = how_it_was_made(folder, list(paths.values()), command, without_ood)
    (folder / "README.md").write_text(_HOW + how, encoding="utf-8")
    for run in kept:
        print(f"{run.name}: {megabytes(size(folder / 'predictions' / run.name))}")
    again(name, bootstrap=bootstrap, results=results)


def again(name: str, *, bootstrap: int = 1000, results: Path = RESULTS) -> None:
    """Make the tables of a result again from its kept predictions; a row that they cannot give stays as it was."""
    folder = results / name
    runs = read_index(folder / "predictions")
    before = {objective: read_rows(folder / table) for objective, table in FILES.items()}
    order = list(dict.fromkeys(row.method for row in before["ece"]))
    found = measure(runs, order, bootstrap=bootstrap)
    stayed = 0
    for objective, table in FILES.items():
        write_rows(folder / table, _merge(before[objective], found.rows[objective]))
        stayed += len({_key(row) for row in before[objective]} - {_key(row) for row in found.rows[objective]})
    how = (folder / "README.md").read_text(encoding="utf-8").partition(_HOW)[2]
    (folder / "README.md").write_text(found.markdown() + _HOW + how, encoding="utf-8")
    if published(title(runs[0].data), title(runs[0].model)):
        (folder / "beside_the_paper.md").write_text(beside_the_paper(folder), encoding="utf-8")
    total = sum(size(other) for other in results.glob("*/predictions"))
    print(f"results/{name}: predictions {megabytes(size(folder / 'predictions'))} of {megabytes(total)} in all.")
    print(
        f"{sum(map(len, found.rows.values()))} rows measured again; {stayed} stay, as their predictions are not kept."
    )


def _runs(comparison: Path, without_ood: Sequence[str]) -> list[FinishedRun]:
    """The runs of a comparison's table, in their run directories."""
    rows = read_rows(comparison / FILES["ece"])
    unknown = [loss for loss in without_ood if loss not in {row.method for row in rows}]
    if unknown:
        raise ValueError(f"--without-ood names {unknown[0]}, which the comparison does not have.")
    runs = []
    for loss, seed in dict.fromkeys((row.method, row.seed) for row in rows):
        path = comparison / loss / f"seed-{seed}"
        runs.append(finished_run(PlannedRun(loss, seed, path, open_run(path).recipe)))
    return runs


def _key(row: Row) -> tuple[object, ...]:
    return (row.dataset, row.method, row.seed, row.selection, row.metric, row.temperature_scaling)


def _merge(before: Sequence[Row], measured: Sequence[Row]) -> list[Row]:
    """The rows of a table in their order, with what was measured in the place of what it had; new rows at the end."""
    new = {_key(row): row for row in measured}
    return [new.pop(_key(row), row) for row in before] + list(new.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", nargs="?", type=Path, help="the folder that focalcal compare wrote")
    parser.add_argument("name", nargs="?", help="the folder in results/")
    parser.add_argument("command", nargs="?", help="the command that made it, for the README")
    parser.add_argument("--again", metavar="NAME", help="make the tables of results/NAME again")
    parser.add_argument("--without-ood", default="", metavar="LOSS,…", help="losses that keep no such predictions")
    parser.add_argument("--without-last", action="store_true", help="keep no last epoch where another was selected")
    given = parser.parse_args(arguments)
    try:
        if given.again is not None and given.comparison is None:
            again(given.again)
        elif given.again is None and given.command is not None:
            losses = [loss.strip() for loss in given.without_ood.split(",") if loss.strip()]
            names = (given.comparison, given.name, given.command)
            collect(*names, without_ood=losses, without_last=given.without_last)
        else:
            parser.error("give COMPARISON NAME 'focalcal compare …', or --again NAME alone.")
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
