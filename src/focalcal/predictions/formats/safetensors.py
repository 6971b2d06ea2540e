"""Predictions in safetensors: the canonical format.

Tensors: ``logits`` or ``probs`` (N, K), ``labels`` (N,) or (N, K), ``weights`` (N,), and ids as ``ids`` (their UTF-8
bytes, one after another) with ``ids_offsets`` (N + 1). Metadata: see parts.py.

A compact file, for committing to a repository, is read like any other. It has the values in 16 or 32 bits, classes in
as few bytes as they need, and no ids. Rows of logits are moved so that the largest of each is 0: softmax, temperature
scaling and every metric stay the same, and 16 bits, which are finest near 0, then hold those logits best that matter
most, and keep the two largest apart down to a difference of 3e-8.

The header is read and written here because the library orders metadata differently from run to run (the same
predictions must give the same bytes), and maps files into memory whole (a block must cost no more than a block).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import DAMAGE, parse_json, regular_file
from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.contents import KEY, check_stated, state_contents
from focalcal.predictions.formats.parts import (
    TEXT_COLUMNS,
    PartArray,
    json_text,
    part_arrays,
    read_marked_text,
    write_group_names,
    write_marked_text,
)
from focalcal.predictions.formats.sources import ArrayLayout, ArraySource, FileArray, StoredArray, Take
from focalcal.predictions.groups import GroupColumn
from focalcal.predictions.read_options import Choices
from focalcal.predictions.token_predictions import is_tokens, token_arrays

BROKEN = DAMAGE

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
Compact = Literal["float16", "float32"]
_LABEL_TYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)


def write(preds: Predictions, file: BinaryIO, compact: Compact | None = None) -> None:
    """Write all of it, or its compact form: the header's length, the header, the arrays."""
    preds, parts = (preds, part_arrays(preds)) if compact is None else make_compact(preds, compact)
    arrays = _encode_text(parts)
    # Wide types first: every array then starts at a multiple of its item size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    about = {**write_marked_text(preds), **write_group_names(preds)}
    header: dict[str, Any] = {"__metadata__": {**about, KEY: state_contents(arrays, about)}}
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
    with open(regular_file(path), "rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        if not 2 <= length <= min(size - _LENGTH, _LONGEST_HEADER):
            raise ValueError("it is truncated, or not a safetensors file.")
        header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("it is not a safetensors file: its header is not a JSON object.")
    text = _check_text(header.pop("__metadata__", {}))
    check_stated(header, text)
    start = _LENGTH + length
    layouts = {name: _read_layout(name, entry, size - start) for name, entry in header.items()}
    end = 0
    for begins, ends in sorted(offsets for _, offsets in layouts.values()):
        if begins != end:
            raise ValueError("it is corrupt: its arrays do not lie one behind the other.")
        end = ends
    if end != size - start:
        raise ValueError("it is truncated, or has more bytes than its header describes.")
    arrays: dict[str, StoredArray] = {
        name: FileArray(path, layout, start + offsets[0]) for name, (layout, offsets) in layouts.items()
    }
    for name in TEXT_COLUMNS:
        if name in arrays and f"{name}_offsets" in arrays:
            if len(arrays[name].shape) != 1 or len(arrays[f"{name}_offsets"].shape) != 1:
                raise ValueError(f"its {name} are corrupt: they are not a row of bytes with a row of offsets.")
            arrays[name] = TextArray(arrays[name], arrays.pop(f"{name}_offsets"))
    if is_tokens(text):
        return ArraySource(*token_arrays(arrays, text), choices)
    return ArraySource(arrays, read_marked_text(text), choices)


@dataclass(frozen=True)
class TextArray(StoredArray):
    """Strings as joined UTF-8 bytes, and the offset at which each begins."""

    joined: StoredArray
    offsets: StoredArray

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return (max(0, self.offsets.shape[0] - 1),)

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


def _encode_text(parts: dict[str, PartArray]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, part in parts.items():
        if isinstance(part, tuple):
            encoded = [text.encode() for text in part]
            arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[f"{name}_offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        elif isinstance(part, GroupColumn):
            arrays[name] = _shrink(part.codes).numpy()
        else:
            arrays[name] = part
    return arrays


def _read_layout(name: str, entry: Any, available: int) -> tuple[ArrayLayout, tuple[int, int]]:
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


def _check_text(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("it is corrupt: its metadata is not text by key.")
    return metadata


def make_compact(preds: Predictions, values: Compact) -> tuple[Predictions, dict[str, PartArray]]:
    """Return the predictions that the metadata describes, and the parts of a compact file.

    Args:
        preds: The predictions.
        values: Type of the logits or probabilities.

    Raises:
        ValueError: An unknown type, probabilities in 16 bits, or a logit that would become infinite.

    Examples:
        >>> preds = Predictions.from_logits([[9.0, 7.5], [-4.0, 2.0]], [0, 1], ids=["a", "b"])
        >>> kept, arrays = make_compact(preds, "float16")
        >>> arrays["logits"].tolist(), arrays["logits"].dtype.name, arrays["labels"].dtype.name
        ([[0.0, -1.5], [-6.0, 0.0]], 'float16', 'uint8')
    """
    if values not in get_args(Compact):
        raise ValueError(f"compact must be 'float16' or 'float32', not {values!r}.")
    if values == "float16" and preds.kind == "probs":
        raise ValueError("float16 would turn small probabilities into 0; save them with compact='float32'.")
    rounded = _round(preds, getattr(torch, values))
    # float32 says whether rows still sum to 1; 16 bits are of logits, which need not.
    kept = replace(preds, values=rounded.float(), ids=None)
    narrow: dict[str, PartArray] = {preds.kind: rounded.numpy()}
    if preds.labels_or_none is not None:
        narrow["labels"] = _shrink(preds.labels_or_none).numpy()
    return kept, {**part_arrays(kept), **narrow}


def _round(preds: Predictions, dtype: torch.dtype) -> Tensor:
    name = str(dtype).removeprefix("torch.")
    if preds.kind == "probs":
        rounded = preds.values.to(dtype)
        _refuse((rounded == 0) & (preds.values > 0), f"The probability of {{}} is so small that {name} makes it 0")
        return rounded
    rounded = (preds.values - preds.values.amax(dim=1, keepdim=True)).to(dtype)
    lost = rounded.isinf() & preds.values.isfinite()
    _refuse(lost, f"The logit of {{}} lies so far below the largest that {name} cannot hold it")
    return rounded + 0.0  # −0.0, which a tiny difference is rounded to, would be 0.0 after saving once more


def _refuse(lost: Tensor, what: str) -> None:
    if bool(lost.any()):
        row, column = lost.nonzero()[0].tolist()
        raise ValueError(f"{what.format(f'class {column} in row {row}')}; save with a wider type, or not compact.")


def _shrink(labels: Tensor) -> Tensor:
    """Convert classes to the smallest type that holds them all; soft labels stay."""
    if labels.ndim == 2:
        return labels
    largest = int(labels.max()) if len(labels) else 0
    return labels.to(next(dtype for dtype in _LABEL_TYPES if largest <= torch.iinfo(dtype).max))
