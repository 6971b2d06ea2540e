"""Fashion-MNIST: 60,000 and 10,000 grey images of clothes, 28 × 28, in the IDX format of MNIST."""

from pathlib import Path
from typing import Any

from focalcal.data.augment import Augmentation
from focalcal.data.catalogue import FASHION_MNIST
from focalcal.data.files import file_hash
from focalcal.data.idx import read_idx
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation
from focalcal.data.samples import DataSet

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


def load_fashion_mnist(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """54,000 to learn from, 6,000 for validation, the official 10,000 for testing."""
    return load_images(KIND, _read, seed, root, ImageOptions(**options))


def _read(root: Path | None) -> ImageContents:
    paths = [file.obtained(root) for file in FASHION_MNIST]
    train, test = _pair(*paths[:2]), _pair(*paths[2:])
    return ImageContents(train, test.after(train), CLASS_NAMES, {path.name: file_hash(path) for path in paths})


def _pair(images_path: Path, labels_path: Path) -> Images:
    images, labels = read_idx(images_path, 3).unsqueeze(1), read_idx(labels_path, 1).long()
    if tuple(images.shape[1:]) != KIND.shape:
        size = " × ".join(str(number) for number in images.shape[2:])
        raise ValueError(f"{images_path} has images of {size} pixels, not 28 × 28.")
    if len(images) != len(labels):
        raise ValueError(f"{images_path} has {len(images):,} images, but {labels_path.name} {len(labels):,} labels.")
    if len(labels) == 0 or int(labels.max()) >= KIND.num_classes:
        raise ValueError(f"{labels_path} must hold labels from 0 to 9, and at least one.")
    return Images.of_rows(images, labels)
