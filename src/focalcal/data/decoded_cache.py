"""Decoded images, kept in the cache folder: decoding CIFAR-10 takes seconds, reading the result a fraction of one."""

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from focalcal.data.folders import cache_folder

# Part of the name, to be raised when what is stored changes.
_VERSION = 1


def remembered(name: str, source_hash: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """What ``make`` gives, from the cache if it was made before from a file with the same SHA-256.

    A cache that cannot be read or written is done without.
    """
    place = cache_folder() / "decoded" / f"{name}-{source_hash}-v{_VERSION}.safetensors"
    if place.is_file():
        with contextlib.suppress(SafetensorError, OSError):
            return load_file(place)
    made = make()
    with contextlib.suppress(OSError):
        _store(place, made)
    return made


def _store(place: Path, tensors: Mapping[str, Tensor]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: several processes may do this at once, and each leaves a whole file.
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.write_bytes(save(dict(tensors)))
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
