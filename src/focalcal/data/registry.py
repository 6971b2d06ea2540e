"""Data sets by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalcal.base.suggestions import nearest_name
from focalcal.data.catalogue import CATALOGUE, Entry

if TYPE_CHECKING:  # a list of names should not take the second that importing torch takes
    from focalcal.data.samples import DataSet

# Module and function, imported when the set is asked for: each takes seed, root and its options by keyword.
_LOADERS: dict[str, str] = {
    "digits": "focalcal.data.digits:load_digits",
    "fashion_mnist": "focalcal.data.fashion_mnist:load_fashion_mnist",
    "cifar10": "focalcal.data.cifar:load_cifar10",
    "cifar100": "focalcal.data.cifar:load_cifar100",
    "tiny_imagenet": "focalcal.data.tiny_imagenet:load_tiny_imagenet",
    "sst": "focalcal.data.sst:load_sst",
    "newsgroups": "focalcal.data.newsgroups:load_newsgroups",
    "text": "focalcal.data.texts:load_texts",
}
_IMAGE_SETS = ("digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
DATA_NAMES = tuple(_LOADERS)


def load_data(name: str, *, seed: int = 0, root: Path | None = None, **options: Any) -> DataSet:
    """A data set by its name, split and ready for training.

    Args:
        name: digits, fashion_mnist, cifar10, cifar100, tiny_imagenet, or a text set (see the page on data).
        seed: of the split into training and validation samples; the test samples are the official ones.
        root: the folder to look in and to download to; default: $FOCALCAL_DATA, then the cache.
        options: of the set. Image sets have ``train_size`` (so many training images, class by class the same number),
            ``augment`` (True: random crops and mirror images where they are usual; "flip": mirror images only),
            ``ood`` (names of sets to be evaluated out of distribution: svhn, cifar10_c, which is severity 5, and
            cifar10_c_1 to cifar10_c_4; for CIFAR) and ``synthetic`` (so many random images in each
            split, without reading a file).

    Returns:
        The splits, and what a network and a run must know of them.

    Raises:
        ValueError: there is no such set or option, a file is missing, or it is damaged.

    Examples:
        >>> data = load_data("digits", train_size=500)
        >>> len(data.train), sorted(data.evaluation), data.model_options["num_classes"]
        (500, ['test', 'val'], 10)
    """
    loader = _loader(name)
    _check_options(name, options, _image_options() if name in _IMAGE_SETS else _keywords(loader))
    return loader(seed=seed, root=None if root is None else Path(root), **options)


def known_entry(name: str) -> Entry:
    """The catalogue's line on a data set, out-of-distribution ones included."""
    _check_name(name, CATALOGUE)
    return CATALOGUE[name]


def _check_name(name: str, known: Collection[str]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"The name of a data set is a string, got {type(name).__name__}.")
    if name not in known:
        raise ValueError(f"There is no data set {name!r}{_suggestion(name, known)}; known are {', '.join(known)}.")


def _loader(name: str) -> Callable[..., DataSet]:
    if isinstance(name, str) and name in CATALOGUE and not CATALOGUE[name].trainable:
        raise ValueError(f"{name} is for evaluation only: name it in the option ood of cifar10 or cifar100.")
    _check_name(name, _LOADERS)
    module, function = _LOADERS[name].split(":")
    loader: Callable[..., DataSet] = getattr(importlib.import_module(module), function)
    return loader


def _image_options() -> list[str]:
    from focalcal.data.image_set import ImageOptions

    return [field.name for field in fields(ImageOptions)]


def _keywords(loader: Callable[..., DataSet]) -> list[str]:
    return [name for name in inspect.signature(loader).parameters if name not in ("seed", "root")]


def _check_options(name: str, options: dict[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{_suggestion(option, known)}; it has {', '.join(known)}.")


def _suggestion(wrong: str, known: Collection[str]) -> str:
    nearest = nearest_name(wrong, known)
    return f": did you mean {nearest!r}?" if nearest else ""
