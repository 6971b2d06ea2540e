"""Downloads: resumed, checked against the published size and hash, from an address or from the Hugging Face hub."""

import contextlib
import hashlib
import http.client
import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from focalcal.base.progress import note, on_terminal, progress_bar

_CHUNK = 1 << 18
_SECONDS = 10.0
_ATTEMPTS = 3
_HUB_SECONDS = 5.0


class DownloadError(Exception):
    """The reason why a file could not be downloaded, as the second half of a sentence."""


def download(url: str, target: Path, *, size: int | None = None, md5: str | None = None) -> None:
    """Download a file to ``target``: whole and checked, or not at all.

    What has arrived waits beside it as ``.part``; the next call asks for the rest only. Where the publisher's MD5 is
    not known, the SHA-256 of what came is written to ``target``.sha256, for ``focalcal data check`` to compare with.

    Raises:
        DownloadError: The server cannot be reached, breaks off again and again, or sends something else.
    """
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(part) as file:
            if not target.exists():  # another process may have brought it while this one waited
                _fill(url, file, size)
                _check(file, size, md5)
                if md5 is None:
                    _record(file, target)
                os.replace(part, target)
            else:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise DownloadError(f"could not be written to {target.parent} ({error.strerror or error})") from error


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[BinaryIO]:
    """Lock the partial file, so that processes that start together do not write into each other's bytes."""
    with part.open("a+b") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _fill(url: str, file: BinaryIO, size: int | None) -> None:
    with _progress(Path(url).name) as show:
        for _ in range(_ATTEMPTS):
            expected = _transfer(url, file, size, show)
            if expected is None or file.tell() >= expected:
                return
    raise DownloadError(
        f"the connection broke off after {file.tell():,} of {expected:,} bytes (the next attempt resumes there)"
    )


def _transfer(url: str, file: BinaryIO, size: int | None, show: Callable[[int, int | None], None]) -> int | None:
    """Append the missing bytes, and return the length of the whole file if the server says it."""
    start = file.seek(0, os.SEEK_END)
    if size is not None and start >= size:
        return size  # whole, though perhaps wrong: the checksum will tell
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            if start and not _resumes(response, start):
                start = file.truncate(0)
            length = response.headers.get("Content-Length")
            whole = start + int(length) if length is not None else size
            with contextlib.suppress(http.client.HTTPException, ConnectionError, TimeoutError):
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    show(file.tell(), whole)
            return whole
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            file.truncate(0)
            return _transfer(url, file, size, show)
        raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DownloadError(f"could not be downloaded ({reason})") from error


def _resumes(response: http.client.HTTPResponse, start: int) -> bool:
    """Return whether the answer begins where the partial file ends; a server without ranges sends everything again."""
    content_range = response.headers.get("Content-Range", "")
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and content_range.startswith(f"bytes {start}-")


def _check(file: BinaryIO, size: int | None, md5: str | None) -> None:
    """Check a download, and empty a wrong file, so that the next attempt starts afresh."""
    file.flush()
    os.fsync(file.fileno())
    found_size = file.tell()
    found = _digest(file, "md5")
    if (size is not None and found_size != size) or (md5 is not None and found != md5):
        file.truncate(0)
        wanted = ", ".join(part for part in (size and f"{size:,} bytes", md5 and f"MD5 {md5}") if part)
        raise DownloadError(
            f"what was downloaded ({found_size:,} bytes, MD5 {found}) is not the published file ({wanted})"
        )


def _record(file: BinaryIO, target: Path) -> None:
    target.with_name(target.name + ".sha256").write_text(f"{_digest(file, 'sha256')}  {target.name}\n")


def _digest(file: BinaryIO, method: str) -> str:
    file.seek(0)
    digest = hashlib.new(method, usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr if that is a terminal, else one line."""
    if not on_terminal():
        note(f"downloading {name} …")
        yield lambda done, whole: None
        return
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with progress_bar("{task.description}", *columns) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)


def download_from_hub(repository: str, path: str, target: Path) -> None:
    """Download a file of a data set's repository to ``target``, whose end is ``path``.

    Raises:
        DownloadError: The client is not installed, or the hub cannot be reached or refuses.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise DownloadError(
            "is downloaded with huggingface_hub, which is not installed (pip install 'focalcal[download]')"
        )
    _check_reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    from huggingface_hub import hf_hub_download

    folder = target.parents[len(Path(path).parts) - 1]
    try:
        hf_hub_download(repository, path, repo_type="dataset", local_dir=folder, etag_timeout=_HUB_SECONDS)
    except Exception as error:  # the client and its HTTP library have dozens of kinds, with texts of many lines
        raise DownloadError(f"could not be downloaded from the hub ({_why(error)})") from error


def _check_reachable(address: str) -> None:
    """Check the connection: without a network the client would try for half a minute."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_HUB_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()  # an answer, if not a friendly one: somebody is there
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"could not be downloaded: {address} cannot be reached ({reason})") from error


def _why(error: Exception) -> str:
    kind = type(error).__name__
    text = (str(error).strip().splitlines() or [""])[0].rstrip(".:")
    return f"{kind}: {text[:160]}" if text else kind
