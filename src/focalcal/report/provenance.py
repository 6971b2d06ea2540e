"""Where a report comes from: files with their hashes, versions, seeds, the command."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from focalcal._version import __version__

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "plotly")


def versions() -> dict[str, str]:
    """Of Python, of focalcal, and of what computes and draws."""
    found = {"focalcal": __version__, "Python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in _PACKAGES}


def file_facts(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of each file; no folder of the machine is named but the one that holds it."""
    return [
        {"name": f"{path.resolve().parent.name}/{path.name}", "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in files
    ]


def sha256(path: Path) -> str:
    """The file's hash, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
