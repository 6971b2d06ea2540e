"""The axis that a picture is drawn on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axis_or_new(ax: Axes | None) -> Axes:
    """Return the given axis, or one on a new figure that is not registered with pyplot and so needs no closing."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: install focalcal[plots].") from error
    return Figure(layout="constrained").subplots()
