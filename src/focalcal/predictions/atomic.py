"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


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
    target = Path(os.path.realpath(path))  # so that a link stays a link
    if target.is_dir():
        raise ValueError(f"{os.fspath(path)} is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise ValueError(f"{os.fspath(path)} cannot be written: there is no folder {target.parent}; make it first.")
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
