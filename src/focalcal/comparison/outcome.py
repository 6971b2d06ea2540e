"""From finished runs to the comparison's table, words and files."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer
from focalcal.calibrators.temperature import Objective
from focalcal.comparison.finished import FinishedRun, finished_run
from focalcal.comparison.plan import Plan, PlannedRun
from focalcal.comparison.rows import Row, title, write_rows
from focalcal.comparison.scoring import Scored, score
from focalcal.comparison.table import Cell, Figures, best_losses, cells, figures, markdown
from focalcal.comparison.ties import Ties, ties
from focalcal.comparison.verdict import verdict
from focalcal.metrics import signed_gap
from focalcal.training.run_directory import other_data, recorded_data

# The temperature of the table is the paper's: the one of a grid with the lowest validation ECE.
FILES: dict[Objective, str] = {"ece": "table.csv", "nll": "table_nll.csv"}


@dataclass(frozen=True)
class Outcome:
    """What a comparison found.

    Attributes:
        title: the data set and the network.
        losses: those with at least one finished run, in the plan's order.
        lines: the table, a line a loss.
        caption: how to read the table.
        verdict: sentences.
        rows: every figure, by the objective of the temperature.
        failed: runs that failed, each with its reason.
    """

    title: str
    losses: tuple[str, ...]
    lines: Mapping[str, Mapping[str, Cell]]
    caption: str
    verdict: tuple[str, ...]
    rows: Mapping[Objective, Sequence[Row]]
    failed: tuple[tuple[PlannedRun, str], ...]

    def markdown(self) -> str:
        """Title, table, caption and verdict."""
        words = "\n".join(f"- {sentence}" for sentence in self.verdict)
        return f"# {self.title}\n\n{markdown(self.lines, self.caption)}\n{words}\n"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        shown = {loss: {name: cell.markdown() for name, cell in line.items()} for loss, line in self.lines.items()}
        rows = {objective: [vars(row) for row in found] for objective, found in self.rows.items()}
        failed = [{"loss": run.loss, "seed": run.seed, "reason": reason} for run, reason in self.failed]
        return {"title": self.title, "table": shown, "verdict": list(self.verdict), "rows": rows, "failed": failed}


def outcome(
    plan: Plan, failed: Sequence[tuple[PlannedRun, str]] = (), *, bootstrap: int = 1000, level: float = 0.9
) -> Outcome:
    """Measure every finished run of a plan, and compare them."""
    runs = [run for run in plan.runs() if run.is_finished]
    if not runs:
        reasons = "; ".join(f"{run.loss}, seed {run.seed}: {reason}" for run, reason in failed)
        raise ValueError(f"No run of {plan.out} is finished{': ' + reasons.rstrip('.') if reasons else ''}.")
    _check_same_data(runs)
    return measure([finished_run(run) for run in runs], plan.losses, failed, bootstrap=bootstrap, level=level)


def measure(
    runs: Sequence[FinishedRun],
    order: Sequence[str],
    failed: Sequence[tuple[PlannedRun, str]] = (),
    *,
    bootstrap: int = 1000,
    level: float = 0.9,
) -> Outcome:
    """Measure finished runs of one recipe, and compare them; the losses are shown in the given order."""
    scored = {objective: list(_scored(runs, objective, bootstrap, level)) for objective in FILES}
    rows = {objective: [row for one in found for row in one.rows] for objective, found in scored.items()}
    shown = [one for one in scored["ece"] if one.selection == runs[0].shown]
    losses = tuple(loss for loss in order if any(one.method == loss for one in shown))
    found = figures([row for one in shown for row in one.rows if not row.is_out_of_distribution])
    best = best_losses(found, losses)
    tied = ties(shown, best, samples=bootstrap or 1000, level=level) if len(losses) > 1 else {}
    return Outcome(
        title=f"{title(runs[0].data)}, {title(runs[0].model)}",
        losses=losses,
        lines={loss: cells(found, loss, best, tied) for loss in losses},
        caption=_caption(runs[0], Counter(one.method for one in shown), level if bootstrap else None),
        verdict=tuple(_words(found, losses, best, tied, shown)),
        rows=rows,
        failed=tuple(failed),
    )


def _scored(runs: Sequence[FinishedRun], objective: Objective, bootstrap: int, level: float) -> Iterator[Scored]:
    for run in runs:
        for selection in run.selections:
            yield score(run, selection, objective, bootstrap=bootstrap, level=level)


def _check_same_data(runs: Sequence[PlannedRun]) -> None:
    """Refuse to average over runs that were made from different data: they are judged by different samples."""
    recorded = [(run, data) for run in runs if (data := recorded_data(run.path)) is not None]
    for run, data in recorded[1:]:
        first, expected = recorded[0]
        changed = other_data(expected, data)
        if changed:
            raise ValueError(
                f"{first.path} and {run.path} were trained with different {changed} of the data, so they cannot be "
                "compared: take one of them away, or begin a new folder."
            )


def _words(
    found: Figures, losses: Sequence[str], best: Mapping[tuple[str, str], str], tied: Ties, shown: Sequence[Scored]
) -> list[str]:
    gaps: dict[str, list[float]] = {}
    for one in shown:
        gaps.setdefault(one.method, []).append(signed_gap(one.test[0]))
    means = {loss: sum(values) / len(values) for loss, values in gaps.items()}
    return verdict(found, losses, best, tied, means)


def _caption(run: FinishedRun, seeds: Mapping[str, int], level: float | None) -> str:
    epoch = "the last epoch" if run.select == "last" else f"the epoch with the best validation {run.select}"
    counts = [f"{count} for {loss}" for loss, count in seeds.items() if count > 1]
    parts = []
    if counts and len(set(seeds.values())) == 1:
        parts.append(f"mean ± standard deviation of {max(seeds.values())} seeds")
    elif counts:
        parts.append(f"mean ± standard deviation over seeds ({', '.join(counts)})")
    if level is not None and 1 in seeds.values():
        parts.append(f"{100 * level:g}% bootstrap intervals{' of the losses with one seed' if counts else ''}")
    spread = f"; {' and '.join(parts)}" if parts else ""
    return (
        f"Test set, {epoch}; percent; before → after temperature scaling (T by validation ECE, as in the "
        f"paper){spread}. Bold (or *…*): best. ≈: no difference to the best is shown."
    )


def write_outcome(found: Outcome, folder: Path) -> None:
    """Write csv, json and Markdown into the folder of a comparison."""
    for objective, name in FILES.items():
        write_rows(folder / name, found.rows[objective])
    for name, text in (("table.md", found.markdown()), ("table.json", json.dumps(found.to_dict(), indent=2))):
        with atomic_writer(folder / name) as file:
            file.write(text.encode())
