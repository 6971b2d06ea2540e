"""Results on stdout: tables and sentences for people, or JSON for programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from focalcal.base.files import null_for_nan

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough for a metric, its interval and a few words on one line, where no terminal sets the width.
_WIDTH_OF_FILES = 120


def results() -> Console:
    """Open stdout for tables and sentences."""
    from rich.console import Console

    stream = sys.stdout
    # A terminal that lacks a minus sign or a Greek letter shows a question mark, not an error.
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    wide = not stream.isatty() and "COLUMNS" not in os.environ
    # File names may hold brackets and colons, which are not markup.
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=_WIDTH_OF_FILES if wide else None)


def print_json(content: Mapping[str, Any]) -> None:
    """Print valid JSON, with null for numbers that are not finite."""
    print(json.dumps(null_for_nan(content), indent=2, allow_nan=False))


def command_line() -> str:
    """Return what was typed, without the program's folder."""
    return shlex.join(["focalcal", *sys.argv[1:]])
