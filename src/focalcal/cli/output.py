"""Where things go: results to stdout, as tables and sentences or as JSON, everything else to stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough for a metric, its interval and a few words on one line, where no terminal sets the width.
_WIDTH_OF_FILES = 120


def results() -> Console:
    """Where tables and sentences for people go."""
    return _console(sys.stdout)


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"focalcal: {sentence}", file=sys.stderr)


def print_json(content: Mapping[str, Any]) -> None:
    """The results for a program: valid JSON, with null for what is no finite number."""
    print(json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The same in dicts, lists, and numbers that JSON has.

    Examples:
        >>> plain({"a": (1.5, float("nan"))})
        {'a': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show that something is being done, on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
        bar.add_task(doing, total=None)
        yield


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    # A terminal that lacks a minus sign or a Greek letter shows a question mark, not an error.
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    wide = not stream.isatty() and "COLUMNS" not in os.environ
    # File names may hold brackets and colons, which are no markup.
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=_WIDTH_OF_FILES if wide else None)
