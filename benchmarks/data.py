"""A batch of augmented images, against Pillow image by image; and CIFAR-10 from parquet to tensors."""

import os
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.timing import machine, medians
from focalcal.data import load_data
from focalcal.data.augment import Augmentation
from focalcal.data.data_sets import CIFAR10
from focalcal.data.images import ImageSamples, Normalisation

BATCH, PADDING = 128, 4
_TARGET = 20
_NORMALISATION = Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def _cropped(image: Image.Image, generator: random.Random) -> Image.Image:
    """Pillow pads with black where a crop leaves the image."""
    left, top = generator.randint(-PADDING, PADDING), generator.randint(-PADDING, PADDING)
    changed = image.crop((left, top, left + image.width, top + image.height))
    return changed.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if generator.random() < 0.5 else changed


def usual(arrays: list[np.ndarray], generator: random.Random) -> torch.Tensor:
    """Do what a data set with transforms and a loader does: each image becomes a tensor, then they are stacked."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_NORMALISATION.mean, _NORMALISATION.std))
    done = []
    for array in arrays:
        pixels = torch.from_numpy(np.array(_cropped(Image.fromarray(array), generator)))
        done.append(pixels.permute(2, 0, 1).contiguous().float().div(255).sub_(mean).div_(std))
    return torch.stack(done)


def lean(images: list[Image.Image], generator: random.Random) -> torch.Tensor:
    """Do the least possible image by image: ready Pillow images, one pass of NumPy each, one stack."""
    mean = np.array(_NORMALISATION.mean, np.float32) * 255
    scale = 1 / (np.array(_NORMALISATION.std, np.float32) * 255)
    done = [(np.asarray(_cropped(image, generator), np.float32) - mean) * scale for image in images]
    return torch.from_numpy(np.stack([pixels.transpose(2, 0, 1) for pixels in done]))


def augmentation(size: int, quick: bool) -> float:
    """Measure how many times faster a batch of square images is."""
    pixels = torch.randint(256, (256 if quick else 2000, 3, size, size), dtype=torch.uint8)
    samples = ImageSamples(
        pixels,
        torch.zeros(len(pixels), dtype=torch.int64),
        normalisation=_NORMALISATION,
        augmentation=Augmentation(PADDING, flip=True),
    )
    # Several batches in a row, as in an epoch: one alone would be timed with what Pillow left in the caches.
    batches = torch.randperm(len(pixels))[: BATCH * 15].split(BATCH)
    chosen = batches[0]
    arrays = [np.ascontiguousarray(image.permute(1, 2, 0).numpy()) for image in pixels[chosen]]
    images = [Image.fromarray(array) for array in arrays]
    generator, pillow_generator = torch.Generator().manual_seed(0), random.Random(0)
    device = torch.device("cpu")

    def epoch() -> None:
        for rows in batches:
            samples.batch(rows, device=device, generator=generator)

    times = medians(
        {
            "ours": epoch,
            "usual": lambda: usual(arrays, pillow_generator),
            "lean": lambda: lean(images, pillow_generator),
        },
        quick=quick,
    )
    times["ours"] /= len(batches)
    cells = " | ".join(f"{1e3 * times[name]:.2f}" for name in ("ours", "usual", "lean"))
    ratios = [times[name] / times["ours"] for name in ("usual", "lean")]
    print(f"| {size} × {size} | {cells} | {ratios[0]:.0f} × | {ratios[1]:.0f} × |")
    return ratios[0]


def loading() -> None:
    """Time the way from parquet to tensors: with an empty cache of decoded images, then with a full one."""
    if any(file.locate() is None for file in CIFAR10):
        print("CIFAR-10 is not here (set FOCALCAL_DATA): loading is not timed.")
        return
    kept = os.environ.get("FOCALCAL_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FOCALCAL_CACHE"] = str(Path(folder))
        try:
            for what in ("decoding every image", "decoded before, from the cache"):
                start = time.perf_counter()
                load_data("cifar10")
                print(f"CIFAR-10 from parquet to tensors, {what}: {time.perf_counter() - start:.2f} s")
        finally:
            del os.environ["FOCALCAL_CACHE"]
            if kept is not None:
                os.environ["FOCALCAL_CACHE"] = kept


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"\n## Data: crop, flip and normalise {BATCH} images ({machine()})\n")
    print("| images | a batch at once, ms | image by image, ms | leanest, ms | faster | than the leanest |")
    print("|:--|--:|--:|--:|--:|--:|")
    # As in training, where larger tensors than these come and go: the C library keeps what is freed.
    torch.empty(31 << 20, dtype=torch.uint8)
    ratios = [augmentation(size, quick) for size in (32, 64)]
    print()
    if quick:
        print("CIFAR-10 is not loaded in a quick run.")
    else:
        loading()
    met = "met" if ratios[0] >= _TARGET else "MISSED"
    print(f"Target of {_TARGET} × at 32 × 32, against transforms image by image: {met} ({ratios[0]:.0f} ×).")
