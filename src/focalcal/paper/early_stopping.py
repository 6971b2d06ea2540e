"""Early stopping: the epochs that criteria on the validation set choose, and what they are worth on the test set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from focalcal.paper.cells import PUBLISHED_ONLY, Cell, Measured, TableLine, join_seeds
from focalcal.paper.claims import Claim, judge
from focalcal.paper.published import Published, published_table
from focalcal.paper.result_folders import KeptRun, ResultSet
from focalcal.paper.run_groups import need_test
from focalcal.paper.table_names import TableName

Epoch = Mapping[str, Any]

_PAPERS_PLACE = ("CIFAR-10", "ResNet-50")
# Criterion -> what is least at the chosen epoch; the paper has no row for the NLL after temperature scaling.
CRITERIA: dict[str, tuple[str, Callable[[Epoch], float]]] = {
    "ece": ("ECE", lambda epoch: float(epoch["val"]["ece"])),
    "nll": ("NLL", lambda epoch: float(epoch["val"]["nll"])),
    "error": ("error", lambda epoch: float(epoch["val"]["error"])),
    "scaled_nll": ("NLL after scaling", lambda epoch: float(epoch["val"]["scaled_nll"])),
    "full": ("none: the last epoch", lambda epoch: -float(epoch["epoch"])),
}


def chosen_epoch(history: Sequence[Epoch], criterion: str) -> Epoch:
    """Return the first epoch with the least value of a criterion on the validation set.

    Examples:
        >>> history = [{"epoch": e, "val": {"ece": ece}} for e, ece in enumerate((0.2, 0.1, 0.1))]
        >>> chosen_epoch(history, "ece")["epoch"], chosen_epoch(history, "full")["epoch"]
        (1, 2)
    """
    return min(history, key=CRITERIA[criterion][1])


def epochs_with_test(run: KeptRun) -> list[Epoch]:
    """Return the epochs of a run, all of which must have been measured on the test set.

    Raises:
        ValueError: One sentence that names the field of the recipe.
    """
    problem = need_test(run)
    if problem is not None:
        raise ValueError(problem)
    return list(run.history)


def early_stopping_lines(name: TableName, results: Sequence[ResultSet]) -> Iterator[TableLine]:
    """Make the rows of the table: the paper's four criteria, and one that it does not have.

    Results whose runs were not measured on the test set after every epoch are left out.
    """
    for criterion in CRITERIA:
        yield TableLine((*_PAPERS_PLACE, CRITERIA[criterion][0], PUBLISHED_ONLY), _cells(name, criterion, ()))
    for result in results:
        runs = [run for run in result.runs if run.loss in name.methods and need_test(run) is None]
        if runs:
            place = (runs[0].dataset, runs[0].model)
            for criterion in CRITERIA:
                yield TableLine((*place, CRITERIA[criterion][0], result.name), _cells(name, criterion, runs, place))


def _cells(
    name: TableName, criterion: str, runs: Sequence[KeptRun], place: tuple[str, str] = _PAPERS_PLACE
) -> tuple[Cell, ...]:
    printed = published_table(f"early_stopping:{criterion}") if place == _PAPERS_PLACE else {}
    cells = []
    for method in name.methods:
        chosen = [chosen_epoch(epochs_with_test(run), criterion) for run in runs if run.loss == method]
        for metric, scaling, _ in name.columns:
            figure: Published | None = printed.get((*place, method, metric, scaling))
            cells.append(Cell(figure, _join(chosen, metric), digits=0 if metric == "epoch" else 2))
    return tuple(cells)


def _join(chosen: Sequence[Epoch], metric: str) -> Measured | None:
    if metric == "epoch":
        return join_seeds([float(epoch["epoch"] + 1) for epoch in chosen])
    return join_seeds([100 * float(epoch["test"][metric]) for epoch in chosen])


def early_stopping_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on early stopping, for results that were measured on the test set every epoch."""
    chosen = [(name, {loss: _choose(runs[loss]) for loss in runs}) for name, runs in _both(results)]
    nothing = "no result has both losses measured on the test set after every epoch; record.test_every=1 does that"
    return [
        judge(
            "By every criterion the epoch of FLSD-53 has a lower error and ECE than that of cross-entropy.",
            [
                (
                    all(a < b for a, b in zip(focal[criterion], plain[criterion], strict=True)),
                    f"{name}, {CRITERIA[criterion][0]}: error {focal[criterion][0]:.2f} and {plain[criterion][0]:.2f}, "
                    f"ECE {focal[criterion][1]:.2f} and {plain[criterion][1]:.2f}",
                )
                for name, (focal, plain) in ((name, (of["flsd-53"], of["cross-entropy"])) for name, of in chosen)
                for criterion in ("ece", "nll", "error")
            ],
            nothing,
        ),
        judge(
            "Stopping by ECE gives cross-entropy a lower ECE at the cost of a higher error.",
            [
                (
                    plain["ece"][1] < plain["full"][1] and plain["ece"][0] > plain["full"][0],
                    f"{name}: ECE {plain['ece'][1]:.2f} instead of {plain['full'][1]:.2f}, "
                    f"error {plain['ece'][0]:.2f} instead of {plain['full'][0]:.2f}",
                )
                for name, plain in ((name, of["cross-entropy"]) for name, of in chosen)
            ],
            nothing,
        ),
        judge(
            "Even without early stopping FLSD-53 has a lower error and ECE than cross-entropy with any criterion (not "
            "in the paper's own table: an error of 4.98 against 4.95).",
            [
                (
                    all(a < b for criterion in CRITERIA for a, b in zip(focal["full"], plain[criterion], strict=True)),
                    f"{name}: error {focal['full'][0]:.2f} against {min(error for error, _ in plain.values()):.2f} at "
                    f"best, ECE {focal['full'][1]:.2f} against {min(ece for _, ece in plain.values()):.2f}",
                )
                for name, (focal, plain) in ((name, (of["flsd-53"], of["cross-entropy"])) for name, of in chosen)
            ],
            nothing,
        ),
    ]


def _both(results: Sequence[ResultSet]) -> Iterator[tuple[str, dict[str, KeptRun]]]:
    for result in results:
        runs = {run.loss: run for run in reversed(result.runs) if need_test(run) is None}
        if "flsd-53" in runs and "cross-entropy" in runs:
            yield result.name, runs


def _choose(run: KeptRun) -> dict[str, tuple[float, float]]:
    """Return test error and ECE, in percent, of the epoch that each criterion chooses."""
    tests = {criterion: chosen_epoch(run.history, criterion)["test"] for criterion in CRITERIA}
    return {criterion: (100 * test["error"], 100 * test["ece"]) for criterion, test in tests.items()}
