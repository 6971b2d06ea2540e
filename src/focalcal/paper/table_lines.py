"""Rows of the paper's tables."""

from dataclasses import dataclass

from focalcal.paper.cells import Cell

PUBLISHED_ONLY = "–"


@dataclass(frozen=True)
class TableLine:
    """One row: its headings, and a cell per column."""

    heads: tuple[str, ...]
    cells: tuple[Cell, ...]
