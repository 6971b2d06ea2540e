"""The report: one HTML file about a model or a comparison of models.

The names are imported on first use: the command line takes its words from here, and must not wait for torch.
"""

from typing import TYPE_CHECKING

from focalcal.base.lazy import lazy_names

if TYPE_CHECKING:
    from focalcal.report.writing import write_report as write_report

__getattr__, __dir__, __all__ = lazy_names(__name__)
