"""Files that are written whole or not at all, JSON that other programs can read, and hashes."""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


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
    if not target.parent.is_dir():
        raise ValueError(f"{name} cannot be written: its folder does not exist; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: its folder is not open for writing; choose another.")
    for source in map(Path, read):
        if target.exists() and source.exists() and target.samefile(source):
            raise ValueError(f"{name} is one of the files that are read; write to another name.")


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
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
