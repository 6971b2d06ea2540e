"""Calibrators as JSON: the same bytes for the same calibrator, written whole or not at all, checked when read."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import atomic_writer, null_for_nan, parse_json, read_bytes
from focalcal.base.suggestions import shorten

FORMAT = "focalcal calibrator"
FORMAT_VERSION = 1


def write_json(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write one line per key; neither a date nor a path is added."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(null_for_nan(_plain(value)), allow_nan=False)}"
        for key, value in content.items()
    ]
    with atomic_writer(path) as file:
        file.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_json` wrote, or say in one sentence why the file is not a calibrator.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON, not a calibrator, or of a later format.
    """
    source = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no calibrator file {source}.")
    content_read = read_bytes(path)
    try:
        content = parse_json(content_read)
    except ValueError:
        raise ValueError(f"{source} is not a calibrator: it is empty, cut short or not JSON; save it again.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{source} is JSON but not a calibrator that focalcal saved.")
    if content.get("format_version") != FORMAT_VERSION:
        version = shorten(repr(content.get("format_version")))
        raise ValueError(f"{source} has calibrator format {version}, this focalcal reads {FORMAT_VERSION}; upgrade it.")
    return content


def learned_number(learned: Mapping[str, Any], key: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number of a file, between the bounds."""
    value = learned[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} is not a number")
    if not low <= value <= high:
        raise ValueError(f"{key} is {value}, outside [{low}, {high}]")
    return float(value)


def learned_tensor(learned: Mapping[str, Any], key: str, shape: tuple[int, ...], *, gaps: bool = False) -> Tensor:
    """Return a float64 tensor of a file, with the shape that it must have; null is NaN where ``gaps`` are allowed."""
    tensor = torch.tensor(_numbers(learned[key], key, gaps), dtype=torch.float64)
    if tensor.shape != shape:
        raise ValueError(f"{key} has shape {tuple(tensor.shape)} instead of {shape}")
    return tensor


def _numbers(value: Any, key: str, gaps: bool) -> Any:
    if isinstance(value, list):
        return [_numbers(item, key, gaps) for item in value]
    if value is None and gaps:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} holds {value!r} where a number belongs")
    return value


def _plain(value: Any) -> Any:
    """Put lists for tensors and arrays, wherever they stand."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
