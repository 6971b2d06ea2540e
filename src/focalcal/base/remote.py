"""Files on remote storage (``s3://``, ``gs://``, ``hdfs://``, …) by fsspec: found by a pattern, copied to be read."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from focalcal.base.optional import import_optional

# Protocols whose file system is a package of its own, and the extra that brings it.
_PACKAGES = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
    "hf": ("huggingface_hub", "download"),
}
# What a protocol needs that no extra can bring.
_NEEDS = {"hdfs": "hdfs:// takes Java and Hadoop's native library: set JAVA_HOME, HADOOP_HOME and CLASSPATH"}


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names remote storage.

    Examples:
        >>> is_remote("s3://bucket/test.parquet"), is_remote("runs/a")
        (True, False)
    """
    return "://" in os.fspath(path)


class LocalCopy:
    """A copy of a remote file in a temporary folder, which is removed when nothing refers to the copy any more.

    Args:
        url: The remote file.

    Attributes:
        path: The copy; its name ends as the remote file's does.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError: Its storage needs a package that is not installed.
        ValueError: It cannot be read.
    """

    def __init__(self, url: str) -> None:
        folder = tempfile.mkdtemp(prefix="focalcal-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder, url.rsplit("/", 1)[-1] or "file")
        with _storage(url) as (storage, name):
            if not storage.isfile(name):
                raise FileNotFoundError(f"There is no file {url}.")
            storage.get_file(name, str(self.path))


def find_remote(pattern: str) -> list[str]:
    """Find the remote files that match a pattern, sorted by name."""
    with _storage(pattern) as (storage, name):
        return sorted(storage.unstrip_protocol(found) for found in storage.glob(name))


def write_remote(url: str, content: Path) -> None:
    """Copy a finished file to remote storage, where it appears whole."""
    with _storage(url) as (storage, name):
        storage.put_file(str(content), name)


def remote_exists(url: str) -> bool:
    """Return whether there is such a remote file."""
    with _storage(url) as (storage, name):
        return bool(storage.isfile(name))


@contextmanager
def _storage(url: str) -> Iterator[tuple[Any, str]]:
    """Open the file system that a URL names; its errors become one sentence."""
    import fsspec

    protocol = url.partition("://")[0]
    if protocol in _PACKAGES:
        package, extra = _PACKAGES[protocol]
        import_optional(package, extra=extra, what=f"Paths {protocol}://")
    try:
        storage, name = fsspec.core.url_to_fs(url)
        yield storage, name
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {url}.") from error
    except ImportError as error:
        raise ValueError(f"{url} cannot be read: {_first_line(error)}.") from error
    except OSError as error:
        needs = f" ({_NEEDS[protocol]})" if protocol in _NEEDS and error.errno is None else ""
        raise ValueError(f"{url} cannot be read: {error.strerror or _first_line(error)}{needs}.") from error
    except ValueError as error:
        if "rotocol not known" in str(error):
            raise ValueError(
                f"{url} begins with {protocol}://, a kind of storage that fsspec does not know."
            ) from error
        raise
    except Exception as error:  # every storage has errors of its own
        raise ValueError(f"{url} cannot be read: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
