"""Predictions in safetensors: the canonical format.

Tensors: ``logits`` or ``probs`` (N, K), ``labels`` (N,) or (N, K), ``weights`` (N,), and ids as ``ids`` (their UTF-8
bytes, one after another) with ``ids_offsets`` (N + 1). Metadata: see metadata.py. A compact file (compact.py) has
narrower types and no ids, and is read like any other.

The header is read and written here because the library orders metadata differently from run to run (the same
predictions shall give the same bytes), and maps files into memory whole (a block shall cost a block).
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import torch

from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.bytes_in_files import ArrayLayout, FileArray
from focalcal.predictions.formats.compact import Compact, compact_arrays
from focalcal.predictions.formats.metadata import from_text, json_text, to_text
from focalcal.predictions.formats.sources import ArraySource, StoredArray, Take
from focalcal.predictions.options import Choices

BROKEN = (EOFError, json.JSONDecodeError, UnicodeDecodeError, RecursionError, OverflowError, MemoryError)

_LENGTH = 8  # bytes of the header's length, little-endian
_LONGEST_HEADER = 100_000_000
_NUMPY_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_TORCH_TYPES = {
    "BF16": ("<u2", torch.bfloat16),
    "F8_E4M3": ("u1", torch.float8_e4m3fn),
    "F8_E5M2": ("u1", torch.float8_e5m2),
}
_WRITTEN_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "uint8": "U8",
}  # fmt: skip


def write(preds: Predictions, file: BinaryIO, compact: Compact | None = None) -> None:
    """Write all of it, or its compact form: the header's length, the header, the arrays."""
    preds, arrays = (preds, _arrays(preds)) if compact is None else compact_arrays(preds, compact)
    # Wide types first: every array then starts at a multiple of its item size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": to_text(preds)}
    end = 0
    for name in order:
        array = arrays[name]
        start, end = end, end + array.nbytes
        dtype = _WRITTEN_TYPES[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json_text(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(_LENGTH, "little") + text)
    for name in order:
        file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)


def open_source(path: str | os.PathLike[str], choices: Choices) -> ArraySource:
    """Read the header and check that it describes the rest of the file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        if not 2 <= length <= min(size - _LENGTH, _LONGEST_HEADER):
            raise ValueError("it is truncated, or no safetensors file.")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("it is no safetensors file: its header is no JSON object.")
    text = header.pop("__metadata__", {})
    start = _LENGTH + length
    layouts = {name: _layout(name, entry, size - start) for name, entry in header.items()}
    ends = [end for _, (_, end) in layouts.values()]
    if max(ends, default=0) != size - start:
        raise ValueError("it is truncated, or has more bytes than its header describes.")
    arrays: dict[str, StoredArray] = {
        name: FileArray(path, start + offsets[0], layout) for name, (layout, offsets) in layouts.items()
    }
    if "ids" in arrays and "ids_offsets" in arrays:
        arrays["ids"] = TextArray(arrays["ids"], arrays.pop("ids_offsets"))
    return ArraySource(arrays, from_text(_text(text)), choices)


@dataclass(frozen=True)
class TextArray(StoredArray):
    """Strings as joined UTF-8 bytes, and the offset at which each begins."""

    joined: StoredArray
    offsets: StoredArray

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return (self.offsets.shape[0] - 1,)

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with self.joined.reader() as take_bytes, self.offsets.reader() as take_offsets:
            end = int(take_offsets(1)[0])
            if end != 0:
                raise ValueError("its ids are corrupt: the first does not begin at byte 0.")

            def take(count: int) -> list[str]:
                nonlocal end
                begins = [end, *take_offsets(count).tolist()]
                if begins != sorted(begins) or begins[-1] > self.joined.shape[0]:
                    raise ValueError("its ids are corrupt: their offsets do not increase.")
                joined = take_bytes(begins[-1] - end).tobytes()
                first, end = end, begins[-1]
                return [joined[a - first : b - first].decode() for a, b in pairwise(begins)]

            yield take


def _arrays(preds: Predictions) -> dict[str, np.ndarray]:
    arrays = {preds.kind: preds.values.numpy(), "labels": preds.labels.numpy()}
    if preds.weights is not None:
        arrays["weights"] = preds.weights.numpy()
    if preds.ids is not None:
        encoded = [name.encode() for name in preds.ids]
        arrays["ids"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays["ids_offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return arrays


def _layout(name: str, entry: Any, available: int) -> tuple[ArrayLayout, tuple[int, int]]:
    try:
        code, shape = entry["dtype"], tuple(entry["shape"])
        start, end = entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"it is corrupt: its header does not describe {name!r} properly.") from None
    numpy_type, torch_type = (
        _TORCH_TYPES.get(code, (_NUMPY_TYPES.get(code), None)) if isinstance(code, str) else (None, None)
    )
    if numpy_type is None:
        raise ValueError(f"its {name!r} are of type {code!r}, which focalcal does not read; save them as F32.")
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, start, end)):
        raise ValueError(f"it is corrupt: its header does not describe {name!r} properly.")
    layout = ArrayLayout(shape, np.dtype(numpy_type), torch_type)
    if not (start <= end <= available and end - start == layout.nbytes):
        raise ValueError(f"it is truncated or corrupt: {name!r} does not have the size that its shape asks for.")
    return layout, (start, end)


def _text(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("it is corrupt: its metadata is not text by key.")
    return metadata
