"""Files that are written whole or not at all, and read only if they have an end; JSON, and hashes."""

import gzip
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

# Text that is read whole: JSON, YAML, a history. Nobody writes more of it.
LARGEST_TEXT = 256 * 2**20
# An empty list in text has two bytes, and 56 and more in memory.
_DEEPEST_JSON, _MOST_LISTS = 100, 1_000_000
_TOO_DEEP, _TOO_MANY = "it is nested too deeply", f"it has more than {_MOST_LISTS:,} lists and objects"
_NOT_TEXT, _TWICE = "it is not UTF-8 text", "it has a key twice"
# What is wrong with text that other readers take as JSON.
REFUSED_JSON = (_TOO_DEEP, _TOO_MANY, _TWICE)
# What unpacks to more than this, and to more than 200 times its size, is a bomb.
PLAUSIBLE_BYTES, PLAUSIBLE_RATIO = 2**30, 200
_PIECE = 2**20
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
# Errors by which a reader of any format shows that a file is damaged, or was made to look so.
DAMAGE = (
    EOFError,
    json.JSONDecodeError,
    UnicodeError,
    RecursionError,
    OverflowError,
    MemoryError,
    SystemError,
    zlib.error,
)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is about to be read; whatever is not a regular file is refused.

    A device or a pipe may have no end: reading it would fill the memory, or wait for ever. Everything that focalcal
    reads goes through here before it is opened.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is a folder, a device, a pipe or a socket.

    Examples:
        >>> regular_file("/dev/zero")
        Traceback (most recent call last):
        ValueError: /dev/zero is a device, not a file; save what it gives to a file, and read that.
    """
    name = os.fspath(path)
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {name}.") from None
    except (OSError, ValueError) as error:  # a link to itself, a name with a NUL in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{name!r} cannot be read: {reason}.") from error
    if kind == stat.S_IFDIR:
        raise ValueError(f"{name} is a folder; give the name of a file.")
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise ValueError(f"{name} is {what}, not a file; save what it gives to a file, and read that.")
    return Path(path)


def read_bytes(path: str | os.PathLike[str], at_most: int = LARGEST_TEXT) -> bytes:
    """Read a whole file; one that is larger than such a file can be is refused.

    Raises:
        ValueError: It is not a regular file, cannot be read, or is larger than ``at_most`` bytes.
    """
    try:
        with open(regular_file(path), "rb") as file:
            content = read_at_most(file, at_most)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read: {error.strerror or error}.") from error
    if len(content) > at_most:
        raise ValueError(f"{os.fspath(path)} has more than {at_most:,} bytes, more than a file of its kind may have.")
    return content


def read_at_most(stream: IO[bytes] | io.BufferedIOBase, most: int) -> bytes:
    """Read a stream to its end, or one byte more than ``most``; memory is taken for what comes, not what may come."""
    pieces, left = [], most + 1
    while left and (piece := stream.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def open_bytes(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading its bytes, unpacked if its name ends in .gz: then up to 200 times its size, or 1 GB.

    Raises:
        ValueError: It is not a regular file; while it is read: it unpacks to more.
    """
    found = regular_file(path)
    if found.suffix.lower() != ".gz":
        return open(regular_file(path), "rb")
    most = most_unpacked(found.stat().st_size)
    return io.BufferedReader(_Bounded(gzip.open(regular_file(path)), most), 2**20)


class _Bounded(io.RawIOBase):
    """A stream that ends in an error where a bomb would continue."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        super().__init__()
        self._stream, self._most, self._read = stream, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._read += count
        if self._read > self._most:
            raise ValueError(f"it unpacks to more than {self._most:,} bytes; if you trust it, unpack it first.")
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def most_unpacked(packed: int) -> int:
    """Return how many bytes ``packed`` bytes of a file may unpack to: 200 times as many, and 1 GB in any case."""
    return max(PLAUSIBLE_BYTES, PLAUSIBLE_RATIO * packed)


def check_unpacked(name: str, unpacked: int, packed: int) -> None:
    """Refuse an array that a few bytes in a file claim to unpack to: it would fill the memory.

    Args:
        name: The array, or the file itself.
        unpacked: Its size in memory.
        packed: Its size in the file.
    """
    if unpacked > most_unpacked(packed):
        raise ValueError(
            f"its {name} unpacks from {packed:,} to {unpacked:,} bytes, more than {PLAUSIBLE_BYTES:,} bytes and "
            f"{PLAUSIBLE_RATIO} times its size; if you trust it, save it without compression."
        )


def read_text(path: str | os.PathLike[str], at_most: int = LARGEST_TEXT) -> str:
    """Read a whole UTF-8 file, as :func:`read_bytes` does."""
    try:
        return read_bytes(path, at_most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text ({error.reason} at byte {error.start}).") from error


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that anybody may have written: at most a million lists, 100 deep, and every number fits a float64.

    Whole numbers beyond 64 bits become floats, and beyond those infinity, which checks of finite numbers refuse. An
    object with a key twice is refused, of which Python would silently take the last.

    Raises:
        json.JSONDecodeError: It is not JSON, is larger or nested deeper, or has a key twice.

    Examples:
        >>> parse_json('{"a": [1, 1.5, 1e400]}'), parse_json("1" + "0" * 400)
        ({'a': [1, 1.5, inf]}, inf)
    """
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) > _MOST_LISTS:  # type: ignore[arg-type]
        raise json.JSONDecodeError(_TOO_MANY, "", 0)
    try:
        content = json.loads(text, parse_int=_parse_integer, object_pairs_hook=_unique)
    except RecursionError:
        raise json.JSONDecodeError(_TOO_DEEP, "", 0) from None
    except UnicodeDecodeError:
        raise json.JSONDecodeError(_NOT_TEXT, "", 0) from None
    level, depth = [content], 0
    while level := [item for outer in level if isinstance(outer, list | dict) for item in _items(outer)]:
        depth += 1
        if depth > _DEEPEST_JSON:
            raise json.JSONDecodeError(_TOO_DEEP, "", 0)
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise json.JSONDecodeError(_TWICE, "", 0)
    return content


def _items(outer: list[Any] | dict[str, Any]) -> Iterable[Any]:
    items = outer.values() if isinstance(outer, dict) else outer
    return (item for item in items if isinstance(item, list | dict))


def _parse_integer(text: str) -> int | float:
    number = int(text) if len(text) <= 20 else None
    return float(text) if number is None or not -(2**63) <= number < 2**64 else number


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file beside ``path`` for writing bytes, and move it to ``path`` when the block ends without an error.

    A reader sees the old file or the new one, never a part; after an error the old one is still there and nothing else.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = Path(folder, "note.txt")
        ...     with atomic_writer(target) as file:
        ...         _ = file.write(b"done")
        ...     target.read_bytes(), len(list(Path(folder).iterdir()))
        (b'done', 1)
    """
    check_destination(path)
    target = Path(os.path.realpath(path))  # so that a link stays a link
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ValueError(f"{os.fspath(path)} cannot be written: {error.strerror or error}.") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_appending(path: str | os.PathLike[str]) -> TextIO:
    """Open a text file for lines at its end, such as a log; it is made if it is not there.

    Raises:
        ValueError: It cannot be written, or is not a regular file: a pipe would wait for ever for its reader.
    """
    check_destination(path)
    try:
        return open(path, "a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise ValueError(f"{os.fspath(path)} cannot be written: {error.strerror or error}.") from error


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files of :func:`atomic_writer` that a killed process has left in a folder or below it."""
    for file in Path(folder).rglob(".*.tmp"):
        if _TEMPORARY.fullmatch(file.name):
            file.unlink(missing_ok=True)


def check_destination(path: str | os.PathLike[str], read: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Raise unless a file can be written to ``path`` and is not one of those that are read.

    Called before long work, so that nothing is lost at its end.

    Examples:
        >>> check_destination("nowhere/table.csv")
        Traceback (most recent call last):
        ValueError: nowhere/table.csv cannot be written: its folder does not exist; make it first.
    """
    name, target = os.fspath(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{name} is a folder; give the name of a file.")
    if target.exists() and not target.is_file():  # it would be replaced by a file, even a device
        raise ValueError(f"{name} is not a file but a device, a pipe or a socket; give the name of a file.")
    if not target.parent.is_dir():
        raise ValueError(f"{name} cannot be written: its folder does not exist; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: its folder is not open for writing; choose another.")
    for source in map(Path, read):
        if target.exists() and source.exists() and target.samefile(source):
            raise ValueError(f"{name} is one of the files that are read; write to another name.")


def check_links(folder: str | os.PathLike[str], *, below: bool = True) -> None:
    """Refuse a folder with a link to a file or folder outside of it, before anything is written there.

    A folder may come from anybody; what is written to the name of a link ends up wherever it points to.

    Args:
        folder: The folder, which may be a link itself, or not be there.
        below: Whether to look into the folders in it, too.

    Raises:
        ValueError: There is such a link.
    """
    home = Path(os.path.realpath(folder))
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            target = Path(os.path.realpath(path))
            if path.is_symlink() and not target.is_relative_to(home) and not target.is_char_device():
                raise ValueError(
                    f"{path} is a link to {target}, which lies outside of {os.fspath(folder)}: nothing is written "
                    "there; put what it points to in its place, or remove it."
                )
        if not below:
            return


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it, unless it is there.

    Raises:
        ValueError: It cannot be made, for example because a file has its name.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        reason = "a file has that name" if isinstance(error, FileExistsError) else error.strerror or error
        raise ValueError(f"The folder {os.fspath(path)} cannot be made: {reason}.") from error


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Name files by as many folders as it takes to tell them apart, or by a number where they are the same.

    Examples:
        >>> distinct_names([Path("runs/a/test.npz"), Path("runs/b/test.npz")])
        ['a/test.npz', 'b/test.npz']
        >>> distinct_names([Path("test.npz"), Path("test.npz")])
        ['test.npz (1)', 'test.npz (2)']
    """
    parts = [path.resolve().parts[1:] for path in paths]
    for depth in range(1, 1 + max(map(len, parts), default=0)):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    last = [part[-1] for part in parts]
    return [f"{name} ({i})" if last.count(name) > 1 else name for i, name in enumerate(last, start=1)]


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write JSON for people to read, whole or not at all; NaN and infinite numbers become null."""
    with atomic_writer(path) as file:
        file.write(json.dumps(null_for_nan(content), indent=2, allow_nan=False).encode())


def null_for_nan(value: Any) -> Any:
    """Turn mappings, lists and tuples into what JSON has, with null for NaN and infinite numbers.

    Examples:
        >>> null_for_nan({"a": float("inf"), 2: (1.5, float("nan"))})
        {'a': None, '2': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): null_for_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [null_for_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(regular_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
