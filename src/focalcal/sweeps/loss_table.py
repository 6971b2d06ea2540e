"""The table of a sweep: one line per loss, the best of each figure, and ties with it.

Each figure is in percent, before → after temperature scaling. A tie is a loss that is statistically indistinguishable
from the best one.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from focalcal.base.markdown import markdown_table
from focalcal.metrics import compare_many
from focalcal.metrics.catalogue import METRICS
from focalcal.predictions import Predictions
from focalcal.sweeps.result_rows import Row
from focalcal.sweeps.scoring import ScoredEpoch

TITLES = {
    **{name: METRICS[name].title for name in ("error", "ece", "ada_ece", "classwise_ece")},
    "nll": f"{METRICS['nll'].title} × 100",
    "bleu": "BLEU",
    "temperature": "T, by validation ECE",
}

# The figures of the table, by the library's names.
COMPARED = ("error", "ece", "ada_ece", "classwise_ece", "nll")
# (metric, scaling) -> the losses that do not differ significantly from the best, the best one included.
Ties = Mapping[tuple[str, str], frozenset[str]]


@dataclass(frozen=True)
class Figure:
    """One figure of one loss, over its seeds.

    Attributes:
        value: The mean over seeds.
        spread: The standard deviation over seeds; None for one seed.
        interval: Confidence interval of one seed's figure; None for several seeds.
    """

    value: float
    spread: float | None
    interval: tuple[float, float] | None

    @property
    def uncertainty(self) -> str:
        """``± 0.4`` over seeds, or ``[1.2, 3.4]``."""
        if self.spread is not None:
            return f"± {self.spread:.2f}"
        return "" if self.interval is None else f"[{self.interval[0]:.2f}, {self.interval[1]:.2f}]"


# (loss, metric, scaling) -> figure; the scaling of error is empty, and temperature is a metric.
Figures = Mapping[tuple[str, str, str], Figure]


def average_figures(rows: Sequence[Row]) -> Figures:
    """Average each figure over seeds."""
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.method, row.metric, row.temperature_scaling), []).append(row)
        if row.metric == "ece" and row.temperature is not None:
            grouped.setdefault((row.method, "temperature", ""), []).append(row)
    return {key: _figure(key[1], group) for key, group in grouped.items()}


def _figure(metric: str, group: Sequence[Row]) -> Figure:
    values = [row.temperature or 0.0 for row in group] if metric == "temperature" else [row.value for row in group]
    spread = statistics.stdev(values) if len(values) > 1 else None
    low, high = group[0].low, group[0].high
    shown = spread is None and metric != "temperature" and low is not None and high is not None
    return Figure(statistics.fmean(values), spread, (low, high) if shown else None)  # type: ignore[arg-type]


def best_losses(found: Figures, losses: Sequence[str]) -> dict[tuple[str, str], str]:
    """Find the loss with the lowest mean of each figure."""
    best = {}
    for metric in COMPARED:
        for scaling in ("",) if metric == "error" else ("pre", "post"):
            known = [loss for loss in losses if (loss, metric, scaling) in found]
            if known:
                best[metric, scaling] = min(known, key=lambda loss: found[loss, metric, scaling].value)
    return best


def find_ties(
    scored: Sequence[ScoredEpoch], best: Mapping[tuple[str, str], str], *, bootstrap: int, level: float
) -> Ties:
    """Find, for each figure, the best loss and those that are statistically indistinguishable from it.

    A loss differs from the best if the paired comparison of their test predictions, corrected for the number of
    losses, shows it for every seed that both were trained with.

    Args:
        scored: One per loss and seed; a loss may have fewer seeds than another.
        best: The best loss of each (metric, scaling).
        bootstrap: Number of resamples and of permutations.
        level: Level of the intervals and the tests.
    """
    everyone = {one.method for one in scored}
    found: dict[tuple[str, str], frozenset[str]] = {}
    for key, reference in best.items():
        by_seed = [models for models in _by_seed(scored, key[1]) if reference in models]
        worse = [_worse(key, reference, models, bootstrap, level) for models in by_seed]
        verdicts = {
            loss: [loss in losers for models, losers in zip(by_seed, worse, strict=True) if loss in models]
            for loss in everyone
        }
        found[key] = frozenset(loss for loss, seeds in verdicts.items() if not seeds or not all(seeds))
    return found


def _by_seed(scored: Iterable[ScoredEpoch], scaling: str) -> list[dict[str, Predictions]]:
    """Collect the test predictions of all losses, per seed."""
    models: dict[int, dict[str, Predictions]] = {}
    for one in scored:
        models.setdefault(one.seed, {})[one.method] = one.test[1 if scaling == "post" else 0]
    return list(models.values())


def _worse(
    key: tuple[str, str], reference: str, models: Mapping[str, Predictions], bootstrap: int, level: float
) -> set[str]:
    if len(models) < 2:
        return set()
    found = compare_many(
        models, reference=reference, metrics=[key[0]], bootstrap=bootstrap, permutations=bootstrap, level=level
    )
    return {one.names[0] for one in found if one[key[0]].is_significant and one[key[0]].difference > 0}


@dataclass(frozen=True)
class Cell:
    """One place of the table: parts with their marks."""

    parts: tuple[tuple[str, str], ...]  # text and mark: "best", "tie" or ""
    detail: str

    def markdown(self) -> str:
        """Write the best in bold, and ties with a ≈ before them."""
        shown = " → ".join(_mark(text, mark) for text, mark in self.parts)
        return f"{shown} {self.detail}".rstrip()


def _mark(text: str, mark: str) -> str:
    return f"**{text}**" if mark == "best" else f"≈{text}" if mark == "tie" else text


def table_line(found: Figures, loss: str, best: Mapping[tuple[str, str], str], tied: Ties) -> dict[str, Cell]:
    """Make the line of one loss."""
    line = {"error": figure_cell(found, loss, "error", ("",), best, tied)}
    for metric in COMPARED[1:]:
        line[metric] = figure_cell(found, loss, metric, ("pre", "post"), best, tied)
    temperature = found.get((loss, "temperature", ""))
    shown = "–" if temperature is None else f"{temperature.value:.2f}"
    line["temperature"] = Cell(((shown, ""),), "" if temperature is None else temperature.uncertainty)
    return line


def figure_cell(
    found: Figures,
    loss: str,
    metric: str,
    scalings: Sequence[str],
    best: Mapping[tuple[str, str], str] | None = None,
    tied: Ties | None = None,
) -> Cell:
    """Make the cell of one metric: a part per scaling, marked where it is the best or tied with it."""
    parts, details = [], []
    for scaling in scalings:
        figure = found.get((loss, metric, scaling))
        if figure is None:
            parts.append(("–", ""))
            continue
        key = (metric, scaling)
        mark = "best" if (best or {}).get(key) == loss else "tie" if loss in (tied or {}).get(key, ()) else ""
        parts.append((f"{figure.value:.2f}", mark))
        details.append(figure.uncertainty)
    return Cell(tuple(parts), " → ".join(detail for detail in details if detail))


def lines_as_markdown(lines: Mapping[str, Mapping[str, Cell]]) -> str:
    """Write the whole table in Markdown."""
    rows = [[loss, *(cell.markdown() for cell in line.values())] for loss, line in lines.items()]
    return markdown_table(["loss", *table_headings(lines)], rows)


def table_headings(lines: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """Return the headings of a table's columns, that of the losses left out."""
    return [TITLES[name] for line in lines.values() for name in line][: len(next(iter(lines.values()), ()))]
