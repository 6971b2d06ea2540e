"""Results of a sweep: the table, a verdict in sentences, every figure, and the files they are written to."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer, write_json
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics import signed_gap
from focalcal.sweeps.bleu_differences import LEVEL, BleuDifference, write_differences
from focalcal.sweeps.finished import FinishedRun, finished_run
from focalcal.sweeps.loss_table import (
    Cell,
    Figures,
    Ties,
    average_figures,
    best_losses,
    find_ties,
    lines_as_markdown,
    table_line,
)
from focalcal.sweeps.plan import Plan, PlannedRun
from focalcal.sweeps.result_rows import Row, title, write_rows
from focalcal.sweeps.scoring import ScoredEpoch, score
from focalcal.sweeps.translated_run import CurvePoint, write_curves
from focalcal.sweeps.translation_result import TranslationResult, is_translator, measure_translators
from focalcal.training.preconditions import changed_data, recorded_data

# The temperature of the table is the paper's: the one of a grid with the lowest validation ECE.
FILES: dict[Objective, str] = {"ece": "table.csv", "nll": "table_nll.csv"}
# BLEU and ECE by temperature, of translators.
CURVES = "curves.csv"
# Differences of BLEU by the paired bootstrap.
DIFFERENCES = "bleu_differences.csv"

_NEAR_ONE = 0.15
# A figure is called by these words; the error has no scaling.
_PHRASES = {
    ("error", ""): "error",
    ("ece", "pre"): "ECE before scaling",
    ("ece", "post"): "ECE after scaling",
    ("nll", "pre"): "NLL before scaling",
    ("nll", "post"): "NLL after scaling",
}


@dataclass(frozen=True)
class SweepResult:
    """Results of a sweep.

    Attributes:
        title: The data set and the network.
        losses: Those with at least one finished run, in the plan's order.
        lines: The table, one line per loss.
        caption: How to read the table.
        verdict: Sentences.
        rows: Every figure, by the objective of the temperature.
        failed: Runs that failed, each with its reason.
        first_runs: The run directory of the first finished seed, by loss.
        finished: Number of runs that are finished.
        planned: Number of runs that the sweep has.
        curves: BLEU and ECE by temperature, of translators.
        differences: Differences of translators' BLEU, by the paired bootstrap.
    """

    title: str
    losses: tuple[str, ...]
    lines: Mapping[str, Mapping[str, Cell]]
    caption: str
    verdict: tuple[str, ...]
    rows: Mapping[Objective, Sequence[Row]]
    failed: tuple[tuple[PlannedRun, str], ...] = ()
    first_runs: Mapping[str, Path] = field(default_factory=dict)
    finished: int = 0
    planned: int = 0
    curves: Sequence[CurvePoint] = ()
    differences: Sequence[BleuDifference] = ()

    def to_markdown(self) -> str:
        """Write title, table, caption and verdict."""
        words = "\n".join(f"- {sentence}" for sentence in self.verdict)
        return f"# {self.title}\n\n{lines_as_markdown(self.lines)}\n\n{self.caption}\n\n{words}\n"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON: no path of the machine."""
        shown = {loss: {name: cell.markdown() for name, cell in line.items()} for loss, line in self.lines.items()}
        rows = {objective: [vars(row) for row in found] for objective, found in self.rows.items()}
        failed = [{"loss": run.loss, "seed": run.seed, "reason": reason} for run, reason in self.failed]
        return {"title": self.title, "table": shown, "verdict": list(self.verdict), "rows": rows, "failed": failed} | (
            {"bleu_differences": [vars(one) for one in self.differences]} if self.differences else {}
        )


def measure_plan(
    plan: Plan, failed: Sequence[tuple[PlannedRun, str]] = (), *, bootstrap: int = 1000, level: float = 0.9
) -> SweepResult:
    """Measure every finished run of a plan, and compare them."""
    planned = list(plan.runs())
    runs = [run for run in planned if run.is_finished]
    if not runs:
        reasons = "; ".join(f"{run.name}: {reason}" for run, reason in failed)
        raise ValueError(f"No run of {plan.out} is finished{': ' + reasons.rstrip('.') if reasons else ''}.")
    _check_same_data(runs)
    if is_translator(runs[0]):
        result = translators_result(measure_translators(runs, plan.losses), runs[0].recipe.select)
    else:
        result = measure([finished_run(run) for run in runs], plan.losses, bootstrap=bootstrap, level=level)
    first = {run.loss: run.path for run in reversed(runs)}
    return replace(
        result,
        title=f"{result.title}: {plan.name}" if plan.name else result.title,
        failed=tuple(failed),
        first_runs={loss: first[loss] for loss in result.losses},
        finished=len(runs),
        planned=len(planned),
    )


def measure(
    runs: Sequence[FinishedRun],
    order: Sequence[str],
    *,
    bootstrap: int = 1000,
    level: float = 0.9,
) -> SweepResult:
    """Measure finished runs of one recipe, and compare them; the losses are shown in the given order."""
    scored = {objective: list(_score_all(runs, objective, bootstrap, level)) for objective in FILES}
    rows = {objective: [row for one in found for row in one.rows] for objective, found in scored.items()}
    shown = [one for one in scored["ece"] if one.selection == runs[0].shown]
    losses = tuple(loss for loss in order if any(one.method == loss for one in shown))
    found = average_figures([row for one in shown for row in one.rows if not row.is_out_of_distribution])
    best = best_losses(found, losses)
    tied = find_ties(shown, best, bootstrap=bootstrap or 1000, level=level) if len(losses) > 1 else {}
    return SweepResult(
        title=f"{title(runs[0].data)}, {title(runs[0].model)}",
        losses=losses,
        lines={loss: table_line(found, loss, best, tied) for loss in losses},
        caption=_caption(runs[0].select, Counter(one.method for one in shown), level if bootstrap else None),
        verdict=tuple(_words(found, losses, best, tied, shown)),
        rows=rows,
        finished=len(runs),
    )


def translators_result(found: TranslationResult, select: str) -> SweepResult:
    """Lay out the results of translators as those of any sweep.

    Args:
        found: What was measured.
        select: The recipe's rule for the selected epoch.
    """
    rows = found.rows["ece"]
    seeds = Counter(loss for loss, _ in dict.fromkeys((row.method, row.seed) for row in rows))
    return SweepResult(
        title=f"{rows[0].dataset}, {rows[0].model}",
        losses=found.losses,
        lines=found.lines,
        caption=f"{_caption(select, seeds, LEVEL, marks='')} Error, ECE and NLL are of tokens, "
        "with sentences as clusters; BLEU is cased sacreBLEU with a beam of 5, its interval by a bootstrap over "
        "sentences.",
        verdict=found.verdict,
        rows=found.rows,
        finished=sum(seeds.values()),
        curves=found.curves,
        differences=found.differences,
    )


def _score_all(
    runs: Sequence[FinishedRun], objective: Objective, bootstrap: int, level: float
) -> Iterator[ScoredEpoch]:
    for run in runs:
        for selection in run.selections:
            yield score(run, selection, objective, bootstrap=bootstrap, level=level)


def _check_same_data(runs: Sequence[PlannedRun]) -> None:
    """Refuse to average over runs that were made from different data: they are judged by different samples."""
    recorded = [(run, data) for run in runs if (data := recorded_data(run.files)) is not None]
    for run, data in recorded[1:]:
        first, expected = recorded[0]
        changed = changed_data(expected, data)
        if changed:
            raise ValueError(
                f"{first.path} and {run.path} were trained with different {changed} of the data, so they cannot be "
                "compared: remove one of them, or use a new folder."
            )


def _words(
    found: Figures, losses: Sequence[str], best: Mapping[tuple[str, str], str], tied: Ties, shown: Sequence[ScoredEpoch]
) -> list[str]:
    gaps: dict[str, list[float]] = {}
    for one in shown:
        gaps.setdefault(one.method, []).append(signed_gap(one.test[0]))
    means = {loss: sum(values) / len(values) for loss, values in gaps.items()}
    return sweep_verdict(found, losses, best, tied, means)


def _caption(
    select: str,
    seeds: Mapping[str, int],
    level: float | None,
    marks: str = " Bold (or *…*): best. ≈: statistically indistinguishable from the best.",
) -> str:
    epoch = "the last epoch" if select == "last" else f"the epoch with the best validation {select}"
    counts = [f"{count} for {loss}" for loss, count in seeds.items() if count > 1]
    parts = []
    if counts and len(set(seeds.values())) == 1:
        parts.append(f"mean ± standard deviation of {max(seeds.values())} seeds")
    elif counts:
        parts.append(f"mean ± standard deviation over seeds ({', '.join(counts)})")
    if level is not None and 1 in seeds.values():
        parts.append(f"{100 * level:g}% confidence intervals{' of the losses with one seed' if counts else ''}")
    spread = f"; {' and '.join(parts)}" if parts else ""
    return (
        f"Test set, {epoch}; percent; before → after temperature scaling (T by validation ECE, as in the "
        f"paper){spread}.{marks}"
    )


def write_result(result: SweepResult, folder: Path) -> None:
    """Write csv, JSON and Markdown into the folder of a sweep."""
    for objective, name in FILES.items():
        write_rows(folder / name, result.rows[objective])
    if result.curves:
        write_curves(folder / CURVES, result.curves)
        write_differences(folder / DIFFERENCES, result.differences)
    write_json(folder / "table.json", result.to_dict())
    with atomic_writer(folder / "table.md") as file:
        file.write(result.to_markdown().encode())


def sweep_verdict(
    found: Figures, losses: Sequence[str], best: Mapping[tuple[str, str], str], tied: Ties, gaps: Mapping[str, float]
) -> list[str]:
    """Write sentences, the most important first.

    Args:
        found: The figures.
        losses: In the table's order.
        best: The best loss of each figure.
        tied: Those that are statistically indistinguishable from it.
        gaps: Mean confidence − accuracy on the test set before scaling, for each loss, as a fraction.
    """
    if len(losses) == 1:
        return _confidence(found, losses, gaps)
    return [
        *_confidence(found, losses, gaps),
        *(_winner(key, phrase, found, best, tied) for key, phrase in _PHRASES.items() if key in best),
    ]


def _confidence(found: Figures, losses: Sequence[str], gaps: Mapping[str, float]) -> list[str]:
    """Say which networks are over- or under-confident."""
    groups: dict[str, list[str]] = {"over-confident": [], "under-confident": []}
    for loss in losses:
        if loss in gaps and abs(gaps[loss]) >= 0.005:
            points = f"{loss} by {100 * abs(gaps[loss]):.1f} points{_temperature(found, loss)}"
            groups["over-confident" if gaps[loss] > 0 else "under-confident"].append(points)
    sentences = [f"{title.capitalize()}: {', '.join(names)}." for title, names in groups.items() if names]
    if any("(T = " in sentence for sentence in sentences):
        sentences[-1] = f"{sentences[-1][:-1]}; T by validation ECE."
    near = [loss for loss in losses if _is_near_one(found, loss)]
    if near:
        sentences.append(
            f"The best temperature, by validation ECE, is near 1 for {_join(near)}: scaling has little to repair."
        )
    return sentences


def _temperature(found: Figures, loss: str) -> str:
    figure = found.get((loss, "temperature", ""))
    return "" if figure is None else f" (T = {figure.value:.2g})"


def _is_near_one(found: Figures, loss: str) -> bool:
    figure = found.get((loss, "temperature", ""))
    return figure is not None and abs(figure.value - 1) <= _NEAR_ONE


def _winner(key: tuple[str, str], phrase: str, found: Figures, best: Mapping[tuple[str, str], str], tied: Ties) -> str:
    leader = best[key]
    value = f"{leader} has the lowest {phrase} ({found[leader, *key].value:.2f})"
    others = sorted(tied.get(key, frozenset()) - {leader})
    verb = "is" if len(others) == 1 else "are"
    if not others:
        return f"{value}, significantly lower than every other loss."
    return f"{value}; {_join(others)} {verb} statistically indistinguishable from it."


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
