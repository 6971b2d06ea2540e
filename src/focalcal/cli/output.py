"""Results on stdout: tables and sentences for people, or JSON for programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from focalcal.base.files import null_for_nan
from focalcal.base.progress import visible

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough for a metric, its interval and a few words on one line, where no terminal sets the width.
_WIDTH_OF_FILES = 120


def results() -> Console:
    """Open stdout for tables and sentences."""
    stream = sys.stdout
    # A terminal that lacks a minus sign or a Greek letter shows a question mark, not an error.
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    wide = not stream.isatty() and "COLUMNS" not in os.environ
    # File names may hold brackets and colons, which are not markup.
    return _console_class()(
        file=stream, markup=False, highlight=False, emoji=False, width=_WIDTH_OF_FILES if wide else None
    )


def print_text(text: str) -> None:
    """Print text that has names from files in it."""
    print(visible(text), end="")


@cache
def _console_class() -> type[Console]:
    """Make the class of a console that shows what a name in a file would have the terminal do, instead of doing it."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    return VisibleConsole


def print_json(content: Mapping[str, Any]) -> None:
    """Print valid JSON, with null for numbers that are not finite."""
    print(json.dumps(null_for_nan(content), indent=2, allow_nan=False))


def command_line() -> str:
    """Return what was typed, without the program's folder."""
    return shlex.join(["focalcal", *sys.argv[1:]])
