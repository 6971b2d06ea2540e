"""The table of a comparison: a line a loss, each figure before → after temperature scaling, in percent."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from focalcal.comparison.rows import Row
from focalcal.comparison.ties import COMPARED, Ties

TITLES = {
    "error": "error",
    "ece": "ECE",
    "ada_ece": "AdaECE",
    "classwise_ece": "classwise-ECE",
    "nll": "NLL × 100",
    "temperature": "T",
}


@dataclass(frozen=True)
class Figure:
    """One figure of one loss, over its seeds.

    Attributes:
        value: the mean over seeds.
        spread: the standard deviation over seeds; None for one seed.
        interval: of one seed's figure, by the bootstrap; None for several seeds.
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


def figures(rows: Sequence[Row]) -> Figures:
    """The mean of each figure over seeds."""
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
    """The loss with the lowest mean of each figure."""
    best = {}
    for metric in COMPARED:
        for scaling in ("",) if metric == "error" else ("pre", "post"):
            known = [loss for loss in losses if (loss, metric, scaling) in found]
            if known:
                best[metric, scaling] = min(known, key=lambda loss: found[loss, metric, scaling].value)
    return best


@dataclass(frozen=True)
class Cell:
    """What stands in one place of the table: parts with their marks."""

    parts: tuple[tuple[str, str], ...]  # text and mark: "best", "tie" or ""
    detail: str

    def markdown(self) -> str:
        """Best in bold, ties with a ≈ before them."""
        shown = " → ".join(_marked(text, mark) for text, mark in self.parts)
        return f"{shown} {self.detail}".rstrip()


def _marked(text: str, mark: str) -> str:
    return f"**{text}**" if mark == "best" else f"≈{text}" if mark == "tie" else text


def cells(found: Figures, loss: str, best: Mapping[tuple[str, str], str], tied: Ties) -> dict[str, Cell]:
    """The line of one loss."""
    line = {"error": _cell(found, loss, "error", ("",), best, tied)}
    for metric in COMPARED[1:]:
        line[metric] = _cell(found, loss, metric, ("pre", "post"), best, tied)
    temperature = found.get((loss, "temperature", ""))
    shown = "–" if temperature is None else f"{temperature.value:.2f}"
    line["temperature"] = Cell(((shown, ""),), "" if temperature is None else temperature.uncertainty)
    return line


def _cell(
    found: Figures,
    loss: str,
    metric: str,
    scalings: Sequence[str],
    best: Mapping[tuple[str, str], str],
    tied: Ties,
) -> Cell:
    parts, details = [], []
    for scaling in scalings:
        figure = found.get((loss, metric, scaling))
        if figure is None:
            parts.append(("–", ""))
            continue
        key = (metric, scaling)
        mark = "best" if best.get(key) == loss else "tie" if loss in tied.get(key, ()) else ""
        parts.append((f"{figure.value:.2f}", mark))
        details.append(figure.uncertainty)
    return Cell(tuple(parts), " → ".join(detail for detail in details if detail))


def markdown(lines: Mapping[str, Mapping[str, Cell]], caption: str) -> str:
    """The whole table in Markdown."""
    head = ["loss", *TITLES.values()]
    rows = [[loss, *(cell.markdown() for cell in line.values())] for loss, line in lines.items()]
    written = ["| " + " | ".join(row) + " |" for row in (head, [":--", *["--:"] * len(TITLES)], *rows)]
    return "\n".join([*written, "", caption, ""])
