import pytest
import torch

from focalcal.data.augment import Augmentation
from focalcal.data.images import ImageSamples, Normalisation, compute_pixel_statistics

CPU = torch.device("cpu")
COLOURS = Normalisation((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


def samples(count=10, **options):
    images = torch.randint(256, (count, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return ImageSamples(images, torch.arange(count) % 3, torch.arange(count) + 100, normalisation=COLOURS, **options)


def test_without_a_generator_a_batch_is_only_normalised():
    some = samples(augmentation=Augmentation(2, flip=True))
    rows = torch.tensor([7, 0, 7])
    batch = some.batch(rows, device=CPU, generator=None)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (COLOURS.mean, COLOURS.std))
    torch.testing.assert_close(batch.inputs, (some.images[rows] / 255 - mean) / std)
    assert batch.targets.tolist() == [1, 0, 1]
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.is_contiguous()


def test_black_padding_is_normalised_like_any_pixel():
    some = samples(augmentation=Augmentation(8))
    batch = some.batch(torch.zeros(200, dtype=torch.int64), device=CPU, generator=torch.Generator().manual_seed(0))
    black = torch.tensor([-2.5, -1.6, -1.0])
    torch.testing.assert_close(batch.inputs.amin((0, 2, 3)), black)
    assert batch.inputs.is_contiguous()


def test_the_same_state_gives_the_same_batch_and_the_next_another():
    some, generator = samples(augmentation=Augmentation(4, flip=True)), torch.Generator().manual_seed(1)
    state = generator.get_state()
    first, second = (some.batch(torch.arange(10), device=CPU, generator=generator).inputs for _ in range(2))
    generator.set_state(state)
    assert torch.equal(first, some.batch(torch.arange(10), device=CPU, generator=generator).inputs)
    assert not torch.equal(first, second)


def test_images_must_be_bytes_and_as_many_as_labels():
    with pytest.raises(TypeError, match="uint8, got"):
        ImageSamples(torch.zeros(2, 3, 8, 8), torch.zeros(2), normalisation=COLOURS)
    with pytest.raises(ValueError, match="2 images but 3 labels"):
        ImageSamples(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.zeros(3), normalisation=COLOURS)


def test_pixel_statistics_are_those_of_the_pixels():
    images = samples().images
    means, deviations = compute_pixel_statistics(images)
    pixels = images.double() / 255
    torch.testing.assert_close(torch.tensor(means).double(), pixels.mean((0, 2, 3)), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        torch.tensor(deviations).double(), pixels.std((0, 2, 3), correction=0), rtol=1e-6, atol=0
    )
