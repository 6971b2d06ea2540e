"""Where a report comes from: files with their hashes, versions, seeds, the command."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
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


def file_facts(uses: Iterable[tuple[str, str, Path]]) -> list[dict[str, Any]]:
    """Name, size, SHA-256 and uses of each file, once; no folder of the machine is named but the one that holds it.

    Args:
        uses: the model's name, the file's role in it, and the file.
    """
    found: dict[Path, dict[str, Any]] = {}
    for model, role, path in uses:
        fact = found.setdefault(path.resolve(), {"uses": []})
        if not fact["uses"]:
            fact |= {"name": f"{path.resolve().parent.name}/{path.name}", "bytes": path.stat().st_size}
            fact |= {"sha256": sha256(path)}
        fact["uses"].append({"model": model, "role": role})
    return list(found.values())


def sha256(path: str | os.PathLike[str]) -> str:
    """The file's hash, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
