"""CIFAR-10 and CIFAR-100: 50,000 and 10,000 photographs of 32 × 32 pixels."""

from pathlib import Path
from typing import Any

from focalcal.data.augment import Augmentation
from focalcal.data.catalogue import CIFAR10, CIFAR10_C_SEVERITIES, CIFAR100
from focalcal.data.cifar_names import CIFAR10_NAMES, CIFAR100_NAMES
from focalcal.data.files import DataFile
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation
from focalcal.data.parquet_images import read_parquet_images
from focalcal.data.samples import DataSet

_USUAL = Augmentation(4, flip=True)
_OOD = ("svhn", *CIFAR10_C_SEVERITIES)
CIFAR10_KIND = ImageKind(
    "cifar10", 10, (3, 32, 32), Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), _USUAL, _OOD
)
CIFAR100_KIND = ImageKind(
    "cifar100", 100, (3, 32, 32), Normalisation((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), _USUAL, _OOD
)
_TRAIN, _TEST = 50_000, 10_000


def load_cifar10(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """45,000 to learn from, 5,000 for validation, the official 10,000 for testing."""
    return load_images(
        CIFAR10_KIND,
        lambda folder: _read(folder, CIFAR10, "label", CIFAR10_NAMES),
        seed,
        root,
        ImageOptions(**options),
    )


def load_cifar100(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """45,000 to learn from, 5,000 for validation, the official 10,000 for testing; the 100 fine classes."""
    return load_images(
        CIFAR100_KIND,
        lambda folder: _read(folder, CIFAR100, "fine_label", CIFAR100_NAMES),
        seed,
        root,
        ImageOptions(**options),
    )


def read_cifar10_test(root: Path | None) -> Images:
    """The official test images of CIFAR-10, for what is made of them."""
    return _file(CIFAR10[1], root, "label", 10)[0]


def _file(file: DataFile, root: Path | None, label: str, num_classes: int) -> tuple[Images, str]:
    path = file.obtained(root)
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
    return ImageContents(train, test.after(train), names, hashes, tuple(notes))
