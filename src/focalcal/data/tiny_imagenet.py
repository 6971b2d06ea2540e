"""Tiny-ImageNet: 200 classes of 500 training and 50 test photographs, 64 × 64, read out of the original zip file."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from focalcal.base.files import regular_file
from focalcal.base.suggestions import shorten
from focalcal.data.augment import Augmentation
from focalcal.data.data_files import BROKEN_ARCHIVE, hash_file
from focalcal.data.data_sets import TINY_IMAGENET
from focalcal.data.data_types import DataSet
from focalcal.data.encoded_images import decode_images, load_or_decode
from focalcal.data.image_set import ImageContents, ImageKind, ImageOptions, Images, load_images
from focalcal.data.images import Normalisation

KIND = ImageKind(
    "tiny_imagenet",
    200,
    (3, 64, 64),
    Normalisation((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
    Augmentation(4, flip=True),
)
_TOP = "tiny-imagenet-200"
_TRAINING = re.compile(rf"{_TOP}/train/(n\d+)/images/n\d+_(\d+)\.JPEG")
_LARGEST_MEMBER = 10 << 20


def load_tiny_imagenet(*, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """Load 90,000 images for training, 10,000 (50 per class) held out of them for validation, the official val as test.

    The labels of the official test images were never published, hence the official validation images are the test.
    Classes are in the order of their WordNet ids. A file with fewer classes gives a set with fewer classes.
    """
    return load_images(KIND, _read, seed, root, ImageOptions(**options))


def _read(root: Path | None) -> ImageContents:
    path = TINY_IMAGENET[0].obtain(root)
    digest = hash_file(path)
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            _check_members(path, archive)
            classes = _classes(path, archive)
            found = load_or_decode("tiny_imagenet", digest, lambda: _decode_split(path, archive, sorted(classes)))
    except BROKEN_ARCHIVE as error:
        why = shorten(str(error)).rstrip(".")
        raise ValueError(f"{path} is not a whole zip file ({why}): download it again.") from error
    train = Images.from_rows(found["train_images"], found["train_labels"])
    test = Images.from_rows(found["test_images"], found["test_labels"]).number_after(train)
    names = tuple(classes[wnid] for wnid in sorted(classes))
    return ImageContents(train, test, names, {path.name: digest}, _notes(train, names))


def _notes(train: Images, names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) == KIND.num_classes and len(train.labels) == 100_000:
        return ()
    return (f"Partial file: {len(names)} of 200 classes, {len(train.labels):,} of 100,000 training images.",)


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that tries to leave its folder, although nothing is unpacked to disk."""
    for member in archive.infolist():
        place = PurePosixPath(member.filename)
        if place.is_absolute() or ".." in place.parts or "\\" in member.filename:
            raise ValueError(f"{path} has a member outside of its folder, {member.filename!r}: it is not the original.")
        if member.file_size > _LARGEST_MEMBER:
            raise ValueError(
                f"{path}: {member.filename} would take {member.file_size:,} bytes: it is not the original."
            )


def _text(path: Path, archive: zipfile.ZipFile, name: str) -> list[str]:
    try:
        return archive.read(f"{_TOP}/{name}").decode("utf-8").splitlines()
    except (KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} has no readable {_TOP}/{name}: it is not the original.") from error


def _classes(path: Path, archive: zipfile.ZipFile) -> dict[str, str]:
    """Name each class by its WordNet id; two classes with the same name get their id added."""
    words = dict(line.split("\t", 1) for line in _text(path, archive, "words.txt") if "\t" in line)
    wnids = [line.strip() for line in _text(path, archive, "wnids.txt") if line.strip()]
    names = {wnid: words.get(wnid, wnid).split(",")[0].strip() for wnid in wnids}
    known = list(names.values())
    return {wnid: name if known.count(name) == 1 else f"{name} ({wnid})" for wnid, name in names.items()}


def _decode_split(path: Path, archive: zipfile.ZipFile, wnids: list[str]) -> dict[str, Tensor]:
    label = {wnid: number for number, wnid in enumerate(wnids)}
    train = [match for name in archive.namelist() if (match := _TRAINING.fullmatch(name))]
    train.sort(key=lambda match: (match[1], int(match[2])))
    members = {"train": [(match[0], match[1]) for match in train], "test": _official_val(path, archive)}
    result = {}
    for split, pairs in members.items():
        if not pairs:
            raise ValueError(f"{path} holds no {'training' if split == 'train' else 'validation'} images.")
        if unknown := {wnid for _, wnid in pairs} - set(label):
            raise ValueError(f"{path}: class {min(unknown)!r} is not listed in wnids.txt.")
        result[f"{split}_images"] = decode_images(_iterate(path, archive, [name for name, _ in pairs]), len(pairs), 64)
        result[f"{split}_labels"] = torch.tensor([label[wnid] for _, wnid in pairs])
    return result


def _official_val(path: Path, archive: zipfile.ZipFile) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in _text(path, archive, "val/val_annotations.txt") if line]
    if any(len(row) < 2 for row in rows):
        raise ValueError(f"{path}: a line of val_annotations.txt lacks a class.")
    if len({row[0] for row in rows}) < len(rows):
        raise ValueError(f"{path}: val_annotations.txt names an image twice.")
    return [(f"{_TOP}/val/images/{row[0]}", row[1]) for row in rows]


def _iterate(path: Path, archive: zipfile.ZipFile, names: list[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        try:
            content = archive.read(name)
        except KeyError:
            raise ValueError(f"{path} lacks {name}.") from None
        yield f"{path}, {name}", content
