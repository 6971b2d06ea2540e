"""The figure of the optimum: what minimises the binary focal loss, by the true probability."""

import numpy as np

from focalcal.gamma import focal_optimum
from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series

_GAMMAS = (0.0, 1.0, 2.0, 3.0, 5.0)


def optimum() -> PaperFigure:
    """p̂ against q for cross-entropy (γ = 0) and several γ."""
    q = np.linspace(0, 1, 201)
    series = [Series(f"γ = {gamma:g}", q.tolist(), focal_optimum(q, gamma).tolist()) for gamma in _GAMMAS]
    panel = Panel("", "true probability q", "p̂ that minimises the loss", series, limits=((0.0, 1.0), (0.0, 1.0)))
    return PaperFigure("optimum", "The optimum of the binary focal loss", [panel], columns=1)
