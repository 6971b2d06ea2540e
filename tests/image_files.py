"""Small image files in the layouts in which the public has them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def encoded(size=32, seed=0, kind="PNG"):
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return pixels, file.getvalue()


def write_parquet(path, images, labels, image_column="img", label_column="label"):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"bytes": content, "path": None} for content in images]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({image_column: pa.array(cells, kind), label_column: pa.array(labels, pa.int64())})
    pq.write_table(table, path, row_group_size=7)
