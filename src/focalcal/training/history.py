"""``history.jsonl``: one line an epoch, always whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer


def read_history(path: Path) -> list[dict[str, Any]]:
    """The epochs of a run, in order; none if the file is not there."""
    if not path.is_file():
        return []
    epochs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            epochs.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}, is not JSON; it is not a history of focalcal.") from error
    return epochs


def write_history(path: Path, epochs: list[dict[str, Any]]) -> None:
    """Write all epochs anew: a reader never sees half a line."""
    text = "".join(json.dumps(epoch, allow_nan=False) + "\n" for epoch in epochs)
    with atomic_writer(path) as file:
        file.write(text.encode())


def flattened(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Numbers by names such as ``val/ece``, as loggers take them.

    Examples:
        >>> flattened({"epoch": 3, "val": {"ece": 0.1, "nll_wrong": None}})
        {'epoch': 3.0, 'val/ece': 0.1}
    """
    flat: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[prefix + name] = float(value)
    return flat
