"""Images as samples: bytes in memory that become numbers one batch at a time."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from focalcal.data.augment import Augmentation
from focalcal.data.data_types import Batch
from focalcal.data.image_files import ImageFiles


@dataclass(frozen=True)
class Normalisation:
    """(x / 255 − mean) / std for each channel.

    Attributes:
        mean: C means of pixels in [0, 1].
        std: C standard deviations of them.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """Convert (B, C, H, W) bytes to float32, contiguous.

        Examples:
            >>> Normalisation((0.5,), (0.25,))(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).round(decimals=4)
            tensor([[[[-2.,  2.]]]])
        """
        scale, shift = _constants(self, images.shape[2:], images.device)
        pixels = images.to(torch.float32, memory_format=torch.contiguous_format)
        return torch.addcmul(shift, pixels, scale, out=pixels)


@functools.lru_cache(maxsize=32)
def _constants(of: Normalisation, size: torch.Size, device: torch.device) -> tuple[Tensor, Tensor]:
    """Compute 1 / (255 std) and −mean / std for each pixel, (C, H, W) each.

    As large as an image, because a factor that is the same for a whole channel would be taken pixel by pixel.
    """
    mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (of.mean, of.std))
    whole = (len(of.mean), *size)
    scale, shift = (part.float().expand(whole).contiguous().to(device) for part in (1 / (255 * std), -mean / std))
    return scale, shift


class NormalisedPixels(nn.Module):
    """The normalisation of image data as a layer, to put before a network that is to take bytes."""

    scale: Tensor
    shift: Tensor

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        scale, shift = _constants(normalisation, torch.Size((1, 1)), torch.device("cpu"))
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise (B, C, H, W) bytes."""
        return self.shift + images.to(self.scale.dtype) * self.scale


class ImageSamples:
    """N images with their labels; a :class:`~focalcal.data.data_types.Samples`.

    Args:
        images: (N, C, H, W) uint8 on the CPU, or files that are decoded when they are asked for.
        labels: (N,) int64.
        ids: (N,) int64, unique; row numbers where None.
        normalisation: Conversion from bytes to numbers.
        augmentation: Random changes in training.
        names: N names, which stand in predictions for the ids.

    Examples:
        >>> images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        >>> samples = ImageSamples(images, torch.arange(4), normalisation=Normalisation((0.5,), (0.5,)))
        >>> samples.batch(torch.tensor([2, 0]), device=torch.device("cpu"), generator=None).targets
        tensor([2, 0])
    """

    def __init__(
        self,
        images: Tensor | ImageFiles,
        labels: Tensor,
        ids: Tensor | None = None,
        *,
        normalisation: Normalisation,
        augmentation: Augmentation | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise TypeError(f"Images are (N, C, H, W) uint8, got {tuple(images.shape)} {images.dtype}.")
        ids = torch.arange(len(images)) if ids is None else ids
        if not len(images) == len(labels) == len(ids):
            raise ValueError(f"There are {len(images)} images but {len(labels)} labels and {len(ids)} ids.")
        self.images, self.labels, self.ids = images.contiguous(), labels, ids
        self.normalisation, self.augmentation, self.names = normalisation, augmentation or Augmentation(), names

    def __len__(self) -> int:
        return len(self.images)

    def prefetch(self, positions: Tensor) -> None:
        """Begin to decode the images at these positions, if they are files."""
        if isinstance(self.images, ImageFiles):
            self.images.prefetch(positions)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Return the images at these positions as float32 (B, C, H, W), augmented if there is a generator."""
        # Bytes travel to the device: a quarter of what floats would take.
        if generator is None:
            images = self.images.index_select(0, positions).to(device, non_blocking=True)
        else:
            images = self.augmentation(self.images, positions, device, generator)
        return Batch(self.normalisation(images), self.labels.index_select(0, positions).to(device, non_blocking=True))


def compute_pixel_statistics(images: Tensor) -> tuple[Sequence[float], Sequence[float]]:
    """Compute means and standard deviations per channel of pixels in [0, 1], for one's own data.

    Examples:
        >>> compute_pixel_statistics(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
        ([0.5], [0.5])
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        share = torch.bincount(images[:, channel].flatten(), minlength=256).double()
        share /= share.sum()
        mean = share @ values
        means.append(float(mean))
        deviations.append(float((share @ (values - mean).square()).sqrt()))
    return means, deviations
