"""Augmentation: random crops and mirror images of a whole batch at once, on its device."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from focalcal.data.image_files import ImageFiles

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images, before they are normalised.

    Attributes:
        padding: Black pixels added on every side, from which a crop of the old size is cut; 0 for no crop.
        flip: Whether half of the images are mirrored left to right.
    """

    padding: int = 0
    flip: bool = False

    def __call__(
        self, images: Tensor | ImageFiles, rows: Tensor, device: torch.device, generator: torch.Generator
    ) -> Tensor:
        """Take some rows of the images and change each at random.

        All that is random comes from one call of the generator, so that the same state gives the same batch on any
        device.

        Args:
            images: (N, C, H, W) uint8 on the CPU, or files.
            rows: (B,) int64 on the CPU.
            device: Device for the work and the result.
            generator: Generator on the CPU.

        Returns:
            (B, C, H, W) uint8 on the device, not contiguous.

        Examples:
            >>> images = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 1, 4)
            >>> rows = torch.zeros(3, dtype=torch.int64)
            >>> Augmentation(flip=True)(images, rows, torch.device("cpu"), torch.Generator().manual_seed(0)).squeeze()
            tensor([[0, 1, 2, 3],
                    [3, 2, 1, 0],
                    [3, 2, 1, 0]], dtype=torch.uint8)
        """
        places = 2 * self.padding + 1
        mirrors = 2 if self.flip else 1
        if places * mirrors == 1 or len(rows) == 0:
            return images.index_select(0, rows).to(device, non_blocking=True)
        drawn = torch.randint(places * places * mirrors, (len(rows),), generator=generator)
        # On so few numbers NumPy is several times faster than torch.
        place, mirrored = np.divmod(drawn.numpy(), mirrors)
        # Those to be mirrored come first, so that they can be mirrored as one block.
        order = np.argsort(-mirrored, kind="stable")
        taken = images.index_select(0, torch.from_numpy(rows.numpy()[order])).to(device, non_blocking=True)
        block = taken[: int(mirrored.sum())]
        block.copy_(block.flip(-1))
        now_at = np.empty_like(order)
        now_at[order] = np.arange(len(order))
        return _windows(taken, self.padding, now_at, *np.divmod(place, places))


def _windows(images: Tensor, padding: int, rows: Integers, top: Integers, left: Integers) -> Tensor:
    """Cut from each of these rows, padded, the window of the old size at (top, left).

    In the padded batch a window lies between its first and its last pixel. All runs of that length form a view with
    overlapping rows, of which index_select copies the B wanted: a few kilobytes at a time, not pixel by pixel.
    """
    _, channels, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4) if padding else images
    columns = width + 2 * padding
    plane = columns * (height + 2 * padding)
    length = (channels - 1) * plane + (height - 1) * columns + width
    starts = torch.from_numpy(rows * (channels * plane) + top * columns + left)
    runs = padded.as_strided((padded.numel() - length + 1, length), (1, 1))
    found = runs.index_select(0, starts.to(images.device, non_blocking=True))
    return found.as_strided((len(rows), channels, height, width), (length, plane, columns, 1))
