"""Where data sets are looked for, and where what is downloaded goes."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$FOCALCAL_CACHE, else ``focalcal`` in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("FOCALCAL_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or "~/.cache").expanduser() / "focalcal"


def data_folders(root: Path | None = None) -> list[Path]:
    """``root`` alone where one is given, else $FOCALCAL_DATA and the folder ``data`` in the cache.

    Examples:
        >>> data_folders(Path("mine"))
        [PosixPath('mine')]
    """
    if root is not None:
        return [Path(root).expanduser()]
    given = os.environ.get("FOCALCAL_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder() / "data"]


def download_folder(root: Path | None = None) -> Path:
    """The last of the folders: the one that is the user's to write to."""
    return data_folders(root)[-1]


def is_offline() -> bool:
    """Whether $FOCALCAL_OFFLINE (or $HF_HUB_OFFLINE) forbids downloads."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes") for name in ("FOCALCAL_OFFLINE", "HF_HUB_OFFLINE")
    )
