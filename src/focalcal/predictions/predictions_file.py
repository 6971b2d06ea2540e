"""Files of predictions, opened without reading them: loaded whole, or read block by block."""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from glob import has_magic
from math import prod
from typing import Any, Unpack

import numpy as np
import torch

from focalcal.base.chunks import IN_CACHE
from focalcal.base.files import regular_file
from focalcal.base.measures import Of
from focalcal.base.notices import PredictionsWarning
from focalcal.base.remote import LocalCopy, is_remote
from focalcal.base.suggestions import shorten
from focalcal.predictions.checks import Where, check_some_weight
from focalcal.predictions.confidence_pairs import prepare_pairs
from focalcal.predictions.construction import check_whole
from focalcal.predictions.container import Predictions, concatenate, from_rows
from focalcal.predictions.description import Columns, Description, describe, show_masked, split_old_provenance
from focalcal.predictions.formats import Path, find_format
from focalcal.predictions.formats.npz import open_npy
from focalcal.predictions.formats.parts import GROUPS, Metadata, say_no_labels
from focalcal.predictions.formats.sources import MemoryArray, RawBlock, Source, StoredArray, Take
from focalcal.predictions.ids import check_unique_in_blocks
from focalcal.predictions.labels import LabelNames, TextsSoFar, is_text
from focalcal.predictions.read_options import Choices, ReadOptions
from focalcal.predictions.rows import Kind, choose_block_rows, prepare_rows
from focalcal.predictions.tensors import cpu_tensor

_LONGEST_REASON = 300  # characters of a library's message, which may quote the file


@dataclass(frozen=True)
class Opened:
    """An opened file, how it is to be read, and how damage shows."""

    source: Source
    choices: Choices
    labels: StoredArray | None  # instead of the file's own
    broken: tuple[type[Exception], ...]
    copy: LocalCopy | None = None  # of a remote file; it is there as long as this is


class PredictionsFile:
    """A file of predictions that is read block by block, so that it may be larger than memory.

    Made by :func:`open_predictions`. Every pass opens the file again; nothing stays open in between.

    Attributes:
        path: The file.
        kind: ``"logits"`` or ``"probs"``.
        of: What calibration is measured of, as in ``Predictions``.
        has_labels: Whether it has labels, or was given some.
        num_classes: K.
        split: Name of the set, or None.
        class_names: K names, or None.
        masked_classes: Classes that are never the answer, in order.
        provenance: Text by key.
        groups: Names of the columns of groups.
    """

    def __init__(self, path: Path, opened: Opened) -> None:
        source, choices = opened.source, opened.choices
        self.path = path
        self.kind: Kind = source.kind
        columns, positions = _split_shape(source.sample_shape, choices.class_dim)
        self.num_classes = 2 if columns == 1 else columns
        self._pairs = choices.confidence_key is not None
        named = source.metadata.class_names if choices.class_names is None else choices.class_names
        self._label_names = None if self._pairs else _name_labels(opened, columns, named)
        names = named if self._label_names is None or self._label_names.names is None else self._label_names.names
        said = Columns(choices.of, choices.positive_class, choices.class_dim, names)
        self.of, self._positive = said.measure(columns, "confidence" if self._pairs else source.metadata.of)
        names = said.names(self._positive)
        self._description = _describe(source.metadata, choices, self.num_classes, self.of, names)
        self.split = self._description.split
        self.class_names = self._description.class_names
        self.masked_classes = self._description.masked_classes
        self.provenance = self._description.provenance
        self.groups = tuple(part.removeprefix(GROUPS) for part in source.parts if part.startswith(GROUPS))
        self._opened = opened
        self._positions = prod(positions)
        self.has_labels = opened.labels is not None or not {"labels", "correct"}.isdisjoint(source.parts)
        self._ids_are_unique = choices.allow_duplicate_ids or "ids" not in source.parts

    def __repr__(self) -> str:
        parts = [repr(os.fspath(self.path)), f"{self.num_classes} classes", self.kind]
        return f"PredictionsFile({', '.join(parts + show_masked(self.masked_classes))})"

    @property
    def local_path(self) -> Path:
        """The file, or the copy of a remote one."""
        return self.path if self._opened.copy is None else self._opened.copy.path

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.path.getsize(self.local_path)

    @property
    def num_samples(self) -> int:
        """Rows that the file has, including those that are dropped for their label being ``ignore_index``."""
        with reading(self.path, self._opened.broken):
            return self._opened.source.num_samples * self._positions

    @property
    def source(self) -> Source:
        """The opened file, as its format reads it."""
        return self._opened.source

    @property
    def exchanged(self) -> bool:
        """True if the two columns were exchanged, so that the positive class is the second."""
        return self._positive == 0 and bool(self.source.sample_shape)

    def check_labels(self) -> None:
        """Refuse a file without labels, in a sentence that says what it has instead."""
        if not self.has_labels:
            with reading(self.path):
                raise ValueError(say_no_labels(self._opened.source.names, for_pairs=self._pairs))

    def blocks(self, rows: int | None = None, *, is_part: bool = False) -> Iterator[Predictions]:
        """Read and check the samples in order, at most about ``rows`` at a time (by default about 2 MB).

        A sample with positions (d1, ...) is never divided, and a block of which every label is ignored is skipped. A
        file that is only a part of the data may have no samples, or none that count.

        Raises:
            ValueError: One sentence with the file's name, and the row where the content is wrong.
        """
        rows = choose_block_rows(rows, self.num_classes, IN_CACHE)
        with reading(self.path, self._opened.broken):
            self._check_ids()
            yield from self._read_blocks(max(1, rows // max(1, self._positions)), is_part)

    def read(self) -> Predictions:
        """Read all of it into memory."""
        with reading(self.path, self._opened.broken):
            parts = list(self._read_blocks(sys.maxsize))
            return check_whole(concatenate(parts), self._opened.choices.allow_duplicate_ids)

    def _check_ids(self) -> None:
        if not self._ids_are_unique:
            source = self._opened.source
            check_unique_in_blocks(lambda: source.read_part("ids"), source.num_samples)
            self._ids_are_unique = True

    def _read_blocks(self, samples: int, is_part: bool = False) -> Iterator[Predictions]:
        first, weight, empty = 0, 0.0, True
        with self._labels_reader() as take_labels:
            for block in self._opened.source.read_blocks(samples):
                kept = block.pop("rows", None)
                count = len(block["values"])
                if take_labels is not None:
                    block["labels"] = take_labels(count)
                part = self._check_block(block, first, kept)
                first += count
                if len(part):
                    weight += 0.0 if part.weights is None else float(part.weights.sum())
                    empty = False
                    yield part
        self._say_dropped()
        if is_part:
            return
        if empty:
            raise ValueError("it has no samples (or every label is ignore_index).")
        if "weights" in self._opened.source.parts:
            check_some_weight(weight)

    def _say_dropped(self) -> None:
        dropped = self._opened.source.dropped
        if dropped:
            total = self._opened.source.num_samples
            warnings.warn(
                f"{os.fspath(self.path)}: {dropped:,} of {total:,} rows lack a value and are left out.",
                PredictionsWarning,
                stacklevel=2,
            )

    def _labels_reader(self) -> AbstractContextManager[Take | None]:
        labels = self._opened.labels
        if labels is None:
            return nullcontext()
        num_samples = self._opened.source.num_samples
        if labels.shape[:1] != (num_samples,):
            raise ValueError(
                f"the labels that were passed have shape {labels.shape}, but it has {num_samples} samples."
            )
        return labels.reader()

    def _check_block(self, block: RawBlock, first: int, kept: np.ndarray | None) -> Predictions:
        choices = self._opened.choices
        groups = {name.removeprefix(GROUPS): part for name, part in block.items() if name.startswith(GROUPS)}
        parts = {name: part for name, part in block.items() if not name.startswith(GROUPS)}
        where = Where(first, kept=None if kept is None else torch.from_numpy(kept))
        if self._pairs:
            correct, predicted, labels = (parts.pop(name, None) for name in ("correct", "predicted", "labels"))
            pairs = prepare_pairs(parts["values"], correct, predicted, labels, groups, choices.ignore_index, where)
            parts["values"], parts["labels"], groups = pairs.outputs, pairs.correct, dict(pairs.groups or {})
        elif self._label_names is not None:
            parts["labels"] = self._label_names.convert(parts["labels"], where)
        rows = prepare_rows(
            self.kind,
            **parts,
            groups=groups,
            kept=where.kept,
            class_dim=1 if self._pairs else choices.class_dim,
            positive=self._positive,
            labels_are=choices.labels_are,
            ignore_index=choices.ignore_index,
            tolerance=self._tolerance(),
            first=first,
        )
        return from_rows(rows, self.kind, self._description)

    def _tolerance(self) -> float | None:
        return (
            self._opened.source.metadata.tolerance
            if self._opened.choices.tolerance is None
            else self._opened.choices.tolerance
        )


def _name_labels(opened: Opened, columns: int, class_names: Sequence[str] | None) -> LabelNames | None:
    """Find out which classes labels in text stand for, which may take a pass over them; None for numbers."""
    if opened.labels is not None:
        labels = opened.labels.tensor if isinstance(opened.labels, MemoryArray) else None
        blocks: Iterable[Any] = [labels] if is_text(labels) else []
    else:
        blocks = opened.source.read_part("labels") if "labels" in opened.source.parts else []
    texts = TextsSoFar()
    for number, block in enumerate(blocks):
        if number == 0 and not is_text(block):
            return None
        texts.add(block)
        if class_names is not None:
            break
    if not texts.texts:
        return None
    return LabelNames.find(texts.texts - {""}, columns, class_names, opened.choices.positive_class)


def _split_shape(sample_shape: tuple[int, ...], class_dim: int | None) -> tuple[int, tuple[int, ...]]:
    """Return the number of columns and the positions (d1, ...) of one sample's values."""
    if not sample_shape:
        return 1, ()
    axis = 0 if class_dim is None or len(sample_shape) == 1 else class_dim - (class_dim > 0)
    columns = sample_shape[axis] if -len(sample_shape) <= axis < len(sample_shape) else sample_shape[0]
    return columns, (prod(sample_shape) // max(columns, 1),)


def _describe(
    metadata: Metadata, choices: Choices, num_classes: int, of: Of, class_names: Sequence[str] | None
) -> Description:
    """Describe all samples: what the caller says goes before what the file says."""
    masked, provenance = metadata.masked_classes, metadata.provenance
    if masked is None:
        masked, provenance = split_old_provenance(provenance, num_classes)
    return describe(
        num_classes,
        of=of,
        split=metadata.split if choices.split is None else choices.split,
        class_names=class_names,
        masked_classes=masked if choices.masked_classes is None else choices.masked_classes,
        provenance=provenance,
    )


def open_predictions(path: Path, **options: Unpack[ReadOptions]) -> PredictionsFile:
    """Open a file of predictions without reading it: the ending says its format.

    ``.safetensors``, ``.npz``, ``.parquet``, ``.csv``, ``.tsv`` and ``.jsonl`` as described in docs/predictions.md (the
    last three also with ``.gz``); ``.npy`` for the values alone, with ``kind``. Nothing is ever unpickled.

    Args:
        path: The file; ``s3://``, ``gs://``, ``hdfs://`` and whatever else fsspec knows is copied here first. A pattern
            such as ``preds/*.parquet`` reads several files of one model as one.
        **options:
            logits_key, probs_key: The array or column(s) that hold logits, or probabilities, where they are not called
                ``logits``, or ``probs`` or ``predictions``. In tables: a column, the common beginning of columns
                (``score`` for ``score_0``, ``score_1``, ... or ``score:cat``, ``score:dog``), or a list of columns.
            labels_key: The same for labels that are not called ``labels``, ``label`` or ``ground_truth``. They are
                numbers, or text: names of classes, or true and false.
            confidence_key: The column with one confidence per answer, beside ``correct_key`` (0 and 1, or true and
                false), or ``predicted_key`` and ``labels_key`` (classes): as ``Predictions.from_confidence``.
            weights_key, ids_key, clusters_key: The same for ``weights``/``weight``, ``ids``/``id`` and ``clusters``.
            groups_key: Columns of groups, such as ``["region", "month"]``; those of our own files are always read.
            of, positive_class, class_dim, labels_are: As in ``Predictions.from_logits``.
            kind: ``"logits"`` or ``"probs"``: for npy, and for a file that has both.
            labels: Labels instead of the file's own, such as human label counts: an array, or the path of an npy.
            split, class_names, masked_classes: Used instead of what the file says.
            ignore_index: Positions with this label are dropped (-100; None drops nothing).
            tolerance: Largest distance from 1 of the sum of a row of probabilities.
            allow_duplicate_ids: Accept an id that occurs more than once.
            drop_missing: Leave out rows without a value, and say how many in a warning.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: One sentence with the file's name.

    Examples:
        >>> import tempfile, pathlib
        >>> preds = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], [0, 1, 1], split="test")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "test.npz")
        ...     preds.save(path)
        ...     file = open_predictions(path)
        ...     file.num_samples, file.split, [len(block) for block in file.blocks(rows=2)]
        (3, 'test', [2, 1])
    """
    choices = Choices.choose(options)
    if has_magic(os.fspath(path)):
        from focalcal.predictions.shards import is_pattern, open_sharded  # which opens files one by one

        if is_pattern(path):
            return open_sharded(os.fspath(path), options)
    if is_remote(path):
        return _open_remote(os.fspath(path), choices)
    check_exists(path)
    chosen = find_format(path)
    labels = _open_labels(choices)
    with reading(path, chosen.broken()):
        return PredictionsFile(path, Opened(chosen.open(path, choices), choices, labels, chosen.broken()))


def _open_remote(url: str, choices: Choices) -> PredictionsFile:
    """Open a copy of a remote file, which lives as long as what is returned."""
    chosen = find_format(url)
    labels = _open_labels(choices)
    copy = LocalCopy(url)
    with reading(url, chosen.broken()):
        if copy.path.stat().st_size == 0:
            raise ValueError("it is empty.")
        return PredictionsFile(url, Opened(chosen.open(copy.path, choices), choices, labels, chosen.broken(), copy))


def _open_labels(choices: Choices) -> StoredArray | None:
    """Open the labels that were passed: an array, or the path of an npy."""
    if choices.labels is None:
        return None
    if not isinstance(choices.labels, str | os.PathLike):
        if is_text(choices.labels):
            return MemoryArray(np.asarray(choices.labels))
        return MemoryArray(cpu_tensor(choices.labels, "labels"))
    check_exists(choices.labels)
    with reading(choices.labels, find_format("labels.npy").broken()):
        return open_npy(choices.labels)


@contextmanager
def reading(path: Path, broken: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn any error about a file into one sentence that begins with its name."""
    name = os.fspath(path)
    try:
        yield
    except broken as error:
        raise ValueError(
            f"{name} is corrupt or truncated, or not what its name says: {_first_sentence(error)}."
        ) from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from error
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or _first_sentence(error)}.") from error


def _first_sentence(error: Exception) -> str:
    """Return the first sentence of a library's message; some have several, on several lines."""
    sentence = " ".join(str(error).split()).split(". ")[0].rstrip(".") or type(error).__name__
    return shorten(sentence, _LONGEST_REASON)


def check_exists(path: Path) -> None:
    """Refuse a file that is not there, a folder, a device or a pipe, and an empty file."""
    name = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {name}.")
    if os.path.isdir(path):
        raise ValueError(f"{name} is a folder; give the name of a file of predictions.")
    if regular_file(path).stat().st_size == 0:
        raise ValueError(f"{name} is empty.")
