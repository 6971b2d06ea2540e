"""CIFAR-10 and CIFAR-100: 50,000 and 10,000 photographs of 32 × 32 pixels."""

from pathlib import Path
from typing import Any

from focalcal.data.augment import Augmentation
from focalcal.data.data_files import DataFile
from focalcal.data.data_sets import CIFAR10, CIFAR10_C_SEVERITIES, CIFAR100
from focalcal.data.data_types import DataSet
from focalcal.data.encoded_images import read_parquet_images
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation

_USUAL = Augmentation(4, flip=True)
_OOD = ("svhn", *CIFAR10_C_SEVERITIES)
CIFAR10_KIND = ImageKind(
    "cifar10", 10, (3, 32, 32), Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), _USUAL, _OOD
)
CIFAR100_KIND = ImageKind(
    "cifar100", 100, (3, 32, 32), Normalisation((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), _USUAL, _OOD
)
_TRAIN, _TEST = 50_000, 10_000
CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_HUNDRED = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_NAMES = tuple(_HUNDRED.split())


def load_cifar10(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load 45,000 images for training, 5,000 for validation, and the official 10,000 for testing."""
    return load_images(
        CIFAR10_KIND,
        lambda folder: _read(folder, CIFAR10, "label", CIFAR10_NAMES),
        seed,
        root,
        ImageOptions(**options),
    )


def load_cifar100(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load 45,000 images for training, 5,000 for validation, the official 10,000 for testing; the 100 fine classes."""
    return load_images(
        CIFAR100_KIND,
        lambda folder: _read(folder, CIFAR100, "fine_label", CIFAR100_NAMES),
        seed,
        root,
        ImageOptions(**options),
    )


def read_cifar10_test(root: Path | None) -> Images:
    """Read the official test images of CIFAR-10, from which CIFAR-10-C is made."""
    return _file(CIFAR10[1], root, "label", 10)[0]


def _file(file: DataFile, root: Path | None, label: str, num_classes: int) -> tuple[Images, str]:
    path = file.obtain(root)
    return read_parquet_images(path, image_column="img", label_column=label, num_classes=num_classes, size=32)


def _read(root: Path | None, files: tuple[DataFile, ...], label: str, names: tuple[str, ...]) -> ImageContents:
    (train, train_hash), (test, test_hash) = (_file(file, root, label, len(names)) for file in files)
    notes = []
    if (len(train.labels), len(test.labels)) != (_TRAIN, _TEST):
        notes.append(
            f"Partial files: {len(train.labels):,} and {len(test.labels):,} images instead of 50,000 and 10,000; "
            "a tenth of the former is held out for validation."
        )
    hashes = {Path(file.path).name: digest for file, digest in zip(files, (train_hash, test_hash), strict=True)}
    return ImageContents(train, test.number_after(train), names, hashes, tuple(notes))
