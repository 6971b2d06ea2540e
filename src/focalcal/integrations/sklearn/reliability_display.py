"""The reliability diagram as a display of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from focalcal.integrations.sklearn.labelled import check_labels, make_predictions, two_columns
from focalcal.plots.reliability import (
    Binning,
    ReliabilityDiagram,
    class_reliability_diagram,
    draw_reliability_diagram,
    reliability_diagram,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ReliabilityDisplay:
    """Accuracy by confidence, in bins, with confidence intervals.

    Without a label the confidence is that of the predicted class (top-label), whatever class that is. With one it is
    the probability of that class, and the diagram shows how often it is the true one. For two classes the latter is
    what ``sklearn.calibration.CalibrationDisplay`` draws.

    Args:
        diagram: The bins.
        name: Name in the legend.
        label: The class that it is about; None for the predicted one.

    Attributes:
        ax_: The axis that it was drawn on.
        figure_: Its figure.

    Examples:
        >>> display = ReliabilityDisplay.from_predictions(["a", "a", "b", "b"], [[0.9, 0.1]] * 2 + [[0.4, 0.6]] * 2)
        >>> round(display.diagram.ece, 2)
        0.25
        >>> display.ax_.get_xlabel()
        'confidence'
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, diagram: ReliabilityDiagram, *, name: str = "", label: Any = None) -> None:
        self.diagram = diagram
        self.name = name
        self.label = label

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        label: Any = None,
        bins: int = 15,
        binning: Binning = "equal-width",
        level: float = 0.90,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Draw the diagram of a fitted classifier with ``predict_proba``.

        Args:
            estimator: The classifier.
            X: Samples that it was not trained on.
            y: (N,) their labels.
            label: The class that it is about; None for the predicted one.
            bins: Number of bins.
            binning: Bins of "equal-width" or of "equal-mass".
            level: Level of the confidence intervals.
            sample_weight: (N,), or None.
            name: Name in the legend; None for the classifier's.
            ax: The axis to draw on; None for a new figure.
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"{type(estimator).__name__} has no predict_proba; calibrate it with CalibratedClassifier.")
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            classes=estimator.classes_,
            label=label,
            bins=bins,
            binning=binning,
            level=level,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        classes: Any = None,
        label: Any = None,
        bins: int = 15,
        binning: Binning = "equal-width",
        level: float = 0.90,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Draw the diagram of probabilities (N, K), or (N,) of the second of two classes.

        Args:
            y_true: (N,) labels of any type.
            y_prob: Probabilities.
            classes: The class that each column stands for; None for the labels, sorted, if there are K of them.
            label: The class that it is about; None for the predicted one.
            bins: Number of bins.
            binning: Bins of "equal-width" or of "equal-mass".
            level: Level of the confidence intervals.
            sample_weight: (N,), or None.
            name: Name in the legend.
            ax: The axis to draw on; None for a new figure.
        """
        probs = two_columns(y_prob, "probs")
        names = np.asarray(check_labels(y_true)[0] if classes is None else classes)
        if len(names) != probs.shape[1]:
            raise ValueError(
                f"There are {probs.shape[1]} columns of probabilities and {len(names)} classes; pass classes=[…], one "
                "per column."
            )
        preds = make_predictions(probs, "probs", y_true, classes=names, sample_weight=sample_weight)
        if label is None:
            diagram = reliability_diagram(preds, bins=bins, binning=binning, level=level)
        else:
            if label not in names.tolist():
                raise ValueError(
                    f"There is no class {label!r}; the classes are {', '.join(map(repr, names.tolist()))}."
                )
            number = names.tolist().index(label)
            diagram = class_reliability_diagram(preds, number, bins=bins, binning=binning, level=level)
        return cls(diagram, name=name or "", label=label).plot(ax)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> ReliabilityDisplay:
        """Draw on the axis, or on a new figure, and return the display."""
        what = self.name if name is None else name
        label = f"{what}, ECE {self.diagram.ece:.2%}" if what else ""
        self.ax_ = draw_reliability_diagram(self.diagram, ax, label=label)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        if self.label is not None:
            self.ax_.set(xlabel=f"probability of {self.label}", ylabel=f"share of {self.label}")
        return self
