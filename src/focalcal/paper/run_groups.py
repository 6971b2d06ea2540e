"""Runs that belong into one figure: of the same data and network, one per loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from focalcal.paper.result_folders import KeptRun, ResultSet
from focalcal.sweeps.result_rows import Row
from focalcal.sweeps.translated_run import CurvePoint

# Says what is missing in a run, in a sentence that names the field of the recipe; None where nothing is.
Need = Callable[[KeptRun], str | None]


@dataclass(frozen=True)
class RunGroup:
    """Runs of one data set and network, the first seed of each loss.

    Attributes:
        name: Name of the folder.
        title: The data set and the network.
        runs: By loss.
        rows: The figures of the folder.
        curves: BLEU and ECE by temperature, of translators.
    """

    name: str
    title: str
    runs: Mapping[str, KeptRun]
    rows: tuple[Row, ...]
    curves: tuple[CurvePoint, ...] = ()

    def seeds_text(self, losses: Sequence[str]) -> str:
        """Return the seeds of some losses: ``seed 0``, or ``seeds 0 and 1``."""
        seeds = sorted({self.runs[loss].seed for loss in losses if loss in self.runs})
        return f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(map(str, seeds))}"


def group_runs(results: Sequence[ResultSet]) -> list[RunGroup]:
    """Make one group per folder, of those that hold runs; where titles are the same, they have the folder's name."""
    groups = [_group([result], result.runs) for result in results if result.runs]
    titles = [group.title for group in groups]
    return [
        replace(group, title=f"{group.title} ({group.name})") if titles.count(group.title) > 1 else group
        for group in groups
    ]


def join_runs(results: Sequence[ResultSet]) -> list[RunGroup]:
    """Make one group of all folders, which must be of the same data and network."""
    runs = [run for result in results for run in result.runs]
    if not runs:
        names = ", ".join(str(result.folder) for result in results)
        raise ValueError(f"{names} holds no runs: neither histories nor run directories.")
    other = next((run for run in runs if (run.dataset, run.model) != (runs[0].dataset, runs[0].model)), None)
    if other is not None:
        raise ValueError(
            f"The runs are of different data or networks: {runs[0].dataset} with {runs[0].model} and {other.dataset} "
            f"with {other.model}; give runs of one recipe."
        )
    return [_group(results, runs)]


def _group(results: Sequence[ResultSet], runs: Sequence[KeptRun]) -> RunGroup:
    first: dict[str, KeptRun] = {}
    for run in sorted(runs, key=lambda one: one.seed):
        first.setdefault(run.loss, run)
    ordered = {run.loss: first[run.loss] for run in runs}
    rows = tuple(row for result in results for row in result.rows)
    curves = tuple(point for result in results for point in result.curves)
    return RunGroup(results[0].name, f"{runs[0].dataset}, {runs[0].model}", ordered, rows, curves)


def choose_runs(
    groups: Sequence[RunGroup], losses: Sequence[str] | None, need: Need, required: Sequence[str] = ()
) -> tuple[RunGroup, list[KeptRun]]:
    """Choose the group with the most of the wanted losses that have what is needed.

    Args:
        groups: To choose from; the first of equals is chosen.
        losses: The wanted losses, in order; None for all.
        need: What a run must have.
        required: Losses without which a group does not count.

    Raises:
        ValueError: No group has it; the sentence says what is missing.
    """
    found: list[tuple[RunGroup, list[KeptRun]]] = []
    problems: list[str] = []
    for group in groups:
        wanted = [group.runs[loss] for loss in losses or group.runs if loss in group.runs]
        problems += [problem for run in wanted if (problem := need(run)) is not None]
        complete = [run for run in wanted if need(run) is None]
        missing = [loss for loss in required if loss not in {run.loss for run in complete}]
        if complete and not missing:
            found.append((group, complete))
        elif missing and not problems:
            problems.append(f"{group.name} has no run with the loss {missing[0]}.")
    if not found:
        raise ValueError(problems[0] if problems else "There is no run of a loss that the figure shows.")
    return max(found, key=lambda one: len(one[1]))


def need_test(run: KeptRun) -> str | None:
    """Need the test set to have been measured during training."""
    if not run.history:
        return _without_history(run)
    if all(epoch.get("test") for epoch in run.history):
        return None
    return _not_recorded(run, "its test set was not measured after every epoch", "record.test_every=1")


def need_norms(run: KeptRun) -> str | None:
    """Need histograms of gradient norms."""
    if run.gradient_norms:
        return None
    return _not_recorded(run, "gradient norms were not recorded", "record.gradient_norms_at=[10, 100, 200]")


def need_snapshots(run: KeptRun) -> str | None:
    """Need predictions for the training set at some epochs."""
    if run.snapshots:
        return None
    return _not_recorded(run, "the training set was not recorded", "record.snapshots_at=[100, 200, 300, 350]")


def need_features(run: KeptRun) -> str | None:
    """Need norms of the features."""
    if not run.history:
        return _without_history(run)
    if any(epoch["train"].get("feature_norm") for epoch in run.history):
        return None
    if any("feature_norm" in epoch["train"] for epoch in run.history):
        return f"The run {run.name} has no norms of features: its network has no last linear layer called classifier."
    return f"The run {run.name} of {run.dataset} was trained before norms of features were recorded; train it again."


def need_predictions(*splits: str) -> Need:
    """Need kept predictions for some splits."""

    def need(run: KeptRun) -> str | None:
        kept = run.finished
        missing = [one for one in splits if kept is None or not kept.file(one, kept.shown).is_file()]
        if not missing:
            return None
        if missing[0] in ("val", "test"):
            return f"The run {run.name} has no predictions for {missing[0]}: they were not kept with the results."
        return _not_recorded(run, f"there are no predictions for {missing[0]}", f"data.ood=[{missing[0]}]")

    return need


def _without_history(run: KeptRun) -> str:
    return f"The run {run.name} of {run.dataset} has no history: there is no {run.history_file}, or it is empty."


def _not_recorded(run: KeptRun, what: str, field: str) -> str:
    return f"The run {run.name} of {run.dataset} cannot be drawn: {what}; train it with {field}."
