"""The figure of the linear model: norms over training, confidence of mistakes, and decision boundaries."""

import numpy as np

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.linear_model import GAMMAS, LinearRun, Points, make_points, train_both
from focalcal.paper.table_names import METHOD_TITLES


def linear_model(seed: int = 0) -> PaperFigure:
    """Draw the appendix's linear model, trained here."""
    runs = train_both(seed)
    _, test = make_points(seed)
    norms = [
        Panel(
            title,
            "step",
            "norm",
            [Series(loss, run.steps.tolist(), getattr(run, name).tolist()) for loss, run in runs.items()],
            log_x=True,
        )
        for title, name in (("mean norm of the logits", "logit_norms"), ("norm of the weights", "weight_norms"))
    ]
    edges = np.linspace(0.5, 1, 21)
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    histograms = [
        Series(
            loss,
            middle,
            (100 * np.histogram(run.mistake_confidence, edges)[0] / len(run.mistake_confidence)).tolist(),
            kind="step",
        )
        for loss, run in runs.items()
    ]
    mistakes = Panel("confidence of mistakes, test set", "confidence", "share of mistakes (%)", histograms)
    boundaries = [_boundary(loss, runs[loss], test) for loss in GAMMAS]
    return PaperFigure("linear-model", "The linear model", [*norms, mistakes, *boundaries], columns=3)


def _boundary(loss: str, run: LinearRun, test: Points) -> Panel:
    """Draw the test samples and the line on which both classes have probability 0.5."""
    points = [
        Series(
            f"class {number}",
            test.x[test.y == sign, 0].tolist(),
            test.x[test.y == sign, 1].tolist(),
            kind="points",
            look=look,
        )
        for number, (sign, look) in enumerate(((-1.0, 5), (1.0, 2)))
    ]
    along = np.array([-run.weights[1], run.weights[0]]) / np.linalg.norm(run.weights) * 6
    line = Series("boundary", [-along[0], along[0]], [-along[1], along[1]], look=0)
    limits = ((-5.5, 5.5), (-5.5, 5.5))
    return Panel(f"decision boundary, {METHOD_TITLES[loss]}", "x1", "x2", [*points, line], limits=limits)
