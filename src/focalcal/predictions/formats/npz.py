"""Predictions in npz, as numpy writes it; nothing is ever unpickled.

It has the arrays ``logits`` or ``probs``/``predictions``, ``labels``/``ground_truth``, and where there are such
``weights``, ``ids`` (text or integers), ``class_names``, ``split``, ``provenance`` (JSON) and ``row_sum_tolerance``.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np

from focalcal.predictions.container import Predictions
from focalcal.predictions.formats.bytes_in_files import ArrayLayout, take_from
from focalcal.predictions.formats.metadata import json_text, needed_tolerance
from focalcal.predictions.formats.npy import PickledArray, npy_layout
from focalcal.predictions.formats.sources import ArraySource, Metadata, StoredArray, Take
from focalcal.predictions.options import Choices

BROKEN = (
    EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, json.JSONDecodeError,
    UnicodeDecodeError, OverflowError, MemoryError,
)  # fmt: skip

_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip knows
_METADATA = ("split", "class_names", "provenance", "row_sum_tolerance")


def write(preds: Predictions, file: BinaryIO) -> None:
    """Write an uncompressed npz that does not depend on the time of day."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in _arrays(preds).items():
            info = zipfile.ZipInfo(f"{name}.npy", _NO_DATE)
            info.create_system = 3  # not the system that happens to run
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def open_source(path: str | os.PathLike[str], choices: Choices) -> ArraySource:
    """Read the table of contents and the header of every array."""
    with zipfile.ZipFile(path) as archive:
        arrays: dict[str, StoredArray] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name != info.filename:
                with archive.open(info) as member:
                    layout = npy_layout(member, info.file_size, name)
                pickled = layout.dtype.hasobject
                arrays[name] = PickledArray(name) if pickled else ZipArray(path, info.filename, layout)
    return ArraySource(arrays, _metadata(arrays), choices)


@dataclass(frozen=True)
class ZipArray(StoredArray):
    """An npy inside a zip archive, compressed or not."""

    path: str | os.PathLike[str]
    member: str
    layout: ArrayLayout

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return self.layout.shape

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            npy_layout(file, archive.getinfo(self.member).file_size, self.member)
            take, left = take_from(cast(zipfile.ZipExtFile, file), self.layout), self.shape[0] if self.shape else 1

            def take_and_verify(count: int) -> Any:
                nonlocal left
                samples, left = take(count), left - count
                if left == 0:
                    file.read(1)  # the end of the member: only here zipfile compares the checksum
                return samples

            yield take_and_verify


def _arrays(preds: Predictions) -> dict[str, np.ndarray]:
    arrays: dict[str, Any] = {preds.kind: preds.values.numpy(), "labels": preds.labels.numpy()}
    if preds.weights is not None:
        arrays["weights"] = preds.weights.numpy()
    if preds.ids is not None:
        arrays["ids"] = np.array(preds.ids)
    if preds.class_names is not None:
        arrays["class_names"] = np.array(preds.class_names)
    if preds.split is not None:
        arrays["split"] = np.array(preds.split)
    if preds.provenance:
        arrays["provenance"] = np.array(json_text(dict(preds.provenance)))
    if (tolerance := needed_tolerance(preds)) is not None:
        arrays["row_sum_tolerance"] = np.array(tolerance)
    return arrays


def _metadata(arrays: dict[str, StoredArray]) -> Metadata:
    """Read and take out the arrays that describe all samples."""
    found = {name: arrays.pop(name).everything().reshape(-1).tolist() for name in _METADATA if name in arrays}
    for name in ("split", "provenance", "row_sum_tolerance"):
        if name in found and len(found[name]) != 1:
            raise ValueError(f"its {name} should be a single value; rename or remove that array.")
    return Metadata(
        split=found["split"][0] if "split" in found else None,
        class_names=tuple(found["class_names"]) if "class_names" in found else None,
        provenance=json.loads(found["provenance"][0]) if "provenance" in found else {},
        tolerance=float(found["row_sum_tolerance"][0]) if "row_sum_tolerance" in found else None,
    )
