"""Panels of figures: data first, drawing second; colours that the colour-blind can tell and greyscale keeps apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from focalcal.paper.table_names import METHOD_TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["line", "step", "bar", "column", "points"]

# The palette of Okabe and Ito, from dark to light; line styles and markers tell apart what greyscale does not.
_LOOKS: tuple[tuple[str, Any, str], ...] = (
    ("#000000", "-", "o"),
    ("#D55E00", "--", "s"),
    ("#0072B2", "-.", "^"),
    ("#009E73", ":", "D"),
    ("#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#E69F00", (0, (1, 1)), "P"),
    ("#56B4E9", (0, (8, 2)), "X"),
    ("#7F7F7F", (0, (3, 1, 1, 1)), "*"),
    # Three dark ones of Paul Tol's for a figure with all losses.
    ("#882255", (0, (6, 1)), "<"),
    ("#332288", (0, (2, 2)), ">"),
    ("#999933", (0, (6, 2, 1, 2)), "p"),
)
# The same loss looks the same in every figure, and so does its γ; in the order of the looks.
_SHARED = (
    ("cross-entropy", "γ = 0"),
    ("fl-3", "γ = 3"),
    ("flsd-53", "γ = 5"),
    ("fl-1", "γ = 1"),
    ("fl-2", "γ = 2"),
    ("brier", "γ = 7"),
    ("ls-0.05", "ls-0.1", "γ = 10"),
    ("mmce",),
    ("flsc-531",),
    ("flsc-532",),
    ("flsd-532",),
)
_OF_NAME = {name: look for look, names in enumerate(_SHARED) for name in names}


@dataclass(frozen=True)
class Series:
    """One curve, histogram or row of bars.

    Attributes:
        name: In the legend; a loss is shown by its title. What stands behind a colon does not change its look.
        x, y: The points; for bars the numbers of the places.
        low, high: Ends of intervals of y; empty where there are none.
        kind: How it is drawn.
        look: Number of its colour and line; by default that of the loss, or one of its own in the panel.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    kind: Kind = "line"
    look: int | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Above it.
        x, y: Labels of the axes.
        series: What it shows.
        ticks: Labels of places on the horizontal axis, for bars.
        marks: Places of thin vertical lines.
        log_x: Whether the horizontal axis is logarithmic.
        limits: Limits of the horizontal and vertical axes; None where they follow the data.
        diagonal: Whether to draw y = x.
        legend: Whether to explain the series.
        legend_place: Where, as matplotlib calls it.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    ticks: Sequence[str] = ()
    marks: Sequence[float] = ()
    log_x: bool = False
    limits: tuple[tuple[float, float] | None, tuple[float, float] | None] = (None, None)
    diagonal: bool = False
    legend: bool = True
    legend_place: Literal["best", "lower right"] = "best"
    levels: Sequence[float] = field(default=())


def draw_panel(panel: Panel, ax: Axes) -> Axes:
    """Draw a panel on axes, which are returned."""
    for place, (series, look) in enumerate(zip(panel.series, _choose_looks(panel.series), strict=True)):
        _draw_series(series, place, len(panel.series), look, ax)
    if panel.diagonal:
        ax.plot([0, 1], [0, 1], color="0.4", linewidth=0.8, linestyle="--", label="perfect calibration")
    for mark in panel.marks:
        ax.axvline(mark, color="0.6", linewidth=0.6)
    for level in panel.levels:
        ax.axhline(level, color="0.4", linewidth=0.8, linestyle="--")
    if panel.log_x:
        ax.set_xscale("log")
    if panel.ticks:
        ax.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=35, ha="right")
    ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.limits[0]:
        ax.set_xlim(panel.limits[0])
    if panel.limits[1]:
        ax.set_ylim(panel.limits[1])
    if panel.legend and (len(panel.series) > 1 or panel.diagonal):
        ax.legend(fontsize="small", framealpha=0.8, loc=panel.legend_place)
    return ax


def make_room_for_legend(panel: Panel, ax: Axes) -> None:
    """Raise the upper end of the vertical axis where the legend of a drawn panel covers what is drawn."""
    legend = ax.get_legend()
    if legend is None or panel.limits[1] or panel.legend_place != "best":
        return
    box = legend.get_window_extent()
    # Lines without a label of their own are marks, which go through the whole panel.
    artists: list[Any] = [*(line for line in ax.get_lines() if str(line.get_label())[:1] != "_"), *ax.patches]
    drawn = [artist.get_path().transformed(artist.get_transform()) for artist in artists]
    if any(path.intersects_bbox(box, filled=True) for path in drawn):
        whole = ax.get_window_extent()
        columns = max(1, min(3, int(whole.width / box.width)))
        rows = -(-len(legend.get_texts()) // columns)
        share = box.height / whole.height * rows / len(legend.get_texts()) + 0.08
        low, high = ax.get_ylim()
        ax.set_ylim(low, low + (high - low) / (1 - share))
        ax.legend(fontsize="small", framealpha=0.8, loc="upper right", ncols=columns)


def _choose_looks(series: Sequence[Series]) -> list[int]:
    """Number the looks: that of the loss, else that of the place, else the first that no other series has."""
    named = [one.look if one.look is not None else _OF_NAME.get(one.name.partition(": ")[0]) for one in series]
    taken = {number for number in named if number is not None}
    chosen = []
    for place, number in enumerate(named):
        if number is None:
            number = next(free for free in itertools.chain([place], itertools.count()) if free not in taken)
            taken.add(number)
        chosen.append(number)
    return chosen


def _draw_series(series: Series, place: int, count: int, look: int, ax: Axes) -> None:
    name, colon, rest = series.name.partition(": ")
    colour, line, marker = _LOOKS[look % len(_LOOKS)]
    label = METHOD_TITLES.get(name, name) + colon + rest
    if series.kind == "bar":
        _draw_bars(series, place, count, ax, colour, label)
    elif series.kind == "column":
        width = min((b - a for a, b in zip(series.x, series.x[1:], strict=False)), default=1.0)
        ax.bar(series.x, series.y, width, color=colour, edgecolor="white", linewidth=0.5, label=label)
    elif series.kind == "points":
        ax.scatter(series.x, series.y, s=7, color=colour, marker=marker, alpha=0.5, label=label, linewidths=0)
    elif series.kind == "step":
        ax.step(series.x, series.y, where="mid", color=colour, linestyle=line, linewidth=1.4, label=label)
    else:
        shown = max(1, len(series.x) // 6)
        ax.plot(
            series.x,
            series.y,
            color=colour,
            linestyle=line,
            linewidth=1.5,
            marker=marker,
            markersize=4,
            markevery=(min(place * max(1, shown // 4), max(0, len(series.x) - 1)), shown),
            label=label,
        )


def _draw_bars(series: Series, place: int, count: int, ax: Axes, colour: str, label: str) -> None:
    """Draw bars beside those of the other series, each series with a hatch of its own."""
    width = 0.8 / count
    x = [value - 0.4 + width * (place + 0.5) for value in series.x]
    ax.bar(
        x,
        series.y,
        width,
        color=colour if place == 0 else "white",
        edgecolor=colour,
        hatch="" if place == 0 else "////",
        label=label,
        alpha=0.75 if place == 0 else 1.0,
    )
    if series.low:  # an honest interval may lie below the value, which chance lifts
        ends = list(zip(series.low, series.high, strict=True))
        middle, reach = [(low + high) / 2 for low, high in ends], [(high - low) / 2 for low, high in ends]
        ax.errorbar(x, middle, yerr=reach, fmt="none", ecolor="0.25", capsize=2, linewidth=1)


def panel_records(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return every drawn number: panel, series, x, y and the interval."""
    records = []
    for panel in panels:
        for series in panel.series:
            empty = [None] * len(series.x)
            for x, y, low, high in zip(series.x, series.y, series.low or empty, series.high or empty, strict=True):
                place = panel.ticks[int(x)] if panel.ticks else float(x)
                known = None if isinstance(y, float) and math.isnan(y) else y
                records.append(
                    {"panel": panel.title, "series": series.name, "x": place, "y": known, "low": low, "high": high}
                )
    return records
