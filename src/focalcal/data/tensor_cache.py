"""Cache of tensors that take long to make, in files that another process may write, damage or remove at any time."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from focalcal.base.files import atomic_writer, make_folder, regular_file


def load_or_make(
    place: Path, make: Callable[[], dict[str, Tensor]], *, at_most: int | None = None
) -> dict[str, Tensor]:
    """Load what ``make`` gives from the file, if it was made before.

    A file that cannot be read or written is ignored.

    Args:
        place: The file; the beginning of its name, up to the first hyphen, is its kind.
        make: Function that makes the tensors.
        at_most: Number of files of the kind to keep, the ones that were used last; None for all.
    """
    with suppress(SafetensorError, OSError, ValueError):
        found = load_file(regular_file(place))
        with suppress(OSError):  # a folder that may only be read
            os.utime(place)
        return found
    made = make()
    with suppress(OSError, ValueError):
        _store(place, made)
        if at_most is not None:
            _forget_oldest(place, at_most)
    return made


def _store(place: Path, tensors: Mapping[str, Tensor]) -> None:
    make_folder(place.parent)
    with atomic_writer(place) as file:  # several processes may do this at once, and each leaves a whole file
        file.write(save(dict(tensors)))


def _forget_oldest(place: Path, at_most: int) -> None:
    kind = place.name.partition("-")[0]
    others = [path for path in place.parent.glob(f"{kind}-*{place.suffix}") if path != place]
    by_use = sorted(others, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in by_use[at_most - 1 :]:
        path.unlink(missing_ok=True)
