"""The files of data sets: each looked for in the known folders, else downloaded, else asked for in one sentence."""

import lzma
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from focalcal.base.files import file_sha256
from focalcal.data.folders import data_folders, download_folder, is_offline

# What reading a zip or gz raises that is damaged, has a password, or was packed in an unknown way; gzip and bzip2 call
# damage an OSError.
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError)


class MissingDataError(ValueError):
    """A file is nowhere to be found; the message says where to put it."""


@dataclass(frozen=True)
class DataFile:
    """A file as its publisher calls it.

    Attributes:
        path: where it is under a data folder, such as ``cifar10/plain_text/test-00000-of-00001.parquet``.
        url: its original address.
        hub: (repository, path in it) on the Hugging Face hub, in place of an address.
        size: of the published file in bytes, where known.
        md5: of the published file, where known.
        system: a folder in which a package of the operating system puts it.
        instead: patterns of paths of files that do as well, such as ``glove/*.100d.txt``.
    """

    path: str
    url: str | None = None
    hub: tuple[str, str] | None = None
    size: int | None = None
    md5: str | None = None
    system: str | None = None
    instead: tuple[str, ...] = ()

    def located(self, root: Path | None = None) -> Path | None:
        """Where it is, or None."""
        places = [folder / self.path for folder in data_folders(root)]
        if self.system is not None and root is None:
            places.append(Path(self.system) / Path(self.path).name)
        places += [place for folder in data_folders(root) for like in self.instead for place in folder.glob(like)]
        return next((place for place in places if place.is_file()), None)

    def obtained(self, root: Path | None = None) -> Path:
        """Where it is, after a download if need be."""
        found = self.located(root)
        return self._downloaded(root) if found is None else found

    def _downloaded(self, root: Path | None) -> Path:
        if is_offline():
            raise MissingDataError(self.request(root, "downloads are switched off by FOCALCAL_OFFLINE"))
        if self.url is None and self.hub is None:
            raise MissingDataError(self.request(root, "there is no address to download it from"))
        from focalcal.data.download import DownloadError, download
        from focalcal.data.hub import download_from_hub

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
        """One sentence on where to put it and where it is from."""
        folders = " or ".join(str(folder) for folder in data_folders(root))
        source = self.url or (f"https://huggingface.co/datasets/{self.hub[0]}" if self.hub else "its publisher")
        target = download_folder(root) / self.path
        return f"{self.path} is not in {folders} and {reason}: put the file from {source} at {target}."


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}.") from error
