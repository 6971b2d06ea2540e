"""The paper: its published numbers, tables, figures and studies, with ours beside them."""

from focalcal.paper.published import Published, published_figures
from focalcal.paper.result_folders import ResultSet, find_results
from focalcal.paper.sweep_tables import PaperTable, paper_tables
from focalcal.paper.table_names import TABLES
from focalcal.paper.tables import Table, build_table

__all__ = [
    "TABLES",
    "PaperTable",
    "Published",
    "ResultSet",
    "Table",
    "build_table",
    "find_results",
    "paper_tables",
    "published_figures",
]
