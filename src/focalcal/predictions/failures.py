"""What goes wrong with a file, in one sentence that begins with its name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

Path = str | os.PathLike[str]


@contextmanager
def reading(path: Path, broken: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence that begins with its name."""
    name = os.fspath(path)
    try:
        yield
    except broken as error:
        raise ValueError(f"{name} is corrupt or truncated, or not what its name says: {_problem(error)}.") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from error
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or _problem(error)}.") from error


def _problem(error: Exception) -> str:
    """The first sentence of what a library said; some say several, on several lines."""
    return " ".join(str(error).split()).split(". ")[0].rstrip(".") or type(error).__name__


def check_exists(path: Path) -> None:
    """Refuse a file that is not there, a folder, and an empty file."""
    name = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {name}.")
    if os.path.isdir(path):
        raise ValueError(f"{name} is a folder; give the name of a file of predictions.")
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        raise ValueError(f"{name} is empty.")
