"""What a run was made with: written beside its results, so that a figure can be traced."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import torch
from lightning_fabric import Fabric

_PACKAGES = ("focalcal", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "lightning-fabric", "pillow")


def environment(fabric: Fabric) -> dict[str, Any]:
    """Versions, device, threads, the git commit where there is one, the command and the time."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "device": str(fabric.device),
        "device_name": torch.cuda.get_device_name() if fabric.device.type == "cuda" else platform.processor(),
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "git_commit": _git_commit(),
        "command": " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]]) if sys.argv else "",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the folder that the run was started in."""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
