"""Figures of gradients: g(p, γ) with its crossings, and histograms of gradient norms during training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.run_groups import RunGroup, choose_runs, need_norms
from focalcal.paper.theory import crossing
from focalcal.plots import gradient_factor_curves

_GAMMAS = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
# Cells of the recording that make one of the figure.
_JOINED = 4


def gradient_factor_figure(groups: Sequence[RunGroup], losses: Sequence[str] | None = None) -> PaperFigure:
    """g(p, γ) by p, and the norms of the last layer's per-sample gradients at the recorded epochs."""
    panels = [_factor_panel()]
    group, runs = choose_runs(groups, losses or ("cross-entropy", "fl-3"), need_norms, required=["cross-entropy"])
    for epoch in [one["after_epochs"] for one in runs[0].gradient_norms]:
        series = []
        for run in runs:
            record = next((one for one in run.gradient_norms if one["after_epochs"] == epoch), None)
            if record is not None:
                norms, shares = _histogram(record)
                series.append(Series(run.loss, norms, shares, kind="step"))
        panels.append(
            Panel(
                f"after epoch {epoch}",
                "gradient norm (1e-8 or less at the left)",
                "share of training samples (%)",
                series,
                log_x=True,
            )
        )
    return PaperFigure("gradient-factor", f"g(p, γ), and gradient norms of {group.title}", panels, columns=4)


def _factor_panel() -> Panel:
    curves = gradient_factor_curves(_GAMMAS, points=201)
    series = [
        Series(f"γ = {gamma:g}", curves.p.tolist(), g.tolist())
        for gamma, g in zip(curves.gammas, curves.g, strict=True)
    ]
    marks = [crossing(gamma) for gamma in _GAMMAS if gamma]
    return Panel(
        "g(p, γ), with its crossings of 1", "p", "g", series, marks=marks, limits=((0, 1), None), levels=(1.0,)
    )


def _histogram(record: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return the middle of each cell, and its share of the samples; what lies outside counts to the outermost."""
    cells = record["cells"]
    counts = np.array(record["loss"]["counts"], dtype=np.float64)
    inner = counts[1:-1].copy()
    inner[0] += counts[0]
    inner[-1] += counts[-1]
    per_decade = cells["per_decade"] // _JOINED
    joined = inner.reshape(-1, _JOINED).sum(1)
    middle = cells["smallest"] * 10 ** ((np.arange(len(joined)) + 0.5) / per_decade)
    filled = np.flatnonzero(joined)
    kept = slice(max(0, filled[0] - 1), filled[-1] + 2)
    return middle[kept].tolist(), (100 * joined / joined.sum())[kept].tolist()
