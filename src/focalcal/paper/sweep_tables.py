"""One sweep beside the paper: one table per metric, for the best epoch and for the last."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from focalcal.base.markdown import markdown_table
from focalcal.metrics.catalogue import METRICS
from focalcal.paper.published import PublishedFigures, published_figures
from focalcal.sweeps.result_rows import Row, Selection

# The metrics of the paper's tables, in its order.
TITLES = {
    **{name: METRICS[name].capitalized for name in ("error", "ece", "ada_ece", "classwise_ece", "mce")},
    "nll": f"{METRICS['nll'].title} × 100",
}
LEGEND = (
    "Percent, on the test set, before → after temperature scaling (T by validation ECE). Ours: mean over seeds ± their "
    "standard deviation [the mean of their 90% intervals], for the epoch with the best validation error and for the "
    "last. Chance makes ECE too large, which the intervals allow for: a small one may lie above its interval."
)
_SELECTIONS: dict[Selection, str] = {"best": "ours, best epoch", "last": "ours, last epoch"}


@dataclass(frozen=True)
class Line:
    """One loss in one table: the paper's figure, and ours by the epoch's choice."""

    method: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PaperTable:
    """One metric."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    def markdown(self) -> str:
        """Write a section with a table."""
        rows = [(line.method, *line.cells) for line in self.lines]
        return f"## {self.title}\n\n{markdown_table(('loss', *self.columns), rows)}\n"


def paper_tables(rows: Sequence[Row]) -> list[PaperTable]:
    """Make a table for each metric that the rows have, of one data set and network."""
    rows = [row for row in rows if not row.is_out_of_distribution]
    places = {(row.dataset, row.model) for row in rows if row.metric == "error"}
    if not places:
        raise ValueError("The table holds no error of any loss; give the table.csv of a sweep.")
    if len(places) != 1:
        raise ValueError(f"The figures must be of one data set and one network, not of {len(places)}.")
    printed = published_figures(*places.pop())
    selections = [selection for selection in _SELECTIONS if any(row.selection == selection for row in rows)]
    columns = ("paper", *(_SELECTIONS[selection] for selection in selections))
    methods = list(dict.fromkeys(row.method for row in rows))
    tables = []
    for metric, title in TITLES.items():
        chosen = [row for row in rows if row.metric == metric]
        if chosen:
            lines = tuple(Line(method, tuple(_cells(printed, chosen, method, selections))) for method in methods)
            tables.append(PaperTable(title, columns, lines))
    return tables


def _cells(
    printed: PublishedFigures, rows: Sequence[Row], method: str, selections: Sequence[Selection]
) -> Iterator[str]:
    metric = rows[0].metric
    scalings = ("",) if metric == "error" else ("pre", "post")
    yield _show_printed(printed, method, metric, scalings)
    for selection in selections:
        own = [row for row in rows if row.method == method and row.selection == selection]
        parts = [_own([row for row in own if row.temperature_scaling == scaling]) for scaling in scalings]
        yield " → ".join(parts) + _temperature([row.temperature for row in own if row.temperature is not None])


def _show_printed(printed: PublishedFigures, method: str, metric: str, scalings: Sequence[str]) -> str:
    figures = [printed.get((method, metric, scaling)) for scaling in scalings]
    shown = " → ".join("–" if figure is None else f"{figure.value:.2f}" for figure in figures)
    # NLL and MCE are printed without T, which is that of ECE.
    scaled = printed.get((method, "ece", "post"))
    has_temperature = metric != "error" and figures[-1] is not None and scaled is not None and scaled.temperature
    return f"{shown} ({scaled.temperature:g})" if has_temperature and scaled is not None else shown


def _own(rows: Sequence[Row]) -> str:
    """Write ``6.90 ± 0.31 [5.9, 7.8]``: the mean over seeds, their standard deviation, the mean of their intervals."""
    if not rows:
        return "–"
    values = [row.value for row in rows]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    bounds = [(row.low, row.high) for row in rows if row.low is not None and row.high is not None]
    if not bounds:
        return f"{statistics.fmean(values):.2f}{spread}"
    low, high = (statistics.fmean(side) for side in zip(*bounds, strict=True))
    return f"{statistics.fmean(values):.2f}{spread} [{low:.1f}, {high:.1f}]"


def _temperature(temperatures: Sequence[float]) -> str:
    return f" ({statistics.fmean(temperatures):.2g})" if temperatures else ""
