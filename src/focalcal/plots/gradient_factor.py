"""Curves of g(p, γ): the gradient of the focal loss relative to cross-entropy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from focalcal.gamma import gradient_factor
from focalcal.plots.axes import axis_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class GradientFactorCurves:
    """p (P,), the γ of each curve, and g (curves, P)."""

    p: np.ndarray
    gammas: tuple[float, ...]
    g: np.ndarray


def gradient_factor_curves(
    gammas: Sequence[float] = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0), *, points: int = 501
) -> GradientFactorCurves:
    """Compute g(p, γ) on an even grid of ``points`` probabilities from 0 to 1.

    Examples:
        >>> gradient_factor_curves((3.0,), points=3).g.round(3).tolist()
        [[1.0, 0.385, 0.0]]
    """
    p = np.linspace(0.0, 1.0, points)
    return GradientFactorCurves(p, tuple(gammas), np.stack([gradient_factor(p, gamma) for gamma in gammas]))


def draw_gradient_factor(curves: GradientFactorCurves, ax: Axes | None = None) -> Axes:
    """Draw the curves, with a line at 1, the gradient of cross-entropy; return the axis."""
    ax = axis_or_new(ax)
    for gamma, g in zip(curves.gammas, curves.g, strict=True):
        ax.plot(curves.p, g, label=f"γ = {gamma:g}")
    ax.axhline(1.0, color="0.5", linewidth=0.8, linestyle="--")
    ax.set_xlabel("probability p of the true class")
    ax.set_ylabel("g(p, γ): gradient relative to cross-entropy")
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax
