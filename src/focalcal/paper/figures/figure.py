"""Figures: panels on a page, drawn into a file with the drawn data beside it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from focalcal.base.files import atomic_writer, check_destination
from focalcal.paper.figures.panels import Panel, draw_panel, make_room_for_legend, panel_records
from focalcal.paper.table_formats import records_to_csv
from focalcal.plots.axes import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper.

    Attributes:
        name: On the command line.
        title: What it shows and of which runs.
        panels: What is drawn, row by row.
        columns: Panels per row.
        images: A picture for each panel that shows one instead of curves, (height, width, 3) or (height, width).
        records: The drawn data, where it is not that of the panels.
        notes: Sentences about what is missing.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 3
    images: Mapping[int, Any] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    notes: tuple[str, ...] = ()

    def draw(self, axes: Sequence[Axes] | None = None) -> Figure:
        """Draw on the given axes, one per panel, or on a new figure that is not registered with pyplot."""
        is_own = axes is None
        axes = list(axes) if axes is not None else self._new_axes()
        if len(axes) != len(self.panels):
            raise ValueError(f"The figure {self.name} has {len(self.panels)} panels, and {len(axes)} axes were given.")
        for place, (panel, ax) in enumerate(zip(self.panels, axes, strict=True)):
            if place in self.images:
                ax.imshow(self.images[place], cmap="gray")
                ax.set(xticks=[], yticks=[])
                ax.set_title(panel.title, fontsize="small")
                ax.set_xlabel(panel.x, fontsize="x-small", family="monospace")
            else:
                draw_panel(panel, ax)
        figure = cast("Figure", axes[0].figure)
        if is_own:
            figure.draw_without_rendering()
            for panel, ax in zip(self.panels, axes, strict=True):
                make_room_for_legend(panel, ax)
        return figure

    def _new_axes(self) -> list[Axes]:
        rows = -(-len(self.panels) // self.columns)
        columns = min(self.columns, len(self.panels))
        figure = new_figure(figsize=(4.2 * columns, 3.3 * rows), layout="constrained")
        figure.suptitle(self.title)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for spare in axes[len(self.panels) :]:
            spare.remove()
        return axes[: len(self.panels)]

    def to_csv(self) -> str:
        """Write every drawn number."""
        return records_to_csv([*self.records] or panel_records(self.panels))

    def save(self, path: Path) -> None:
        """Write the picture, and the drawn data beside it as csv; the bytes depend on the data alone."""
        check_format(path)
        figure = self.draw()
        picture = io.BytesIO()
        with _reproducible(path.suffix):
            metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
            figure.savefig(picture, format=path.suffix[1:], dpi=110, metadata=metadata[path.suffix])
        for target, content in ((path, picture.getvalue()), (path.with_suffix(".csv"), self.to_csv().encode())):
            with atomic_writer(target) as file:
                file.write(content)


def _reproducible(suffix: str) -> Any:
    """Give the elements of an svg names that do not change from run to run."""
    if suffix != ".svg":
        return nullcontext()
    import matplotlib

    return matplotlib.rc_context({"svg.hashsalt": "focalcal"})


def check_format(path: Path) -> None:
    """Refuse a file that cannot be a picture, before anything is computed."""
    if path.suffix[1:] not in FORMATS:
        raise ValueError(f"{path} must end with .png, .svg or .pdf.")
    check_destination(path)
