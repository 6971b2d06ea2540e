"""The report: one HTML file about a model or a comparison of models.

The names are imported on first use: the command line takes its words from here, and must not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.report.writing import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("focalcal.report.writing"), name)
    raise AttributeError(f"module 'focalcal.report' has no attribute {name!r}")
