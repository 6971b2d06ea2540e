"""The data sets: found on disk or downloaded, split, and handed out in batches.

The names are imported on first use: the list of data sets needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.data.data_sets import DATA_NAMES, load_data
    from focalcal.data.own import as_samples, own_data
    from focalcal.data.samples import Batch, DataSet, Samples
    from focalcal.data.text_sets import encode_texts

_HOMES = {
    "data_sets": ("DATA_NAMES", "load_data"),
    "own": ("as_samples", "own_data"),
    "samples": ("Batch", "DataSet", "Samples"),
    "text_sets": ("encode_texts",),
}

__all__ = ["DATA_NAMES", "Batch", "DataSet", "Samples", "as_samples", "encode_texts", "load_data", "own_data"]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"focalcal.data.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
