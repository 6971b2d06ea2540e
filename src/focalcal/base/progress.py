"""Progress on stderr: a bar where it is a terminal, lines where it is not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # rich takes a while to import, and most calls show nothing
    from rich.progress import Progress, ProgressColumn

T = TypeVar("T")
# Control characters, with which text moves the cursor or writes to the clipboard, and those that turn its direction.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_terminal() -> bool:
    """Return whether somebody can watch a bar move."""
    return sys.stderr.isatty()


def note(sentence: str, about: str = "focalcal") -> None:
    """Print one line to stderr."""
    print(visible(f"{about}: {sentence}"), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    r"""Write characters that a terminal would obey, instead of showing them, as escapes: names may come from anybody.

    Line breaks and tabs stay.

    Examples:
        >>> print(visible("\x1b[2J all gone"))
        \x1b[2J all gone
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def progress_bar(*columns: ProgressColumn | str, transient: bool = False) -> Progress:
    """Make a bar of rich on stderr; names and paths are shown as they are, never as markup."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    plain = [TextColumn(column, markup=False) if isinstance(column, str) else column for column in columns]
    return Progress(*plain, console=Console(stderr=True, markup=False, highlight=False), transient=transient)


@contextmanager
def spinner(doing: str) -> Iterator[None]:
    """Show what is being done and for how long, where stderr is a terminal."""
    if not on_terminal():
        yield
        return
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    with progress_bar(SpinnerColumn(), "{task.description}", TimeElapsedColumn(), transient=True) as bar:
        bar.add_task(doing, total=None)
        yield


@contextmanager
def track(items: Iterable[T], doing: str, total: float | None = None) -> Iterator[Iterable[T]]:
    """Show how far a loop over items has come, where stderr is a terminal."""
    if not on_terminal():
        yield items
        return
    from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with progress_bar(*columns, transient=True) as bar:
        yield bar.track(items, total=total, description=doing)


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds, or hours and minutes.

    Examples:
        >>> clock(75), clock(7260)
        ('1:15', '2 h 01 min')
    """
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
