"""Tensors that take long to make, kept in files: what another process may write, damage or take away at any time."""

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor


def remembered(place: Path, make: Callable[[], dict[str, Tensor]], *, at_most: int | None = None) -> dict[str, Tensor]:
    """What ``make`` gives, from the file if it was made before.

    A file that cannot be read or written is done without.

    Args:
        place: the file; what its name begins with, up to the first hyphen, says what kind it is of.
        make: makes the tensors.
        at_most: how many files of the kind to keep, the ones that were used last; None for all.
    """
    with suppress(SafetensorError, OSError):
        found = load_file(place)
        with suppress(OSError):  # a folder that may only be read
            os.utime(place)
        return found
    made = make()
    with suppress(OSError):
        _store(place, made)
        if at_most is not None:
            _forget_oldest(place, at_most)
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


def _forget_oldest(place: Path, at_most: int) -> None:
    kind = place.name.partition("-")[0]
    others = [path for path in place.parent.glob(f"{kind}-*{place.suffix}") if path != place]
    by_use = sorted(others, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in by_use[at_most - 1 :]:
        path.unlink(missing_ok=True)
