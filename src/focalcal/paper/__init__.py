"""The paper's published numbers, and ours beside them."""

from focalcal.paper.published import Published, published
from focalcal.paper.table import PaperTable, paper_tables

__all__ = ["PaperTable", "Published", "paper_tables", "published"]
