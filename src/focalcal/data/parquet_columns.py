"""Columns of parquet files, read within a cap: a value that is stored once may stand in every row."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from focalcal.base.files import most_unpacked, regular_file

_ROWS_AT_ONCE = 1024
_SMALLEST_ROW = 64  # bytes of memory for a row, however little is in it


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read some columns whole.

    Raises:
        pa.ArrowException: It is not a whole parquet file.
        ValueError: It holds far more than a file of its size can.
    """
    with pq.ParquetFile(regular_file(path)) as file:
        batches, taken, most = [], 0, most_unpacked(path.stat().st_size)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns), use_threads=False):
            taken += max(batch.nbytes, _SMALLEST_ROW * batch.num_rows)
            if taken > most:
                raise ValueError(f"{path} unpacks to more than {most:,} bytes; if it is no bomb, split it.")
            batches.append(batch)
        # A file without a row has no batch, but a schema.
        return pa.Table.from_batches(batches) if batches else file.read(columns=list(columns))
