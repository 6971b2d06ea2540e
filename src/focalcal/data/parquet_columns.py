"""Columns of parquet files, read within a cap: a value that is stored once may stand in every row."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from focalcal.base.files import DAMAGE, most_unpacked, regular_file

# What reading a damaged parquet file raises: pyarrow also decodes its text, and follows its nesting.
BROKEN_PARQUET = (*DAMAGE, pa.ArrowException, OSError)
_ROWS_AT_ONCE = 1024
_SMALLEST_VALUE = 32  # bytes of memory for a value, however little is in it


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read some columns whole; those of texts may come as dictionaries.

    Raises:
        BROKEN_PARQUET: It is not a whole parquet file.
        ValueError: It holds far more than a file of its size can.
    """
    # A text that stands in many rows stays what it is in the file, one text and the places where it stands.
    texts = [name for name in _leaves(path) if name.split(".")[0] in columns]
    with pq.ParquetFile(regular_file(path), read_dictionary=texts) as file:
        batches, taken, most = [], 0, most_unpacked(path.stat().st_size)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns), use_threads=False):
            taken += sum(_count_unpacked(column) for column in batch.columns)
            if taken > most:
                raise ValueError(f"{path} unpacks to more than {most:,} bytes; if you trust it, split it.")
            batches.append(batch)
        # A file without a row has no batch, but a schema.
        return pa.Table.from_batches(batches) if batches else file.read(columns=list(columns))


def _leaves(path: Path) -> list[str]:
    """Name the columns of texts as parquet does: ``translation.en``."""
    schema = pq.read_metadata(regular_file(path)).schema
    leaves = [schema.column(number) for number in range(len(schema))]
    return [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]


def _count_unpacked(array: pa.Array) -> int:
    """Return how many bytes the values take when each row has its own."""
    if pa.types.is_struct(array.type):
        return sum(_count_unpacked(part) for part in array.flatten())
    size = int(array.nbytes)
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        lengths = pc.binary_length(values) if _has_length(values.type) else None
        size = 0 if lengths is None else pc.sum(lengths.take(array.indices)).as_py() or 0
    return max(size, _SMALLEST_VALUE * len(array))


def _has_length(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
