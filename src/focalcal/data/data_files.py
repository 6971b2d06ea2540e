"""Files of data sets: looked for in the known folders, else downloaded, else asked for in one sentence."""

import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from focalcal.base.files import file_sha256, read_at_most, regular_file

# What reading a zip or gz raises that is damaged, has a password, or was packed in an unknown way; gzip and bzip2 call
# damage an OSError.
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError)


# Text is packed to a third, and never to a hundredth: what unpacks to more than that is a bomb.
_PLAUSIBLE_RATIO, _ALWAYS_PLAUSIBLE = 100, 64 * 2**20
LARGEST_UNPACKED = 16 * 2**30
LONGEST_LINE = 2**20


class MissingDataError(ValueError):
    """A file that cannot be found; the message says where to put it."""


@dataclass(frozen=True)
class DataFile:
    """A file under the name that its publisher gave it.

    Attributes:
        path: Path under a data folder, such as ``cifar10/plain_text/test-00000-of-00001.parquet``.
        url: Its original address.
        hub: (repository, path in it) on the Hugging Face hub, instead of an address.
        size: Size of the published file in bytes, if known.
        md5: MD5 of the published file, if known.
        system: A folder in which a package of the operating system puts it.
        instead: Patterns for files that can be used instead, such as ``glove/*.100d.txt``.
    """

    path: str
    url: str | None = None
    hub: tuple[str, str] | None = None
    size: int | None = None
    md5: str | None = None
    system: str | None = None
    instead: tuple[str, ...] = ()

    def locate(self, root: Path | None = None) -> Path | None:
        """Find the file, or return None."""
        places = [folder / self.path for folder in data_folders(root)]
        if self.system is not None and root is None:
            places.append(Path(self.system) / Path(self.path).name)
        places += [place for folder in data_folders(root) for like in self.instead for place in folder.glob(like)]
        return next((place for place in places if place.is_file()), None)

    def obtain(self, root: Path | None = None) -> Path:
        """Find the file, or download it."""
        found = self.locate(root)
        return self._download(root) if found is None else found

    def _download(self, root: Path | None) -> Path:
        if is_offline():
            raise MissingDataError(self.request(root, "downloads are switched off by FOCALCAL_OFFLINE"))
        if self.url is None and self.hub is None:
            raise MissingDataError(self.request(root, "there is no address to download it from"))
        from focalcal.data.download import DownloadError, download, download_from_hub

        target = download_folder(root) / self.path
        try:
            if self.hub is not None:
                download_from_hub(*self.hub, target)
            elif self.url is not None:
                download(self.url, target, size=self.size, md5=self.md5)
        except DownloadError as error:
            raise MissingDataError(self.request(root, str(error))) from error
        return target

    def request(self, root: Path | None, reason: str) -> str:
        """Say in one sentence where to put the file and where it is from."""
        folders = " or ".join(str(folder) for folder in data_folders(root))
        source = self.url or (f"https://huggingface.co/datasets/{self.hub[0]}" if self.hub else "its publisher")
        target = download_folder(root) / self.path
        return f"{self.path} is not in {folders} and {reason}: put the file from {source} at {target}."


def largest_unpacked(path: Path) -> int:
    """Return how many bytes an archive of texts may hold: a hundred times its size, and 64 MB in any case."""
    return min(LARGEST_UNPACKED, max(_ALWAYS_PLAUSIBLE, _PLAUSIBLE_RATIO * os.path.getsize(path)))


def read_gzip(path: Path) -> bytes:
    """Unpack a gz file into memory.

    Raises:
        ValueError: It holds far more than a text of its size can.
    """
    most = largest_unpacked(regular_file(path))
    with gzip.open(regular_file(path)) as file:
        content = read_at_most(file, most)
    if len(content) > most:
        raise ValueError(f"{path} unpacks to more than {most:,} bytes, which no text of its size does; fetch it again.")
    return content


def bounded_lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Read a stream line by line; a line of more than 1 MB is refused before it is in memory."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{path.name}, line {number} has more than {LONGEST_LINE:,} bytes; fetch the file again.")
        yield line


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file's bytes."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}.") from error


def cache_folder() -> Path:
    """Return $FOCALCAL_CACHE, else ``focalcal`` in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("FOCALCAL_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or "~/.cache").expanduser() / "focalcal"


def data_folders(root: Path | None = None) -> list[Path]:
    """List the folders: ``root`` alone if one is given, else $FOCALCAL_DATA and the folder ``data`` in the cache.

    Examples:
        >>> data_folders(Path("mine"))
        [PosixPath('mine')]
    """
    if root is not None:
        return [Path(root).expanduser()]
    given = os.environ.get("FOCALCAL_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder() / "data"]


def download_folder(root: Path | None = None) -> Path:
    """Return the last of the folders, the one that the user can write to."""
    return data_folders(root)[-1]


def is_offline() -> bool:
    """Return whether $FOCALCAL_OFFLINE (or $HF_HUB_OFFLINE) forbids downloads."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes") for name in ("FOCALCAL_OFFLINE", "HF_HUB_OFFLINE")
    )
