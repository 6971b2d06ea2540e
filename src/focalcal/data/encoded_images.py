"""Encoded images (PNG, JPEG, WebP), alone or in parquet files of the Hugging Face hub, decoded once and kept."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from focalcal.base.files import check_unpacked, regular_file
from focalcal.data.data_files import cache_folder, hash_file
from focalcal.data.image_set import Images
from focalcal.data.parquet_columns import BROKEN_PARQUET, read_columns
from focalcal.data.tensor_cache import load_or_make

# Pillow looks for nothing else, so that a file that is none of these is refused at once.
_FORMATS = ("PNG", "JPEG", "WEBP")
# Part of the name, to be raised when what is stored changes.
_VERSION = 1


def decode_images(encoded: Iterable[tuple[str, bytes]], count: int, size: int) -> Tensor:
    """Decode square colour images to a (count, 3, size, size) uint8 tensor.

    Pillow holds the interpreter's lock for images as small as these, so threads would only be slower.

    Args:
        encoded: Place of each image, for messages, and its bytes.
        count: Number of images.
        size: Width and height that each must have.
    """
    # Each lies as it was decoded, colours last, until all are there.
    pixels = np.empty((count, size, size, 3), np.uint8)
    for number, (place, content) in enumerate(encoded):
        pixels[number] = _decode(place, content, size)
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


def _decode(place: str, content: bytes, size: int) -> np.ndarray:
    from PIL import Image

    width = height = size
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            width, height = image.size
            # Looked at before the pixels are unpacked: a small file can claim to be enormous.
            if (width, height) == (size, size):
                return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except Exception as error:  # Pillow's readers meet damage with any exception
        raise ValueError(f"{place}: not an image, or a damaged one (PNG, JPEG or WebP is expected).") from error
    raise ValueError(f"{place}: the image has {width} × {height} pixels instead of {size} × {size}.")


def load_or_decode(name: str, source_hash: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Load what ``make`` gives from the cache, if it was made before from a file with the same SHA-256."""
    return load_or_make(cache_folder() / "decoded" / f"{name}-{source_hash}-v{_VERSION}.safetensors", make)


def read_parquet_images(
    path: Path, *, image_column: str, label_column: str, num_classes: int, size: int
) -> tuple[Images, str]:
    """Read images and labels, and compute the SHA-256 of their file.

    Raises:
        ValueError: It is not a whole parquet file, lacks a column, or holds a wrong label or image.
    """
    digest = hash_file(path)

    def make() -> dict[str, Tensor]:
        return _read(path, image_column, label_column, size)

    found = load_or_decode(f"parquet-{label_column}", digest, make)
    images = Images.from_rows(found["images"], found["labels"])
    _check_labels(path, images.labels, num_classes)
    return images, digest


def _read(path: Path, image_column: str, label_column: str, size: int) -> dict[str, Tensor]:
    try:
        with pq.ParquetFile(regular_file(path)) as file:
            _check_columns(path, file.schema_arrow, image_column, label_column)
            count = file.metadata.num_rows
            try:
                check_unpacked("images", 3 * size**2 * count, path.stat().st_size)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
            images = decode_images(_iterate_encoded(path, file, image_column), count, size)
            labels = read_columns(path, [label_column])[label_column]
            if labels.null_count:
                raise ValueError(f"{path} has {labels.null_count:,} rows without a label.")
            return {"images": images, "labels": torch.from_numpy(labels.to_numpy().astype("int64"))}
    except BROKEN_PARQUET as error:
        raise ValueError(f"{path} is not a whole parquet file ({_first_line(error)}): download it again.") from error


def _check_columns(path: Path, schema: Any, image_column: str, label_column: str) -> None:
    for column in (image_column, label_column):
        if column not in schema.names:
            raise ValueError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}.")
    kind = schema.field(image_column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise ValueError(f"{path}: column {image_column!r} must hold encoded images (bytes, path), not {kind}.")
    if not pa.types.is_integer(schema.field(label_column).type):
        raise ValueError(f"{path}: column {label_column!r} must hold whole numbers.")


def _iterate_encoded(path: Path, file: Any, image_column: str) -> Iterator[tuple[str, bytes]]:
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
