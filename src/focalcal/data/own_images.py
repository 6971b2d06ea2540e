"""A user's own images: a folder with one folder per class, in memory or decoded batch by batch."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalcal.data.augment import Augmentation
from focalcal.data.data_types import DataSet
from focalcal.data.image_files import ClassFolders, ImageFiles, list_class_folders, read_header
from focalcal.data.image_set import ImageKind, build_image_data_set, choose_augmentation
from focalcal.data.images import ImageSamples, Normalisation, compute_pixel_statistics
from focalcal.data.label_names import number_labels, sort_names
from focalcal.data.splits import choose_balanced_subset, choose_splits

_SPLITS = ("train", "val", "test")
# Pixels that are kept in memory if nothing else is asked for.
_BYTES_IN_MEMORY = 2 * 2**30
_MOST_WORKERS = 8
# Training images whose pixels give the mean and the standard deviation: as many, whether they are in memory or not.
_MEASURED = 2000
# Crops move an image by up to an eighth of its size, as those of CIFAR.
_PADDING_SHARE = 8


def load_image_folder(
    *,
    seed: int = 0,
    root: Path | None = None,
    path: Path | str | None = None,
    size: int | None = None,
    channels: int | None = None,
    val_share: float = 0.1,
    test_share: float = 0.1,
    train_size: int | None = None,
    augment: bool | str = False,
    in_memory: bool | None = None,
    workers: int | None = None,
) -> DataSet:
    """Load a user's own images: one folder per class, whose name is the class's.

    Args:
        seed: Seed for the split.
        root: Not used here, as the folder is named.
        path: A folder of class folders; or of ``train``, and ``val`` and ``test`` if there are any, each with the class
            folders. What has no folder is held out from the training images, the same share of every class.
        size: Height and width that the largest square in the middle of each image is resized to. None: that of the
            images, which must then all be squares of one size.
        channels: 3, or 1 for grey. None: 1 if all images are grey.
        val_share: Share of each class that is held out for validation.
        test_share: The same for test.
        train_size: Number of training images, equal for all classes; None: all.
        augment: Random crops and mirror images in training; "flip": mirror images only; default: neither, as a mirror
            image is not always of the same class.
        in_memory: Keep all pixels in memory, or decode every batch again. None: in memory up to 2 GB. The results are
            the same.
        workers: Threads that decode; None: one per core, at most 8.

    Raises:
        ValueError: One sentence on what is wrong with which folder or file.
    """
    folders = _find_folders(path)
    listed = {split: list_class_folders(folder) for split, folder in folders.items()}
    names = sort_names(listed["train"].classes)
    if len(names) < 2:
        raise ValueError(f"{folders['train']} has one class folder, {names[0]}; at least 2 are needed to learn from.")
    labels = {split: _number(found, names, folders[split]) for split, found in listed.items()}
    files = [file for found in listed.values() for file in found.files]
    shape = _choose_shape(files, size, channels)
    advice = "add images, folders val and test, or raise data.val_share and data.test_share"
    chosen = choose_splits(labels, {"val": val_share, "test": test_share}, seed, advice)
    everything = torch.cat(list(labels.values()))
    if train_size is not None:
        learnt = chosen["train"]
        chosen["train"] = learnt[choose_balanced_subset(everything[learnt], train_size, seed)]
    keep = in_memory if in_memory is not None else len(files) * shape[0] * shape[1] ** 2 <= _BYTES_IN_MEMORY
    workers = min(os.cpu_count() or 1, _MOST_WORKERS) if workers is None else workers
    images = {
        split: ImageFiles([files[place] for place in positions.tolist()], *shape, workers=workers)
        for split, positions in chosen.items()
    }
    facts = {
        "split_seed": seed,
        "files": {"names and sizes": _hash_listing(files, folders["train"])},
        "notes": [],
        "announcement": _describe(listed, shape, size, keep),
    }
    return build_own_images(
        "images",
        names,
        {split: found.load() if keep else found for split, found in images.items()},
        {split: everything[positions] for split, positions in chosen.items()},
        ids=chosen,
        augment=augment,
        seed=seed,
        facts=facts,
        sample_names=_relative(files, folders["train"] if len(folders) == 1 else folders["train"].parent),
    )


def build_own_images(
    name: str,
    class_names: tuple[str, ...],
    images: Mapping[str, Tensor | ImageFiles],
    labels: Mapping[str, Tensor],
    *,
    ids: Mapping[str, Tensor],
    seed: int,
    facts: dict[str, Any],
    augment: bool | str = False,
    sample_names: Sequence[str] | None = None,
) -> DataSet:
    """Make a data set of images that are normalised by the mean and standard deviation of training pixels.

    Args:
        name: Name of the data set.
        class_names: K names.
        images: (N, C, S, S) uint8 of each split, ``train`` among them.
        labels: (N,) int64 of each.
        ids: (N,) int64 of each, no two the same.
        seed: Seed for the training images whose pixels are measured.
        facts: Facts for the records of a run; sizes and hashes are added.
        augment: Random changes of training images.
        sample_names: Name of each sample by its id.
    """
    channels, size = images["train"].shape[1:3]
    normalisation = _measure_pixels(images["train"], seed)
    augmentation = Augmentation(padding=max(1, size // _PADDING_SHARE), flip=True)
    kind = ImageKind(name, len(class_names), (channels, size, size), normalisation, augmentation)
    samples = {
        split: ImageSamples(
            pixels,
            labels[split],
            ids[split],
            normalisation=normalisation,
            augmentation=choose_augmentation(kind, augment) if split == "train" else None,
            names=None if sample_names is None else [sample_names[number] for number in ids[split].tolist()],
        )
        for split, pixels in images.items()
    }
    facts["normalisation"] = {"mean": list(normalisation.mean), "std": list(normalisation.std)}
    train = samples.pop("train")
    return build_image_data_set(kind, class_names, train, samples, facts, {})


def _measure_pixels(images: Tensor | ImageFiles, seed: int) -> Normalisation:
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:_MEASURED]
    means, deviations = compute_pixel_statistics(images.index_select(0, chosen))
    # A channel that is the same everywhere has no deviation to divide by.
    return Normalisation(tuple(means), tuple(max(value, 1 / 255) for value in deviations))


def _find_folders(path: Path | str | None) -> dict[str, Path]:
    """Find the folder of each split; a folder without one called train has the classes themselves."""
    if path is None:
        raise ValueError("The data set images needs path, a folder with one folder of images per class.")
    top = Path(path).expanduser()
    if not top.is_dir():
        what = "is a file, not a folder" if top.exists() else "does not exist"
        raise ValueError(f"{top} {what}; set data.path to a folder with one folder of images per class.")
    inside = sorted(entry.name for entry in top.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not inside:
        raise ValueError(f"{top} has no folders; put the images into one folder per class.")
    if "train" not in inside or not any(entry.is_dir() for entry in (top / "train").iterdir()):
        return {"train": top}
    others = [name for name in inside if name not in _SPLITS]
    if others:
        raise ValueError(f"{top} has a folder train and a folder {others[0]}; those beside train are val and test.")
    return {split: top / split for split in _SPLITS if split in inside}


def _number(found: ClassFolders, names: Sequence[str], folder: Path) -> Tensor:
    for name in sorted(set(found.classes) - set(names)):
        raise ValueError(f"{folder / name} is a class that train does not have; add images of it there, or remove it.")
    return number_labels(found.classes, names, str(folder), "train")


def _choose_shape(files: Sequence[Path], size: int | None, channels: int | None) -> tuple[int, int]:
    """Return channels and size; headers are read only for what is not given."""
    if size is not None and channels is not None:
        return channels, size
    headers = [(file, read_header(file)) for file in files]
    if channels is None:
        channels = 1 if all(header.grey for _, header in headers) else 3
    if size is None:
        first, (width, height, _) = headers[0]
        for file, header in headers:
            if not header.width == header.height == width:
                found = f"{file} has {header.width} × {header.height} pixels"
                beside = "" if file is first else f" and {first} has {width} × {height}"
                raise ValueError(f"{found}{beside}: set data.size, such as 64, to resize all to squares of one size.")
        size = height
    return channels, size


def _hash_listing(files: Sequence[Path], folder: Path) -> str:
    """Compute the SHA-256 of names and sizes of the files; to read them all could take hours."""
    listing = "".join(f"{os.path.relpath(file, folder)}\t{file.stat().st_size}\n" for file in files)
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()


def _relative(files: Sequence[Path], folder: Path) -> list[str]:
    names = [file.relative_to(folder).as_posix() for file in files]
    return [name.encode("utf-8", "replace").decode() for name in names]


def _describe(listed: Mapping[str, ClassFolders], shape: tuple[int, int], size: int | None, keep: bool) -> str:
    resized = "" if size is None else ", cut to squares and resized"
    others = sum(found.others for found in listed.values())
    left_out = f"; {others:,} file(s) that are not images were left out" if others else ""
    kept = "kept in memory" if keep else "decoded batch by batch"
    return f"Images of {shape[0]} × {shape[1]} × {shape[1]} pixels{resized}, {kept}{left_out}."
