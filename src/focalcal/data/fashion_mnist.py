"""Fashion-MNIST: 60,000 and 10,000 grey images of clothes, 28 × 28, in the IDX format of MNIST."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import read_at_most, regular_file
from focalcal.data.augment import Augmentation
from focalcal.data.data_files import hash_file
from focalcal.data.data_sets import FASHION_MNIST
from focalcal.data.data_types import DataSet
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation

KIND = ImageKind("fashion_mnist", 10, (1, 28, 28), Normalisation((0.2860,), (0.3530,)), Augmentation(4, flip=True))
CLASS_NAMES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
# Data as large as this is none of the sets that are read here.
_LARGEST = 1 << 30


def load_fashion_mnist(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load 54,000 images for training, 6,000 for validation, and the official 10,000 for testing."""
    return load_images(KIND, _read, seed, root, ImageOptions(**options))


def _read(root: Path | None) -> ImageContents:
    paths = [file.obtain(root) for file in FASHION_MNIST]
    train, test = _pair(*paths[:2]), _pair(*paths[2:])
    return ImageContents(train, test.number_after(train), CLASS_NAMES, {path.name: hash_file(path) for path in paths})


def _pair(images_path: Path, labels_path: Path) -> Images:
    images, labels = read_idx(images_path, 3).unsqueeze(1), read_idx(labels_path, 1).long()
    if tuple(images.shape[1:]) != KIND.shape:
        size = " × ".join(str(number) for number in images.shape[2:])
        raise ValueError(f"{images_path} has images of {size} pixels, not 28 × 28.")
    if len(images) != len(labels):
        raise ValueError(f"{images_path} has {len(images):,} images, but {labels_path.name} {len(labels):,} labels.")
    if len(labels) == 0 or int(labels.max()) >= KIND.num_classes:
        raise ValueError(f"{labels_path} must hold labels from 0 to 9, and at least one.")
    return Images.from_rows(images, labels)


def read_idx(path: Path, dimensions: int) -> Tensor:
    """Read an array of bytes with this number of dimensions.

    Raises:
        ValueError: The file is not a gzip file, not an IDX file of bytes, or has another length than its header says.
    """
    try:
        with gzip.open(regular_file(path), "rb") as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            content = read_at_most(file, math.prod(shape))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}): download it again.") from error
    if len(content) != math.prod(shape):
        found = "less" if len(content) < math.prod(shape) else "more"
        raise ValueError(f"{path} holds {found} than the {math.prod(shape):,} bytes that its header promises.")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(shape).copy())


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    # Two zero bytes, the type (8: unsigned byte), the number of dimensions, then the sizes.
    if len(header) != 4 + 4 * dimensions or header[:4] != bytes([0, 0, 8, dimensions]):
        begins = f"it begins {header[:4]!r}"
        raise ValueError(f"{path} is not an IDX file of bytes with {dimensions} dimension(s): {begins}.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if math.prod(shape) > _LARGEST:
        raise ValueError(f"{path} promises {math.prod(shape):,} bytes, which no data set of this kind has.")
    return shape
