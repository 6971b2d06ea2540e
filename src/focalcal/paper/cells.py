"""Cells of the paper's tables: the published figure, ours with its interval or spread, and whether they agree."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from focalcal.paper.published import Published
from focalcal.sweeps.result_rows import Row

LEGEND = (
    "Each cell: published · ours, with T in brackets after temperature scaling. Ours: the mean over seeds ± their "
    "standard deviation, or one seed with its 90% interval. ✓ the published value lies inside, ✗ outside: inside the "
    "90% prediction interval of one more run where there are several seeds; inside that interval (widened to our own "
    "value) where there is one, which knows nothing of the spread over seeds. "
    "† published only: no run of ours."
)
_LEVEL = 0.90

PUBLISHED_ONLY = "–"


@dataclass(frozen=True)
class Measured:
    """Our figure, over the seeds of one result.

    Attributes:
        value: The mean over seeds.
        seeds: Number of seeds.
        spread: Their standard deviation; None for one seed.
        interval: The interval of one seed; None for several, and where there is none.
        temperature: The mean T, after scaling.
    """

    value: float
    seeds: int = 1
    spread: float | None = None
    interval: tuple[float, float] | None = None
    temperature: float | None = None

    def expected_range(self) -> tuple[float, float] | None:
        """Return where the figure of one more run would lie, at 90%; None where that is unknown.

        Examples:
            >>> low, high = Measured(10.0, seeds=3, spread=1.0).expected_range()
            >>> round(low, 2), round(high, 2)
            (6.63, 13.37)
            >>> Measured(1.3, interval=(0.4, 1.2)).expected_range()
            (0.4, 1.3)
        """
        if self.spread is not None:
            from scipy.stats import t  # importing it takes a while

            reach = float(t.ppf((1 + _LEVEL) / 2, self.seeds - 1)) * self.spread * math.sqrt(1 + 1 / self.seeds)
            return self.value - reach, self.value + reach
        if self.interval is None:
            return None
        return min(self.interval[0], self.value), max(self.interval[1], self.value)

    def text(self, digits: int = 2) -> str:
        """Write ``17.55 ± 0.30``, or ``13.70 [13.01, 14.42]``, with T in brackets."""
        shown = f"{self.value:.{digits}f}"
        if self.spread is not None:
            shown += f" ± {self.spread:.{digits}f}"
        elif self.interval is not None:
            shown += f" [{self.interval[0]:.{digits}f}, {self.interval[1]:.{digits}f}]"
        return shown if self.temperature is None else f"{shown} ({self.temperature:.2g})"


def join_seeds(
    values: Sequence[float], interval: tuple[float, float] | None = None, temperature: float | None = None
) -> Measured | None:
    """Join the values of the seeds; None where there are none. The interval counts for one seed only.

    Examples:
        >>> join_seeds([1.0, 3.0])
        Measured(value=2.0, seeds=2, spread=1.4142135623730951, interval=None, temperature=None)
    """
    if not values:
        return None
    if len(values) == 1:
        return Measured(values[0], 1, None, interval, temperature)
    return Measured(statistics.fmean(values), len(values), statistics.stdev(values), None, temperature)


def join_rows(rows: Sequence[Row]) -> Measured | None:
    """Join the rows of one figure, one per seed; None where there are none."""
    temperatures = [row.temperature for row in rows if row.temperature is not None]
    bounds = [(row.low, row.high) for row in rows if row.low is not None and row.high is not None]
    temperature = statistics.fmean(temperatures) if temperatures else None
    return join_seeds([row.value for row in rows], bounds[0] if bounds else None, temperature)


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes:
        published: What the paper prints; None where it prints nothing.
        ours: What was measured; None where there is no run.
        digits: Decimals.
        notes: Marks of footnotes.
    """

    published: Published | None
    ours: Measured | None = None
    digits: int = 2
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool | None:
        """True if the published value lies inside our range; None where either is missing."""
        expected = None if self.ours is None else self.ours.expected_range()
        if self.published is None or expected is None:
            return None
        return expected[0] <= self.published.value <= expected[1]

    def text(self) -> str:
        """Write the whole cell.

        Examples:
            >>> Cell(Published(17.92, None), Measured(17.55, 3, 0.3)).text()
            '17.92 · 17.55 ± 0.30 ✓'
            >>> Cell(Published(3.42, 2.1)).text()
            '3.42 (2.1)†'
        """
        if self.ours is None:
            return "–" if self.published is None else f"{self.published_text()}†"
        mark = {True: " ✓", False: " ✗", None: ""}[self.agrees]
        return f"{self.published_text()} · {self.ours.text(self.digits)}{mark}"

    def published_text(self) -> str:
        """Write the published figure alone, with T in brackets and the marks of its footnotes."""
        if self.published is None:
            return "–"
        shown = f"{self.published.value:.{self.digits}f}"
        if self.published.temperature is not None:
            shown += f" ({self.published.temperature:g})"
        # One pair of brackets: two would be a link to Markdown.
        return f"{shown}[{', '.join(self.notes)}]" if self.notes else shown

    def record(self) -> dict[str, Any]:
        """Return the cell for csv and JSON."""
        published, ours = self.published, self.ours
        low, high = (None, None) if ours is None or ours.interval is None else ours.interval
        return {
            "published": None if published is None else published.value,
            "published_temperature": None if published is None else published.temperature,
            "value": None if ours is None else ours.value,
            "seeds": None if ours is None else ours.seeds,
            "spread": None if ours is None else ours.spread,
            "low": low,
            "high": high,
            "temperature": None if ours is None else ours.temperature,
            "published_inside": self.agrees,
            "footnotes": " ".join(self.notes),
        }


@dataclass(frozen=True)
class TableLine:
    """One row: its headings, and a cell per column."""

    heads: tuple[str, ...]
    cells: tuple[Cell, ...]
