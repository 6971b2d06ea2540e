"""The figure of out-of-distribution detection: ROC curves by entropy, before and after temperature scaling."""

from collections.abc import Sequence

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.result_folders import load_scaled
from focalcal.paper.run_groups import RunGroup, choose_runs, need_predictions
from focalcal.plots import roc
from focalcal.sweeps.result_rows import title

_POINTS = 100


def ood_roc(groups: Sequence[RunGroup], data: str = "svhn") -> PaperFigure:
    """ROC curves of all losses that have predictions for an out-of-distribution set.

    Args:
        groups: Runs to choose from.
        data: The name of the set: ``svhn`` or ``cifar10_c``.
    """
    group, runs = choose_runs(groups, None, need_predictions("val", "test", data))
    loaded = [load_scaled(run, "test", data)[1] for run in runs]
    panels = []
    for place, when in enumerate(("before", "after")):
        series = []
        for run, parts in zip(runs, loaded, strict=True):
            curve = roc(parts["test"][place], parts[data][place], points=_POINTS)
            name = f"{run.loss}: {100 * curve.auroc:.1f}"
            series.append(Series(name, curve.false_rates.tolist(), curve.true_rates.tolist()))
        limits = ((0.0, 1.0), (0.0, 1.0))
        panels.append(
            Panel(
                f"{when} temperature scaling (AUROC, %)",
                "in-distribution samples flagged",
                f"{title(data)} samples flagged",
                series,
                limits=limits,
                legend_place="lower right",
            )
        )
    return PaperFigure("ood-roc", f"{group.title}: against {title(data)}, by entropy", panels, columns=2)
