"""Files of predictions: saved whole, loaded whole, or read block by block."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Unpack

from torch import Tensor

from focalcal.predictions.checks import check_some_weight
from focalcal.predictions.container import Predictions, checked_as_a_whole, concatenate, from_rows, rows_in_a_block
from focalcal.predictions.failures import Path, check_exists, reading
from focalcal.predictions.formats import format_of, npy
from focalcal.predictions.formats.sources import RawBlock, Source, StoredArray, Take
from focalcal.predictions.names import checked_class_names, checked_provenance
from focalcal.predictions.options import Choices, ReadOptions
from focalcal.predictions.rows import Kind, checked_rows
from focalcal.predictions.tensors import cpu_tensor
from focalcal.predictions.unique import check_unique_in_blocks

# About 2 MB of float32: a block and everything computed from it stay far below 100 MB.
_VALUES_IN_A_BLOCK = 2**19


@dataclass(frozen=True)
class Opened:
    """What :func:`open_predictions` found."""

    source: Source
    choices: Choices
    labels: StoredArray | None  # in place of the file's own
    broken: tuple[type[Exception], ...]


class PredictionsFile:
    """A file of predictions that is read block by block, so that it may be larger than memory.

    Made by :func:`open_predictions`. Every pass opens the file anew; nothing stays open in between.

    Attributes:
        path: the file.
        kind: ``"logits"`` or ``"probs"``.
        num_classes: K.
        split: the name of the set, or None.
        class_names: K names, or None.
        provenance: text by key.
    """

    def __init__(self, path: Path, opened: Opened) -> None:
        source, choices = opened.source, opened.choices
        self.path = path
        self.kind: Kind = source.kind
        columns, *positions = source.sample_shape or (1,)
        self.num_classes = 2 if columns == 1 else columns
        self.split = source.metadata.split if choices.split is None else choices.split
        names = source.metadata.class_names if choices.class_names is None else choices.class_names
        self.class_names = checked_class_names(names, self.num_classes)
        self.provenance: Mapping[str, str] = checked_provenance(source.metadata.provenance)
        self._opened = opened
        self._positions = prod(positions)
        self._ids_are_unique = choices.allow_duplicate_ids or not source.has_ids

    def __repr__(self) -> str:
        return f"PredictionsFile({os.fspath(self.path)!r}, {self.num_classes} classes, {self.kind})"

    @property
    def num_samples(self) -> int:
        """Rows that the file has, including those that are dropped for their label being ``ignore_index``."""
        with reading(self.path, self._opened.broken):
            return self._opened.source.num_samples * self._positions

    def blocks(self, rows: int | None = None) -> Iterator[Predictions]:
        """Read, check and give the samples in order, at most about ``rows`` at a time (by default about 2 MB).

        A sample with positions (d1, ...) is never divided, and a block of which every label is ignored is skipped.

        Raises:
            ValueError: one sentence with the file's name, and the row where the content is wrong.
        """
        rows = rows_in_a_block(rows, self.num_classes, _VALUES_IN_A_BLOCK)
        with reading(self.path, self._opened.broken):
            self._check_ids()
            yield from self._checked_blocks(max(1, rows // max(1, self._positions)))

    def read(self) -> Predictions:
        """Read all of it into memory."""
        with reading(self.path, self._opened.broken):
            parts = list(self._checked_blocks(sys.maxsize))
            return checked_as_a_whole(concatenate(parts), self._opened.choices.allow_duplicate_ids)

    def _check_ids(self) -> None:
        if not self._ids_are_unique:
            check_unique_in_blocks(self._opened.source.id_blocks, self._opened.source.num_samples)
            self._ids_are_unique = True

    def _checked_blocks(self, samples: int) -> Iterator[Predictions]:
        first, weight, empty = 0, 0.0, True
        with self._labels_reader() as take_labels:
            for block in self._opened.source.raw_blocks(samples):
                labels = block.labels if take_labels is None else take_labels(len(block.values))
                part = self._checked(replace(block, labels=labels), first)
                first += len(block.values)
                if len(part):
                    weight += 0.0 if part.weights is None else float(part.weights.sum())
                    empty = False
                    yield part
        if empty:
            raise ValueError("it has no samples (or every label is ignore_index).")
        if self._opened.source.has_weights:
            check_some_weight(weight)

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

    def _checked(self, block: RawBlock, first: int) -> Predictions:
        rows = checked_rows(
            self.kind,
            block.values,
            block.labels,
            weights=block.weights,
            ids=block.ids,
            ignore_index=self._opened.choices.ignore_index,
            tolerance=self._tolerance(),
            first=first,
        )
        return from_rows(rows, self.kind, self.split, self.class_names, self.provenance)

    def _tolerance(self) -> float | None:
        return (
            self._opened.source.metadata.tolerance
            if self._opened.choices.tolerance is None
            else self._opened.choices.tolerance
        )


def open_predictions(path: Path, **options: Unpack[ReadOptions]) -> PredictionsFile:
    """Open a file of predictions without reading it: the ending says its format.

    ``.safetensors``, ``.npz``, ``.parquet`` and ``.csv`` as described in docs/predictions.md; ``.npy`` for the values
    alone, with ``kind`` and ``labels``. Nothing is ever unpickled.

    Args:
        path: the file.
        **options:
            logits_key, probs_key: the array or column(s) that hold logits, or probabilities, where they are not called
                ``logits``, or ``probs`` or ``predictions``. In tables: a column, the common beginning of columns
                (``score`` for ``score_0``, ``score_1``, ... or ``score:cat``, ``score:dog``), or a list of columns.
            labels_key: the same for labels that are not called ``labels``, ``label`` or ``ground_truth``.
            weights_key, ids_key: the same for ``weights``/``weight`` and ``ids``/``id``.
            kind: ``"logits"`` or ``"probs"``: for npy, and for a file that has both.
            labels: labels in place of the file's own, such as human label counts: an array, or the path of an npy.
            split, class_names: in place of what the file says.
            ignore_index: positions with this label are dropped (-100; None drops nothing).
            tolerance: how far from 1 a row of probabilities may sum.
            allow_duplicate_ids: accept an id that occurs more than once.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one sentence with the file's name.

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
    choices = Choices.chosen(options)
    check_exists(path)
    chosen = format_of(path)
    labels = _passed_labels(choices)
    with reading(path, chosen.BROKEN):
        source = chosen.open_source(path, choices)
        return PredictionsFile(path, Opened(source, choices, labels, chosen.BROKEN))


@dataclass(frozen=True)
class MemoryArray(StoredArray):
    """An array that is no file, read like one."""

    tensor: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return tuple(self.tensor.shape)

    @contextmanager
    def reader(self) -> Iterator[Take]:
        """Start at the first sample."""
        rest = self.tensor

        def take(count: int) -> Tensor:
            nonlocal rest
            taken, rest = rest[:count], rest[count:]
            return taken

        yield take


def _passed_labels(choices: Choices) -> StoredArray | None:
    """Labels in place of the file's own: an array, or the path of an npy."""
    if choices.labels is None:
        return None
    if not isinstance(choices.labels, str | os.PathLike):
        return MemoryArray(cpu_tensor(choices.labels, "labels"))
    check_exists(choices.labels)
    with reading(choices.labels, npy.BROKEN):
        return npy.open_npy(choices.labels)
