"""The data sets: found on disk or downloaded, split, and handed out in batches.

The names are imported on first use: the list of data sets needs no torch.
"""

from typing import TYPE_CHECKING

from focalcal.base.lazy import lazy_names

if TYPE_CHECKING:
    from focalcal.data.data_sets import DATA_NAMES as DATA_NAMES
    from focalcal.data.data_sets import load_data as load_data
    from focalcal.data.data_types import Batch as Batch
    from focalcal.data.data_types import DataSet as DataSet
    from focalcal.data.data_types import Samples as Samples
    from focalcal.data.own import as_samples as as_samples
    from focalcal.data.own import own_data as own_data
    from focalcal.data.text_sets import encode_texts as encode_texts

__getattr__, __dir__, __all__ = lazy_names(__name__)
