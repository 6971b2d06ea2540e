"""The figure and the axis that a picture is drawn on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from focalcal.base.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def axis_or_new(ax: Axes | None) -> Axes:
    """Return the given axis, or one on a new figure that is not registered with pyplot and so needs no closing."""
    return new_figure(layout="constrained").subplots() if ax is None else ax


def new_figure(**options: Any) -> Figure:
    """Make a figure that is not registered with pyplot."""
    figure: Figure = import_optional("matplotlib.figure", extra="plots", what="Pictures").Figure(**options)
    return figure
