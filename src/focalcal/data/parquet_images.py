"""Images in parquet files as the Hugging Face hub has them: a column of encoded images, a column of labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from focalcal.data.decode import decode_images
from focalcal.data.decoded_cache import remembered_images
from focalcal.data.files import file_hash
from focalcal.data.image_set import Images


def read_parquet_images(
    path: Path, *, image_column: str, label_column: str, num_classes: int, size: int
) -> tuple[Images, str]:
    """Images, labels and the SHA-256 of a file.

    Raises:
        ValueError: it is no whole parquet file, lacks a column, or holds a label or an image that cannot be.
    """
    digest = file_hash(path)

    def make() -> dict[str, Tensor]:
        return _read(path, image_column, label_column, size)

    found = remembered_images(f"parquet-{label_column}", digest, make)
    images = Images.of_rows(found["images"], found["labels"])
    _check_labels(path, images.labels, num_classes)
    return images, digest


def _read(path: Path, image_column: str, label_column: str, size: int) -> dict[str, Tensor]:
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow, image_column, label_column)
            count = file.metadata.num_rows
            images = decode_images(_encoded(path, file, image_column), count, size)
            labels = file.read(columns=[label_column])[label_column]
            if labels.null_count:
                raise ValueError(f"{path} has {labels.null_count:,} rows without a label.")
            return {"images": images, "labels": torch.from_numpy(labels.to_numpy().astype("int64"))}
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is no whole parquet file ({_first_line(error)}): download it again.") from error


def _check_columns(path: Path, schema: Any, image_column: str, label_column: str) -> None:
    for column in (image_column, label_column):
        if column not in schema.names:
            raise ValueError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}.")
    kind = schema.field(image_column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise ValueError(f"{path}: column {image_column!r} must hold encoded images (bytes, path), not {kind}.")
    if not pa.types.is_integer(schema.field(label_column).type):
        raise ValueError(f"{path}: column {label_column!r} must hold whole numbers.")


def _encoded(path: Path, file: Any, image_column: str) -> Iterator[tuple[str, bytes]]:
    row = 0
    for batch in file.iter_batches(batch_size=1000, columns=[image_column]):
        for content in batch.column(0).field("bytes").to_pylist():
            yield f"{path}, row {row}", content or b""
            row += 1


def _check_labels(path: Path, labels: Tensor, num_classes: int) -> None:
    if len(labels) == 0:
        raise ValueError(f"{path} holds no images.")
    wrong = torch.nonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"{path}, row {row}: label {int(labels[row])} is not one of 0 to {num_classes - 1}.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
