"""Puts a finished sweep into results/, or makes its tables again from the predictions that are kept there.

    python results/collect.py runs/resnet8 cifar10_resnet8 'focalcal sweep cifar10/resnet8 --out runs/resnet8'
    python results/collect.py runs/more cifar10_resnet8 'focalcal sweep … --out runs/more' --add
    python results/collect.py --again cifar10_resnet8

The first keeps the predictions of every run (as small as the printed figures allow, at most 1 MB per run and 15 MB in
all), its history and what else it recorded, and writes a README with the command, the versions and the date. The
second keeps the runs that are there already, where they are not among the new ones. The third needs nothing but this
repository. All write the tables from the kept predictions, and put the paper's figures beside them where it has any. A
figure whose predictions are not kept stays as it was measured when it was collected. Of translators, whose token
predictions are far too large, translations are kept: all three commands compare BLEU again from these.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from collect_translators import collect_translators, compare_again
from focalcal.paper import published_figures
from focalcal.sweeps.finished import INDEX, FinishedRun, finished_run, read_index, write_index
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result import CURVES, FILES, measure
from focalcal.sweeps.result_rows import read_rows, title, write_rows
from focalcal.training import open_run
from kept_predictions import check_in_all, keep, megabytes, size
from recorded_files import copy_histories, copy_recorded
from result_pages import HOW, beside_the_paper, earlier_batches, how_it_was_made, table_of_rows
from row_order import key, merge, method_seeds, place

RESULTS = Path(__file__).parent


def collect(
    sweep: Path,
    name: str,
    command: str,
    *,
    without_ood: Sequence[str] = (),
    without_last: bool = False,
    add: bool = False,
    bootstrap: int = 1000,
    results: Path = RESULTS,
) -> None:
    """Keep what a sweep's runs left, and say how it was made; nothing changes where the budget does not allow it.

    Args:
        sweep: The folder that ``focalcal sweep`` wrote.
        name: Name of the folder in results/.
        command: Command that made it, for the README.
        without_ood: Losses whose out-of-distribution predictions are not kept.
        without_last: Keep no predictions of the last epoch where another one was selected.
        add: Keep the runs that the result has already, except those that are collected now.
        bootstrap: Number of resamples for the intervals.
        results: Folder to write to.
    """
    folder = results / name
    if (sweep / CURVES).is_file():
        collect_translators(sweep, folder, command, add=add)
        return
    runs = _runs(sweep, without_ood)
    old = _old_runs(folder, {run.name for run in runs}) if add else []
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix=".collecting-") as temporary:
        new = Path(temporary, "predictions")
        new.mkdir()
        kept = keep(runs, new, without_ood=without_ood, without_last=without_last)
        for run in old:
            shutil.copytree(run.folder, new / run.name)
        write_index(new, [*old, *kept])
        check_in_all([new, *(other for other in results.glob("*/predictions") if other.parent != folder)])
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "predictions", ignore_errors=True)
        new.rename(folder / "predictions")
    paths = {run.name: run.folder.parent for run in runs}
    if not add:
        shutil.rmtree(folder / "histories", ignore_errors=True)
        shutil.rmtree(folder / "recorded", ignore_errors=True)
    copy_histories(paths, folder / "histories")
    copy_recorded(paths, folder / "recorded")
    for table in FILES.values():
        before = read_rows(folder / table) if add else []
        rows = merge(before, read_rows(sweep / table))
        write_rows(folder / table, sorted(rows, key=place) if add else rows)
    earlier = earlier_batches(folder / "README.md") if add else ""
    how = how_it_was_made(folder, list(paths.values()), command, earlier)
    (folder / "README.md").write_text(HOW + how, encoding="utf-8")
    for run in kept:
        print(f"{run.name}: {megabytes(size(folder / 'predictions' / run.name))}")
    again(name, bootstrap=bootstrap, results=results)


def _old_runs(folder: Path, replaced: Collection[str]) -> list[FinishedRun]:
    """List the runs whose predictions a result has and that stay in it; none where it kept no predictions."""
    if not (folder / "predictions" / INDEX).is_file():
        return []
    return [run for run in read_index(folder / "predictions") if run.name not in replaced]


def again(name: str, *, bootstrap: int = 1000, results: Path = RESULTS) -> None:
    """Make the tables of a result again from its kept predictions; a row that they cannot give stays as it was."""
    folder = results / name
    if (folder / CURVES).is_file():
        compare_again(folder)
        return
    runs = read_index(folder / "predictions")
    before = {objective: read_rows(folder / table) for objective, table in FILES.items()}
    order = list(dict.fromkeys(row.method for row in before["ece"]))
    found = measure(runs, order, bootstrap=bootstrap)
    stayed = 0
    for objective, table in FILES.items():
        write_rows(folder / table, merge(before[objective], found.rows[objective]))
        stayed += len({key(row) for row in before[objective]} - {key(row) for row in found.rows[objective]})
    how = (folder / "README.md").read_text(encoding="utf-8").partition(HOW)[2]
    is_whole = set(order) == {run.loss for run in runs}
    page = found.to_markdown() if is_whole else table_of_rows(found.title, read_rows(folder / FILES["ece"]))
    (folder / "README.md").write_text(page + HOW + how, encoding="utf-8")
    if published_figures(title(runs[0].data), title(runs[0].model)):
        (folder / "beside_the_paper.md").write_text(beside_the_paper(folder), encoding="utf-8")
    total = sum(size(other) for other in results.glob("*/predictions"))
    print(f"results/{name}: predictions {megabytes(size(folder / 'predictions'))} of {megabytes(total)} in all.")
    print(
        f"{sum(map(len, found.rows.values()))} rows measured again; {stayed} stay, as their predictions are not kept."
    )


def _runs(sweep: Path, without_ood: Sequence[str]) -> list[FinishedRun]:
    """The runs of a sweep's table, in their run directories."""
    rows = read_rows(sweep / FILES["ece"])
    unknown = [loss for loss in without_ood if loss not in {row.method for row in rows}]
    if unknown:
        raise ValueError(f"--without-ood names {unknown[0]}, which the sweep does not have.")
    runs = []
    for loss, seed in method_seeds(rows):
        path = sweep / loss / f"seed-{seed}"
        runs.append(finished_run(PlannedRun(loss, seed, path, open_run(path).recipe)))
    return runs


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", nargs="?", type=Path, help="the folder that focalcal sweep wrote")
    parser.add_argument("name", nargs="?", help="the folder in results/")
    parser.add_argument("command", nargs="?", help="the command that made it, for the README")
    parser.add_argument("--again", metavar="NAME", help="make the tables of results/NAME again")
    parser.add_argument("--without-ood", default="", metavar="LOSS,…", help="losses that keep no such predictions")
    parser.add_argument("--without-last", action="store_true", help="keep no last epoch where another was selected")
    parser.add_argument("--add", action="store_true", help="keep the runs that the result has already")
    given = parser.parse_args(arguments)
    try:
        if given.again is not None and given.sweep is None:
            again(given.again)
        elif given.again is None and given.command is not None:
            losses = [loss.strip() for loss in given.without_ood.split(",") if loss.strip()]
            names = (given.sweep, given.name, given.command)
            collect(*names, without_ood=losses, without_last=given.without_last, add=given.add)
        else:
            parser.error("give SWEEP NAME 'focalcal sweep …', or --again NAME alone.")
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
