"""The figure of calibration errors: bars per loss with 90% intervals, before and after temperature scaling."""

from collections.abc import Sequence

from focalcal.metrics import evaluate
from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.result_folders import KeptRun, load_scaled
from focalcal.paper.run_groups import RunGroup, choose_runs, need_predictions
from focalcal.paper.table_names import ALL_METHODS, MAIN, METHOD_TITLES
from focalcal.sweeps.result_rows import Row

_METRICS = {"ece": "ECE", "ada_ece": "AdaECE", "classwise_ece": "Classwise-ECE"}
_SCALINGS = {"pre": "before scaling", "post": "after scaling"}
Figures = dict[tuple[str, str, str], tuple[float, float, float]]


def bars(groups: Sequence[RunGroup], *, papers_bootstrap: bool = False) -> PaperFigure:
    """ECE, AdaECE and classwise-ECE of each loss.

    Args:
        groups: Runs to choose from.
        papers_bootstrap: Make the intervals as the paper does, from 1,000 resamples of the kept predictions: twice the
            value minus quantiles. By default those of the table are drawn.
    """
    if papers_bootstrap:
        group, runs = choose_runs(groups, None, need_predictions("val", "test"))
        figures: Figures = {}
        for run in runs:
            figures |= _resample(run)
    else:
        group = _with_most_losses(groups)
        figures = _of_rows(group.rows)
    losses = _complete(figures)
    note = "Chance makes a calibration error too large, which the intervals allow for: they may lie below a bar."
    panels = []
    for metric, title in _METRICS.items():
        series = []
        for place, (scaling, label) in enumerate(_SCALINGS.items()):
            value, low, high = zip(*(figures[loss, metric, scaling] for loss in losses), strict=True)
            series.append(Series(label, list(range(len(losses))), value, low, high, "bar", look=(2, 1)[place]))
        panels.append(Panel(title, "", f"{title} (%)", series, ticks=[METHOD_TITLES[loss] for loss in losses]))
    kind = "90% bootstrap intervals" if papers_bootstrap else "90% intervals"
    title = f"{group.title}: calibration errors with {kind}, {group.seeds_text(losses)}"
    return PaperFigure("bars", title, panels, notes=(note,))


def _with_most_losses(groups: Sequence[RunGroup]) -> RunGroup:
    """Choose the group with the most of the paper's six losses, of equals the one with the most losses at all."""
    found = {group.name: _complete(_of_rows(group.rows)) for group in groups}
    if not any(found.values()):
        wanted = ", ".join(_METRICS)
        raise ValueError(
            f"The figure bars needs a table.csv with {wanted} before and after scaling, with intervals; a sweep of a "
            "classifier with --bootstrap 1000 makes it."
        )
    return max(groups, key=lambda group: (len({*MAIN} & {*found[group.name]}), len(found[group.name])))


def _complete(figures: Figures) -> list[str]:
    """List the losses that have every bar."""
    return [
        loss
        for loss in ALL_METHODS
        if all((loss, metric, scaling) in figures for metric in _METRICS for scaling in _SCALINGS)
    ]


def _of_rows(rows: Sequence[Row]) -> Figures:
    """Take the first seed's figures that have an interval, of the epoch that the recipe selects."""
    chosen = "best" if any(row.selection == "best" for row in rows) else "last"
    found: Figures = {}
    for row in sorted(rows, key=lambda row: row.seed):
        if row.is_out_of_distribution or row.selection != chosen or row.low is None or row.high is None:
            continue
        found.setdefault((row.method, row.metric, row.temperature_scaling), (row.value, row.low, row.high))
    return found


def _resample(run: KeptRun) -> Figures:
    test, scaled = load_scaled(run, "test")[1]["test"]
    found: Figures = {}
    for scaling, preds in zip(_SCALINGS, (test, scaled), strict=True):
        result = evaluate(preds, metrics=list(_METRICS), method="basic", bootstrap=1000, level=0.9)
        for metric in _METRICS:
            low, high = result.intervals[metric]
            found[run.loss, metric, scaling] = (100 * result.values[metric], 100 * low, 100 * high)
    return found
