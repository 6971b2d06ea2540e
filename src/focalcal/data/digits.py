"""scikit-learn's 1,797 digits of 8 × 8 pixels: they come with the package, so nothing is downloaded."""

from pathlib import Path
from typing import Any

import torch

from focalcal.data.augment import Augmentation
from focalcal.data.data_types import DataSet
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation
from focalcal.data.splits import hold_out

# Digits are neither symmetric nor do 8 × 8 pixels leave room for a crop: no augmentation.
KIND = ImageKind("digits", 10, (1, 8, 8), Normalisation((0.2873,), (0.3539,)), Augmentation(), validation_share=0.2)
_TEST_SHARE = 0.25
# The test split stands in for an official one, so no choice of the user's changes it.
_TEST_SEED = 1797


def load_digits(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load 1,078 digits for training, 269 for validation, 450 for testing.

    Examples:
        >>> load_digits().facts["sizes"]
        {'train': 1078, 'val': 269, 'test': 450}
    """
    return load_images(KIND, _read, seed, root, ImageOptions(**options))


def _read(root: Path | None) -> ImageContents:
    from sklearn.datasets import load_digits as bundled

    content = bundled()
    # Grey levels are 0…16; 15 times that are whole numbers within a byte.
    images = torch.from_numpy(content.images * 15).to(torch.uint8).unsqueeze(1)
    labels = torch.from_numpy(content.target).long()
    learnt, tested = hold_out(labels, _TEST_SHARE, _TEST_SEED)
    names = tuple(str(digit) for digit in range(10))
    note = "There is no official test set: a quarter of the digits, always the same, is it."
    everything = Images.from_rows(images, labels)
    return ImageContents(everything.take(learnt), everything.take(tested), names, notes=(note,))
