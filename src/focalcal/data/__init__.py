"""The data sets: found on disk or downloaded, split, and handed out in batches.

The names are imported on first use: the list of data sets needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focalcal.data.encoding import encode_texts
    from focalcal.data.own import as_samples, own_data
    from focalcal.data.registry import DATA_NAMES, load_data
    from focalcal.data.samples import Batch, DataSet, Samples

_HOMES = {
    "encoding": ("encode_texts",),
    "own": ("as_samples", "own_data"),
    "registry": ("DATA_NAMES", "load_data"),
    "samples": ("Batch", "DataSet", "Samples"),
}

__all__ = ["DATA_NAMES", "Batch", "DataSet", "Samples", "as_samples", "encode_texts", "load_data", "own_data"]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"focalcal.data.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
