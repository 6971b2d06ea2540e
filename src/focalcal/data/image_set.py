"""Image data sets: the images of the files, split into samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from focalcal.data.augment import Augmentation
from focalcal.data.data_types import DataSet
from focalcal.data.images import ImageSamples, Normalisation
from focalcal.data.splits import choose_balanced_subset, hash_split, hold_out


class Images(NamedTuple):
    """The images of a file.

    Attributes:
        images: (N, C, H, W) uint8.
        labels: (N,) int64.
        ids: (N,) int64, no two of a data set the same.
    """

    images: Tensor
    labels: Tensor
    ids: Tensor

    @classmethod
    def from_rows(cls, images: Tensor, labels: Tensor, first_id: int = 0) -> "Images":
        """Make images whose ids are their row numbers, counted from ``first_id``."""
        return cls(images, labels, torch.arange(first_id, first_id + len(labels)))

    def number_after(self, earlier: "Images") -> "Images":
        """Return the same images with ids that follow those of another file."""
        return self._replace(ids=self.ids + len(earlier.ids))

    def take(self, rows: Tensor) -> "Images":
        """Return some of the images."""
        return Images(*(column.index_select(0, rows) for column in self))


@dataclass(frozen=True)
class ImageKind:
    """Facts about an image set that are known before a file is read.

    Attributes:
        name: Name in recipes.
        num_classes: Number of classes of the whole set.
        shape: (C, H, W).
        normalisation: With the set's own mean and standard deviation.
        augmentation: Usual augmentation in training.
        ood: Out-of-distribution sets that have images of this shape.
        validation_share: Share of the official training images that is held out; a tenth, as in the paper.
    """

    name: str
    num_classes: int
    shape: tuple[int, int, int]
    normalisation: Normalisation
    augmentation: Augmentation
    ood: tuple[str, ...] = ()
    validation_share: float = 0.1


@dataclass(frozen=True)
class ImageContents:
    """Contents of the files.

    Attributes:
        train: Images of the official training file, from which validation is held out.
        test: Those of the official test file.
        class_names: K names.
        files: SHA-256 of each file, by name.
        notes: Differences from the published set, in sentences.
    """

    train: Images
    test: Images
    class_names: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


OodSet = tuple[ImageSamples, dict[str, Any]]


@dataclass(frozen=True)
class ImageOptions:
    """The options that every image set has; see :func:`focalcal.data.data_sets.load_data`."""

    train_size: int | None = None
    augment: bool | str = True
    ood: Sequence[str] = ()
    synthetic: int | None = None


def load_images(
    kind: ImageKind, read: Callable[[Path | None], ImageContents], seed: int, root: Path | None, options: ImageOptions
) -> DataSet:
    """Load the splits of an image set."""
    _check_ood(kind, options.ood)
    if options.synthetic is not None:
        return _synthetic(kind, options.synthetic, seed, options)
    contents = read(root)
    kept, held = hold_out(contents.train.labels, kind.validation_share, seed)
    if len(held) == 0:
        raise ValueError(f"{kind.name}: {len(kept)} training images are too few to hold any out for validation.")
    if options.train_size is not None:
        kept = kept[choose_balanced_subset(contents.train.labels[kept], options.train_size, seed)]
    train = _samples(kind, contents.train.take(kept), choose_augmentation(kind, options.augment))
    splits = {"val": _samples(kind, contents.train.take(held)), "test": _samples(kind, contents.test)}
    facts = {"split_seed": seed, "files": dict(contents.files), "notes": list(contents.notes)}
    ood = _ood(kind, options.ood, root, contents)
    return build_image_data_set(kind, contents.class_names, train, splits, facts, ood)


def _samples(kind: ImageKind, images: Images, augmentation: Augmentation | None = None) -> ImageSamples:
    return ImageSamples(*images, normalisation=kind.normalisation, augmentation=augmentation)


def choose_augmentation(kind: ImageKind, wanted: bool | str) -> Augmentation | None:
    """Return the augmentation that the option ``augment`` asks for."""
    if wanted == "flip":
        return Augmentation(flip=True)
    if not isinstance(wanted, bool):
        raise ValueError(f"augment must be true, false or 'flip' (mirror images without crops), got {wanted!r}.")
    return kind.augmentation if wanted else None


def _check_ood(kind: ImageKind, names: Sequence[str]) -> None:
    for name in [names] if isinstance(names, str) else names:
        if name not in kind.ood:
            known = f"those are {', '.join(kind.ood)}" if kind.ood else "it has none"
            raise ValueError(f"{name!r} is not an out-of-distribution set of {kind.name}: {known}.")
    if isinstance(names, str):
        raise TypeError(f"ood is a list of names; write [{names!r}].")


def _ood(kind: ImageKind, names: Sequence[str], root: Path | None, contents: ImageContents) -> dict[str, OodSet]:
    from focalcal.data.ood_images import read_ood

    found: dict[str, OodSet] = {}
    for name in dict.fromkeys(names):
        images, facts = read_ood(name, root, contents.test if kind.name == "cifar10" else None)
        # The classes are others, so the labels say nothing; they must only be possible.
        images = images._replace(labels=images.labels.clamp(0, len(contents.class_names) - 1))
        found[name] = (_samples(kind, images), facts)
    return found


def build_image_data_set(
    kind: ImageKind,
    class_names: tuple[str, ...],
    train: ImageSamples,
    splits: dict[str, ImageSamples],
    facts: dict[str, Any],
    ood: Mapping[str, OodSet],
) -> DataSet:
    """Put the splits together, with what networks and the records of runs need to know of them."""
    evaluation = {**splits, **{name: samples for name, (samples, _) in ood.items()}}
    everything = {"train": train, **evaluation}
    facts["sizes"] = {name: len(samples) for name, samples in everything.items()}
    facts["split_sha256"] = {name: hash_split(samples.ids) for name, samples in everything.items()}
    if ood:
        facts["ood"] = {name: about for name, (_, about) in ood.items()}
    channels, _, size = train.images.shape[1:]
    needs = {"num_classes": len(class_names), "in_channels": channels, "image_size": size}
    return DataSet(kind.name, class_names, train, evaluation, needs, facts)


def _synthetic(kind: ImageKind, count: int, seed: int, options: ImageOptions) -> DataSet:
    if count < 1:
        raise ValueError(f"synthetic is the number of random images in each split, at least 1; got {count}.")
    generator = torch.Generator().manual_seed(seed)

    def draw_images(place: int, augmentation: Augmentation | None = None) -> ImageSamples:
        images = torch.randint(256, (count, *kind.shape), dtype=torch.uint8, generator=generator)
        labels = torch.randint(kind.num_classes, (count,), generator=generator)
        return _samples(kind, Images.from_rows(images, labels, place * count), augmentation)

    train = draw_images(0, choose_augmentation(kind, options.augment))
    splits = {name: draw_images(place) for place, name in enumerate(["val", "test", *options.ood], start=1)}
    names = tuple(f"class {number}" for number in range(kind.num_classes))
    facts = {"split_seed": seed, "files": {}, "notes": ["The images are random numbers: no file was read."]}
    return build_image_data_set(kind, names, train, splits, facts, {})
