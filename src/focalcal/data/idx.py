"""The IDX format of MNIST and its successors, gzipped: sizes are checked before anything is believed."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

# Data as large as this is none of the sets that are read here.
_LARGEST = 1 << 30


def read_idx(path: Path, dimensions: int) -> Tensor:
    """An array of bytes with so many dimensions.

    Raises:
        ValueError: the file is no gzip file, no IDX file of bytes, or has another length than its header says.
    """
    try:
        with gzip.open(path, "rb") as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            content = file.read(math.prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no whole gzip file ({error}): download it again.") from error
    if len(content) != math.prod(shape):
        found = "less" if len(content) < math.prod(shape) else "more"
        raise ValueError(f"{path} holds {found} than the {math.prod(shape):,} bytes that its header promises.")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(shape).copy())


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    # Two zero bytes, the type (8: unsigned byte), the number of dimensions, then the sizes.
    if len(header) != 4 + 4 * dimensions or header[:4] != bytes([0, 0, 8, dimensions]):
        raise ValueError(f"{path} is no IDX file of bytes with {dimensions} dimension(s): it begins {header[:4]!r}.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if math.prod(shape) > _LARGEST:
        raise ValueError(f"{path} promises {math.prod(shape):,} bytes, which no data set of this kind has.")
    return shape
