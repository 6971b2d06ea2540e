"""A user's own arrays: .npz files of inputs and labels, as samples."""

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import check_unpacked, regular_file
from focalcal.data.data_files import hash_file
from focalcal.data.data_types import DataSet
from focalcal.data.own import TensorSamples, describe_inputs
from focalcal.data.own_columns import label_columns
from focalcal.data.own_images import build_own_images
from focalcal.data.splits import choose_splits, hash_split

Layout = Literal["nchw", "nhwc"]
_SPLITS = ("train", "val", "test")


def load_arrays(
    *,
    seed: int = 0,
    root: Path | None = None,
    path: Path | str | None = None,
    val_path: Path | str | None = None,
    test_path: Path | str | None = None,
    inputs: str = "x",
    labels: str = "y",
    layout: Layout | None = None,
    val_share: float = 0.1,
    test_share: float = 0.1,
    augment: bool | str = False,
) -> DataSet:
    """Load inputs and labels from a user's own .npz files.

    A file has the arrays ``x`` and ``y``; or ``x_train`` and ``y_train``, and the same for ``val`` and ``test`` if it
    has them. Labels are whole numbers from 0 on, or texts. Inputs of uint8 with two or three axes per sample are
    images, and normalised by the mean and standard deviation of training pixels; others are passed to the network
    unchanged.

    Args:
        seed: Seed for the split.
        root: Not used here, as the files are named.
        path: File to learn from. What is given neither in it nor by its own file is held out from the training samples.
        val_path: File to validate with.
        test_path: File to test with.
        inputs: Name of the array of inputs.
        labels: Name of the array of labels.
        layout: Order of the axes of images, (N, C, H, W) or (N, H, W, C); None: the one in which C is 1, 3 or 4.
        val_share: Share of each class that is held out for validation.
        test_share: The same for test.
        augment: For images of uint8: random crops and mirror images in training; "flip": mirror images only.

    Raises:
        ValueError: One sentence on what is wrong with which file.
    """
    if path is None:
        raise ValueError(f"The data set arrays needs path, a .npz file with the arrays {inputs} and {labels}.")
    named = {"train": path, "val": val_path, "test": test_path}
    files = {split: Path(given).expanduser() for split, given in named.items() if given is not None}
    columns = _read_columns(files, inputs, labels)
    numbered, class_names = label_columns({split: found[1] for split, found in columns.items()})
    advice = "give more, val_path and test_path, or raise data.val_share and data.test_share"
    chosen = choose_splits(numbered, {"val": val_share, "test": test_share}, seed, advice)
    every_label = torch.cat(list(numbered.values()))
    pixels = {split: _as_images(found[0], split, layout) for split, found in columns.items()}
    _check_alike(pixels)
    every_input = torch.cat(list(pixels.values()))
    facts: dict[str, Any] = {
        "split_seed": seed,
        "files": {f"{split}: {file.name}": hash_file(file) for split, file in files.items()},
        "notes": [],
    }
    split_labels = {split: every_label[rows] for split, rows in chosen.items()}
    names = class_names or tuple(str(number) for number in range(int(every_label.max()) + 1))
    split_inputs = {split: every_input[rows] for split, rows in chosen.items()}
    if every_input.dtype == torch.uint8 and every_input.ndim == 4:
        facts["announcement"] = f"Images of uint8, {' × '.join(map(str, every_input.shape[1:]))}, normalised."
        return build_own_images(
            "arrays", names, split_inputs, split_labels, ids=chosen, augment=augment, seed=seed, facts=facts
        )
    if augment:
        raise ValueError("data.augment is for images of uint8, and these inputs are not; leave it out.")
    return _build(names, split_inputs, split_labels, chosen, facts)


def _build(
    names: tuple[str, ...],
    inputs: Mapping[str, Tensor],
    labels: Mapping[str, Tensor],
    ids: Mapping[str, Tensor],
    facts: dict[str, Any],
) -> DataSet:
    shape = tuple(inputs["train"].shape[1:])
    facts["announcement"] = f"Inputs of shape {shape}, {inputs['train'].dtype}, passed to the network unchanged."
    facts["sizes"] = {split: len(rows) for split, rows in ids.items()}
    facts["split_sha256"] = {split: hash_split(rows) for split, rows in ids.items()}
    samples = {split: TensorSamples(inputs[split], labels[split], ids=ids[split]) for split in ids}
    train = samples.pop("train")
    return DataSet("arrays", names, train, samples, {"num_classes": len(names), **describe_inputs(train.inputs)}, facts)


def _read_columns(files: Mapping[str, Path], inputs: str, labels: str) -> dict[str, tuple[Tensor, Any]]:
    """Read inputs and labels of each given split, in the order train, val, test."""
    found: dict[str, tuple[Tensor, Any]] = {}
    for split, file in files.items():
        arrays = _read_npz(file)
        in_it = {part: (f"{inputs}_{part}", f"{labels}_{part}") for part in _SPLITS} if split == "train" else {}
        if split == "train" and in_it["train"][0] in arrays:
            given = {part: pair for part, pair in in_it.items() if pair[0] in arrays}
        else:
            given = {split: (inputs, labels)}
        for part, pair in given.items():
            if part != split and part in files:
                raise ValueError(f"{file.name} has {pair[0]}, and data.{part}_path is given, too; leave one out.")
            found[part] = (_inputs(arrays, pair[0], file), _column(arrays, pair[1], file))
            if len(found[part][0]) != len(found[part][1]):
                counts = f"{len(found[part][0]):,} {pair[0]} but {len(found[part][1]):,} {pair[1]}"
                raise ValueError(f"{file.name} has {counts}; each input needs one label.")
            if not len(found[part][0]):
                raise ValueError(f"{file.name}: {pair[0]} is empty; give samples.")
    return {split: found[split] for split in _SPLITS if split in found}


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    if not file.is_file():
        raise ValueError(f"There is no file {file}; set the path of the data to a .npz file.")
    with open(regular_file(file), "rb") as stream:
        if stream.read(6) == b"\x93NUMPY":
            raise ValueError(f"{file} is a single array; save inputs and labels together by numpy.savez.")
        stream.seek(0)
        _check_members(stream, file)
        try:
            content: Any = np.load(stream, allow_pickle=False)
            arrays = {name: content[name] for name in content.files}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ValueError("a member is not an array")
            return arrays
        except Exception as error:  # numpy parses headers as Python: what damage makes it raise has no end
            # An object that is not a .npz file at all is taken for a pickle, too.
            if zipfile.is_zipfile(file) and "pickle" in str(error):
                advice = "arrays of Python objects are not read, as that could run code; save texts as numpy.str_"
                raise ValueError(f"{file} cannot be read: {advice}.") from None
            raise ValueError(f"{file} is not a whole .npz file; save it again by numpy.savez.") from error


def _check_members(stream: BinaryIO, file: Path) -> None:
    """Refuse arrays that unpack to far more than a file of their size can hold."""
    with suppress(zipfile.BadZipFile, NotImplementedError, UnicodeError), zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            try:
                check_unpacked(member.filename, member.file_size, member.compress_size)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error
    stream.seek(0)


def _column(arrays: Mapping[str, np.ndarray], name: str, file: Path) -> np.ndarray:
    if name not in arrays:
        raise ValueError(
            f"{file.name} has no array {name!r}, but {', '.join(arrays) or 'none at all'}; name the arrays with "
            "data.inputs and data.labels."
        )
    if arrays[name].ndim == 0:
        raise ValueError(f"{file.name}: {name} is a single value; give one per sample.")
    return arrays[name]


def _inputs(arrays: Mapping[str, np.ndarray], name: str, file: Path) -> Tensor:
    values = _column(arrays, name, file)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{file.name}: {name} holds {values.dtype}, not numbers.")
    if values.dtype.kind == "f":
        values = values.astype(np.float32)
        if not np.isfinite(values).all():
            row = int(np.nonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0][0])
            raise ValueError(f"{file.name}: {name} holds NaN or infinity in row {row} (counted from 0).")
    elif values.dtype != np.uint8:
        values = values.astype(np.int64)
    return torch.from_numpy(np.ascontiguousarray(values))


def _as_images(values: Tensor, split: str, layout: Layout | None) -> Tensor:
    """Put the channels of images first; everything that has fewer than two axes per sample stays unchanged."""
    if values.ndim == 3 and values.dtype == torch.uint8:
        values = values.unsqueeze(1)
    if values.ndim != 4:
        return values
    first, last = values.shape[1] in (1, 3, 4), values.shape[3] in (1, 3, 4)
    if layout is None and first == last:
        shape = tuple(values.shape)
        raise ValueError(f"{split}: which axis of {shape} has the channels is not clear; set data.layout=nchw or nhwc.")
    channels_last = layout == "nhwc" if layout is not None else last
    values = values.permute(0, 3, 1, 2).contiguous() if channels_last else values
    if values.shape[2] != values.shape[3]:
        height, width = values.shape[2:]
        raise ValueError(f"{split}: the images have {height} × {width} pixels; cut or pad them to squares.")
    return values


def _check_alike(inputs: Mapping[str, Tensor]) -> None:
    first = inputs["train"]
    for split, values in inputs.items():
        if values.shape[1:] != first.shape[1:] or values.dtype != first.dtype:
            got, expected = (f"{part.dtype} {tuple(part.shape[1:])}" for part in (values, first))
            raise ValueError(f"{split}: inputs are {got}, but those of train {expected}.")
