"""The figure of training-set reliability: accuracy and share of the samples over 25 bins, at chosen epochs."""

from collections.abc import Sequence

import numpy as np

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.run_groups import RunGroup, choose_runs, need_snapshots


def reliability_training(groups: Sequence[RunGroup], loss: str = "cross-entropy") -> PaperFigure:
    """Reliability of the training set, and the share of its samples in each bin, at the recorded epochs."""
    group, (run,) = choose_runs(groups, [loss], need_snapshots, required=[loss])
    top, bottom = [], []
    for snapshot in run.snapshots:
        count, correct = (np.array(snapshot[name], dtype=np.float64) for name in ("count", "correct"))
        middle = ((np.arange(len(count)) + 0.5) / len(count)).tolist()
        accuracy = np.divide(correct, count, out=np.full_like(count, np.nan), where=count > 0)
        title = f"after epoch {snapshot['epoch']}"
        curve = Series("accuracy", middle, accuracy.tolist(), kind="column", look=2)
        limits = ((0.0, 1.0), (0.0, 1.02))
        top.append(Panel(title, "confidence", "accuracy", [curve], diagonal=True, limits=limits, legend=False))
        shares = (100 * count / count.sum()).tolist()
        share = Series("share", middle, shares, kind="column", look=2)
        bottom.append(Panel(f"{title}: share", "confidence", "samples (%)", [share], limits=((0.0, 1.0), (0.0, 100.0))))
    title = f"{group.title}, {run.name}: the training set"
    return PaperFigure("reliability-training", title, [*top, *bottom], columns=len(top))
