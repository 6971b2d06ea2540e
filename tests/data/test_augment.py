"""Crops and mirror images, against an obvious version that goes image by image."""

import pytest
import torch
from torch.nn import functional

from focalcal.data.augment import Augmentation

CPU = torch.device("cpu")


def one_by_one(images, rows, augmentation, generator):
    places, mirrors = 2 * augmentation.padding + 1, 2 if augmentation.flip else 1
    drawn = torch.randint(places * places * mirrors, (len(rows),), generator=generator).tolist()
    height, width = images.shape[2:]
    done = []
    for row, number in zip(rows.tolist(), drawn, strict=True):
        image = images[row].flip(-1) if number % mirrors else images[row]
        top, left = divmod(number // mirrors, places)
        padded = functional.pad(image, (augmentation.padding,) * 4)
        done.append(padded[:, top : top + height, left : left + width])
    return torch.stack(done)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 5, 9), (1, 1, 1)])
@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("flip", [True, False])
def test_equals_the_obvious_version(shape, padding, flip):
    images = torch.randint(256, (50, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    augmentation = Augmentation(padding, flip)
    rows = torch.randint(50, (37,), generator=torch.Generator().manual_seed(2))
    expected = one_by_one(images, rows, augmentation, torch.Generator().manual_seed(3))
    assert torch.equal(augmentation(images, rows, CPU, torch.Generator().manual_seed(3)), expected)


def test_leaves_the_images_as_they_were():
    images = torch.randint(256, (8, 3, 8, 8), dtype=torch.uint8)
    before = images.clone()
    Augmentation(2, flip=True)(images, torch.arange(8), CPU, torch.Generator().manual_seed(0))
    assert torch.equal(images, before)


def test_every_place_and_both_mirror_images_are_equally_likely():
    images = torch.zeros(1, 1, 3, 3, dtype=torch.uint8)
    images[0, 0, 1, 0] = 1  # left of the middle: its place tells the crop and the mirror image
    generator = torch.Generator().manual_seed(0)
    count = 18_000
    batch = Augmentation(1, flip=True)(images, torch.zeros(count, dtype=torch.int64), CPU, generator)
    seen, times = torch.unique(batch.reshape(count, 9), dim=0, return_counts=True)
    empty = int(times[seen.sum(1) == 0])
    mirrored = int(batch[..., 2].sum())
    # Of 18 outcomes 6 lose the pixel (a third); 6 show it in the left column, 6 in the right or middle.
    assert abs(empty / count - 1 / 3) < 0.02
    assert mirrored > 0
    assert len(seen) == 10


def test_one_batch_takes_one_call_of_the_generator():
    generator, other = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    images = torch.zeros(16, 3, 8, 8, dtype=torch.uint8)
    Augmentation(4, flip=True)(images, torch.arange(16), CPU, generator)
    torch.randint(162, (16,), generator=other)
    assert torch.equal(generator.get_state(), other.get_state())


def test_an_empty_batch_is_empty():
    images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    rows = torch.zeros(0, dtype=torch.int64)
    assert Augmentation(4, flip=True)(images, rows, CPU, torch.Generator()).shape == (0, 3, 8, 8)
