"""Decoded images, kept in the cache folder: decoding CIFAR-10 takes seconds, reading the result a fraction of one."""

from collections.abc import Callable

from torch import Tensor

from focalcal.data.folders import cache_folder
from focalcal.data.tensor_cache import remembered

# Part of the name, to be raised when what is stored changes.
_VERSION = 1


def remembered_images(name: str, source_hash: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """What ``make`` gives, from the cache if it was made before from a file with the same SHA-256."""
    return remembered(cache_folder() / "decoded" / f"{name}-{source_hash}-v{_VERSION}.safetensors", make)
