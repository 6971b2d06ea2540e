"""Image files: a folder per class is listed, and files are decoded to pixels of one size, ahead of their use."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import regular_file
from focalcal.base.progress import track

# Formats that Pillow may look for, and the endings of their files.
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
_ENDINGS = (".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
_MOST_PIXELS = 2**27  # a small file can claim to be enormous
_GREY = ("1", "L", "LA", "La", "I;16", "I;16B", "I;16L", "I;16N")
# Tags of EXIF: the camera was held on its side, so that width and height change places.
_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)


class Header(NamedTuple):
    """Facts that the header of an image file tells."""

    width: int
    height: int
    grey: bool


def read_header(path: Path) -> Header:
    """Read the size of an image, upright, and whether it is grey."""
    with _open_image(path) as image:
        with _decoding(path):
            on_its_side = image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
        width, height = image.size[::-1] if on_its_side else image.size
        return Header(width, height, image.mode in _GREY)


def decode_file(path: Path, channels: int, size: int) -> np.ndarray:
    """Decode an image, upright, to (C, S, S) uint8: its largest square in the middle, resized where that is not S wide.

    Raises:
        ValueError: It is not an image, or a corrupt one; the message names the file.
    """
    from PIL import Image, ImageOps

    with _open_image(path) as image:
        if image.mode in ("I", "F"):
            raise ValueError(f"{path} has 32 bits per pixel, whose range is not known; save it with 8 or 16.")
        with _decoding(path):
            # A large JPEG is decoded at a half, a quarter or an eighth, which is still twice the size that is wanted.
            image.draft("RGB" if channels == 3 else "L", (2 * size, 2 * size))
            picture = _as_bytes(ImageOps.exif_transpose(image), channels)
            if picture.size != (size, size):
                picture = ImageOps.fit(picture, (size, size), method=Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _open_image(path: Path) -> Any:
    from PIL import Image

    with _decoding(path):
        image = Image.open(regular_file(path), formats=_FORMATS)
    if image.width * image.height > _MOST_PIXELS:
        image.close()
        raise ValueError(f"{path} has {image.width} × {image.height} pixels, too many to decode; make it smaller.")
    return image


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Turn whatever Pillow raises into one sentence: its readers of many formats meet damage with any exception."""
    from PIL import Image

    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"{path} claims to be of enormous size; remove it, or make it smaller.") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or 'it is not there'}.") from error
    except Exception as error:
        raise ValueError(f"{path} is not an image, or a corrupt one; remove it, or save it again.") from error


def _as_bytes(image: Any, channels: int) -> Any:
    from PIL import Image

    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB" if channels == 3 else "L")


class ClassFolders(NamedTuple):
    """Files in one folder per class.

    Attributes:
        files: The images, sorted by class and name.
        classes: The class of each, the name of its folder.
        others: Number of files that were left out, because their names do not end like those of images.
    """

    files: list[Path]
    classes: list[str]
    others: int


def list_class_folders(folder: Path) -> ClassFolders:
    """List the images in the folders of a folder, at any depth below them; hidden files are passed over.

    Raises:
        ValueError: There is no folder in it, an image lies outside of them, or one of them has no image.
    """
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    loose = [entry for entry in folder.iterdir() if entry.is_file() and entry.suffix.lower() in _ENDINGS]
    if loose:
        raise ValueError(f"{loose[0]} lies outside of the folders of the classes: {folder} has one folder per class.")
    if not classes:
        raise ValueError(f"{folder} has no folders; put the images into one folder per class.")
    listed = ClassFolders([], [], 0)
    others = 0
    for entry in classes:
        files = sorted(file for file in entry.rglob("*") if file.is_file() and not file.name.startswith("."))
        images = [file for file in files if file.suffix.lower() in _ENDINGS]
        if not images:
            raise ValueError(f"The folder {entry} has no images (PNG, JPEG, WebP, BMP, GIF, TIFF or PPM); remove it.")
        listed.files.extend(images)
        listed.classes.extend([entry.name] * len(images))
        others += len(files) - len(images)
    return listed._replace(others=others)


@dataclass
class ImageFiles:
    """N images that stay in their files; to be indexed like a (N, C, S, S) uint8 tensor.

    Attributes:
        paths: N files.
        channels: C.
        size: S.
        workers: Threads that decode; Pillow leaves the interpreter to others while it does.
    """

    paths: Sequence[Path]
    channels: int
    size: int
    workers: int = 1
    _ahead: dict[int, "Future[np.ndarray]"] = field(default_factory=dict, init=False, repr=False)
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)

    dtype = torch.uint8
    ndim = 4

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, C, S, S)."""
        return len(self.paths), self.channels, self.size, self.size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Tensor:
        """Decode one image: (C, S, S) uint8."""
        return torch.from_numpy(self._decode(row).copy())

    def contiguous(self) -> "ImageFiles":
        """Return the same: pixels are contiguous as they are decoded."""
        return self

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """Return some rows as (B, C, S, S) uint8; what was prefetched is decoded already."""
        if dim != 0:
            raise ValueError(f"Images in files are taken by rows, dim 0; got dim {dim}.")
        self.prefetch(rows)
        taken = [self._ahead.pop(row, None) for row in rows.tolist()]
        pixels = np.empty((len(taken), *self.shape[1:]), np.uint8)
        for place, (row, future) in enumerate(zip(rows.tolist(), taken, strict=True)):
            pixels[place] = self._decode(row) if future is None else future.result()
        return torch.from_numpy(pixels)

    def prefetch(self, rows: Tensor) -> None:
        """Begin to decode rows that will be asked for."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="decode")
        for row in rows.tolist():
            if row not in self._ahead:
                self._ahead[row] = self._pool.submit(self._decode, row)

    def load(self) -> Tensor:
        """Decode all images: (N, C, S, S) uint8."""
        pixels = torch.empty(self.shape, dtype=torch.uint8)
        parts = torch.split(torch.arange(len(self)), 64)
        with track(parts, "decoding images", len(parts)) as shown:
            for number, rows in enumerate(shown):
                if number + 1 < len(parts):
                    self.prefetch(parts[number + 1])
                pixels[rows] = self.index_select(0, rows)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        return pixels

    def _decode(self, row: int) -> np.ndarray:
        return decode_file(self.paths[row], self.channels, self.size)
