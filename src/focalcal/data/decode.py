"""Compressed images to tensors of bytes."""

import io
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

# Pillow looks for nothing else, so that a file that is none of these is refused at once.
_FORMATS = ("PNG", "JPEG", "WEBP")


def decode_images(encoded: Iterable[tuple[str, bytes]], count: int, size: int) -> Tensor:
    """Square colour images as a (count, 3, size, size) uint8 tensor.

    Pillow holds the interpreter's lock for images as small as these, so threads would only be slower.

    Args:
        encoded: the place of each image, for messages, and its bytes.
        count: how many there are.
        size: the width and height that each must have.
    """
    # Each lies as it was decoded, colours last, until all are there.
    pixels = np.empty((count, size, size, 3), np.uint8)
    for number, (place, content) in enumerate(encoded):
        pixels[number] = _decoded(place, content, size)
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


def _decoded(place: str, content: bytes, size: int) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            # Looked at before the pixels are unpacked: a small file can claim to be enormous.
            if image.size != (size, size):
                raise ValueError(
                    f"{place}: the image has {image.width} × {image.height} pixels instead of {size} × {size}."
                )
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except (OSError, SyntaxError, EOFError, TypeError, Image.DecompressionBombError) as error:
        raise ValueError(f"{place}: not an image, or a damaged one (PNG, JPEG or WebP is expected).") from error
