"""Predictions: what a classifier said about labelled samples, checked, in one shape for everything that follows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from focalcal.predictions.checks import Where, check_some_weight
from focalcal.predictions.names import check_text, check_unique, checked_class_names, checked_provenance
from focalcal.predictions.rows import Kind, Rows, check_kind, check_values, checked_rows, select_rows
from focalcal.predictions.tensors import float_tensor

if TYPE_CHECKING:
    from typing import Unpack

    from focalcal.predictions.formats.compact import Compact
    from focalcal.predictions.options import ReadOptions

# About a megabyte of float32: a block and what is computed from it stay in the cache.
_VALUES_IN_A_BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits or probabilities of N samples over K classes, with their labels.

    Make them with :meth:`from_logits`, :meth:`from_probs`, :meth:`load` or :func:`focalcal.predict`, which check what
    they are given. The arrays are shared with the caller where their type allows it: do not write into them afterwards.

    Attributes:
        values: (N, K) float32 or float64 on the CPU, contiguous: logits or probabilities, as ``kind`` says.
        kind: ``"logits"`` or ``"probs"``.
        labels: (N,) int64 classes, or (N, K) float64 class probabilities (soft labels) whose rows sum to 1.
        weights: (N,) float64, at least 0, or None where every sample counts the same.
        ids: one string a sample, or None.
        split: the name of the set that the samples belong to ("val", "test", ...), or None.
        class_names: one name a class, or None.
        provenance: where the predictions come from, as text by key.
    """

    values: Tensor
    kind: Kind
    labels: Tensor
    weights: Tensor | None = None
    ids: tuple[str, ...] | None = None
    split: str | None = None
    class_names: tuple[str, ...] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Shapes and types only, so that taking a block costs nothing; the values were checked on the way in.
        check_kind(self.kind)
        if self.values.ndim != 2 or self.values.dtype not in (torch.float32, torch.float64):
            raise ValueError("values must be (N, K) float32 or float64; use Predictions.from_logits or from_probs.")
        soft = self.labels.shape == self.values.shape and self.labels.dtype == torch.float64
        if not soft and (self.labels.shape != self.values.shape[:1] or self.labels.dtype != torch.int64):
            raise ValueError("labels must be (N,) int64 or (N, K) float64; use Predictions.from_logits or from_probs.")

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any,
        *,
        class_names: Sequence[str] | None = None,
        ids: Any = None,
        split: str | None = None,
        weights: Any = None,
        ignore_index: int | None = -100,
        provenance: Mapping[str, str] | None = None,
        allow_duplicate_ids: bool = False,
    ) -> Predictions:
        """Make predictions of logits: any real numbers, of which the softmax gives the probabilities.

        Numpy or torch, any floating-point type (float64 stays, others become float32), any device.

        Args:
            logits: (N, K); or (N, K, d1, ...), flattened to one row a position (samples first, then d1, ...); or one
                logit z for two classes, (N,) or (N, 1) or (N, 1, d1, ...), which becomes the two logits (0, z). Finite
                numbers, or -inf for a masked class; no NaN, no +inf, no row of -inf alone.
            labels: integers 0 ... K-1 of shape (N,) or (N, d1, ...) (booleans too, for two classes); or a matrix
                shaped as the (two-class) logits, of class probabilities or of counts, which are divided by their sum.
            class_names: K names.
            ids: N strings or integers. With extra dimensions, the position's number is added: ``id:position``.
            split: the set that the samples belong to; calibrators refuse to be fitted on ``"test"``.
            weights: (N,) or (N, d1, ...), at least 0.
            ignore_index: positions with this label are dropped; None drops nothing.
            provenance: text by key, kept with the predictions.
            allow_duplicate_ids: accept an id that occurs more than once.

        Raises:
            ValueError: one sentence that says what is wrong, in which row, and what to do.

        Examples:
            >>> preds = Predictions.from_logits([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], [0, 2], split="val")
            >>> preds
            Predictions(2 samples, 3 classes, logits, split='val')
            >>> preds.probs()[0].round(decimals=3)
            tensor([0.8440, 0.1140, 0.0420], dtype=torch.float64)
            >>> Predictions.from_logits([0.7, -1.2], [1, 0]).values
            tensor([[ 0.0000,  0.7000],
                    [ 0.0000, -1.2000]], dtype=torch.float64)
        """
        rows = checked_rows("logits", logits, labels, weights=weights, ids=ids, ignore_index=ignore_index)
        preds = from_rows(rows, "logits", split, class_names, provenance)
        return checked_as_a_whole(preds, allow_duplicate_ids)

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        labels: Any,
        *,
        class_names: Sequence[str] | None = None,
        ids: Any = None,
        split: str | None = None,
        weights: Any = None,
        ignore_index: int | None = -100,
        provenance: Mapping[str, str] | None = None,
        allow_duplicate_ids: bool = False,
        tolerance: float | None = None,
    ) -> Predictions:
        """Make predictions of probabilities; everything else is as in :meth:`from_logits`.

        No value may lie outside [0, 1], and each row must sum to 1 within the tolerance, by default
        max(1e-3, 2·eps) + K / 2^25 with the eps of the type they came in: 0.001 for float32 and float64, 0.002 for
        float16, 0.016 for bfloat16, and a little more for very many classes. They are kept as given, not rescaled.

        Args:
            probs: (N, K); or (N, K, d1, ...); or one probability p for two classes, which becomes (1-p, p).
            labels: as in :meth:`from_logits`.
            class_names: as in :meth:`from_logits`.
            ids: as in :meth:`from_logits`.
            split: as in :meth:`from_logits`.
            weights: as in :meth:`from_logits`.
            ignore_index: as in :meth:`from_logits`.
            provenance: as in :meth:`from_logits`.
            allow_duplicate_ids: as in :meth:`from_logits`.
            tolerance: how far from 1 a row may sum, in place of the default.

        Examples:
            >>> Predictions.from_probs([0.9, 0.2], [1, 1], ids=["a", "b"]).values
            tensor([[0.1000, 0.9000],
                    [0.8000, 0.2000]], dtype=torch.float64)
            >>> Predictions.from_probs([[0.6, 0.6]], [0])
            Traceback (most recent call last):
            ValueError: The probabilities of row 0 sum to 1.2, not to 1 (tolerance 0.001); if these are logits use \
from_logits, otherwise divide each row by its sum or pass a larger tolerance.
        """
        rows = checked_rows(
            "probs", probs, labels, weights=weights, ids=ids, ignore_index=ignore_index, tolerance=tolerance
        )
        preds = from_rows(rows, "probs", split, class_names, provenance)
        return checked_as_a_whole(preds, allow_duplicate_ids)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]

    @property
    def has_soft_labels(self) -> bool:
        """Whether labels are class probabilities (N, K) instead of classes (N,)."""
        return self.labels.ndim == 2

    @property
    def hard_labels(self) -> Tensor:
        """(N,) int64: the labels, or the most probable class of soft labels (the first where several are)."""
        return self.labels.argmax(dim=1) if self.has_soft_labels else self.labels

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        parts = [f"{len(self)} samples", f"{self.num_classes} classes", self.kind]
        parts += ["soft labels"] * self.has_soft_labels + ["weights"] * (self.weights is not None)
        parts += ["ids"] * (self.ids is not None)
        parts += [] if self.split is None else [f"split={self.split!r}"]
        return f"Predictions({', '.join(parts)})"

    def log_probs(self) -> Tensor:
        """(N, K) log-probabilities: log softmax of logits, or the log of probabilities (-inf where one is 0)."""
        return torch.log_softmax(self.values, dim=1) if self.kind == "logits" else self.values.log()

    def probs(self) -> Tensor:
        """(N, K) probabilities: softmax of logits, or the probabilities as given."""
        return torch.softmax(self.values, dim=1) if self.kind == "logits" else self.values

    def blocks(self, rows: int | None = None) -> Iterator[Predictions]:
        """Cut into consecutive views of at most ``rows`` samples (by default about a megabyte); nothing is copied."""
        rows = rows_in_a_block(rows, self.num_classes, _VALUES_IN_A_BLOCK)
        for start in range(0, len(self), rows):
            yield self._slice(start, start + rows)

    def select(self, index: Tensor | Sequence[int]) -> Predictions:
        """Return the samples at ``index``, in its order: int64 positions, or a boolean mask (N,)."""
        chosen = torch.as_tensor(index)
        chosen = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen.to(torch.int64)
        rows = select_rows(Rows(self.values, self.labels, self.weights, self.ids), chosen)
        return replace(self, values=rows.values, labels=rows.labels, weights=rows.weights, ids=rows.ids)

    def with_values(self, values: Any, kind: Kind) -> Predictions:
        """Return the same samples with other outputs (N, K), checked: what calibrators' ``transform`` gives."""
        check_kind(kind)
        tensor, dtype = float_tensor(values, kind)
        if tensor.shape != self.values.shape:
            raise ValueError(f"The values have shape {tuple(tensor.shape)} in place of {tuple(self.values.shape)}.")
        check_values(kind, tensor, None, dtype, Where())
        return replace(self, values=tensor.contiguous(), kind=kind)

    def save(self, path: str | os.PathLike[str], *, compact: Compact | None = None) -> None:
        """Write to ``.safetensors``, ``.npz``, ``.parquet`` or ``.csv``: all of it or, on an error, nothing.

        The same predictions give the same bytes: no date and no path is written.

        Args:
            path: the file.
            compact: for ``.safetensors``, the type that the values are rounded to, ``"float16"`` or ``"float32"``, in
                a file with small integer labels and without ids, for committing: a fourth of the size. Rows of logits
                are moved so that the largest of each is 0, which changes no probability.

        Examples:
            >>> import tempfile, pathlib
            >>> preds = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1], class_names=["cat", "dog"])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "val.safetensors")
            ...     preds.save(path)
            ...     Predictions.load(path).class_names
            ('cat', 'dog')
        """
        from focalcal.predictions.formats import save_predictions  # it needs this class: imported on use

        save_predictions(self, path, compact)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Predictions:
        """Read a whole file and check it. The options are those of :func:`focalcal.predictions.open_predictions`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: one sentence with the file's name, for a corrupt, truncated, empty or wrong file or content.
        """
        from focalcal.predictions.files import open_predictions

        return open_predictions(path, **options).read()

    def _slice(self, start: int, stop: int) -> Predictions:
        return replace(
            self,
            values=self.values[start:stop],
            labels=self.labels[start:stop],
            weights=None if self.weights is None else self.weights[start:stop],
            ids=None if self.ids is None else self.ids[start:stop],
        )


def from_rows(
    rows: Rows,
    kind: Kind,
    split: str | None,
    class_names: Sequence[str] | None,
    provenance: Mapping[str, str] | None,
) -> Predictions:
    """Join checked rows with what is said about all of them."""
    if split is not None:
        check_text(split, "split")
    return Predictions(
        values=rows.values,
        kind=kind,
        labels=rows.labels,
        weights=rows.weights,
        ids=rows.ids,
        split=split,
        class_names=checked_class_names(class_names, rows.values.shape[1]),
        provenance=checked_provenance(provenance),
    )


def checked_as_a_whole(preds: Predictions, allow_duplicate_ids: bool) -> Predictions:
    """Check what no single block can show: some sample, some weight, no id twice."""
    if len(preds) == 0:
        raise ValueError("There are no samples (or every label is ignore_index); pass at least one.")
    if preds.weights is not None:
        check_some_weight(float(preds.weights.sum()))
    if preds.ids is not None and not allow_duplicate_ids:
        check_unique(preds.ids)
    return preds


def concatenate(parts: Sequence[Predictions]) -> Predictions:
    """Put predictions of one kind and the same classes one after another; split, names, provenance of the first."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return replace(
        first,
        values=torch.cat([part.values for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        weights=None if first.weights is None else torch.cat([p.weights for p in parts if p.weights is not None]),
        ids=None if first.ids is None else tuple(name for part in parts for name in part.ids or ()),
    )


def rows_in_a_block(rows: int | None, num_classes: int, values_in_a_block: int) -> int:
    """Return ``rows`` if it is a sensible number, or as many as hold ``values_in_a_block`` values."""
    if rows is None:
        return max(1, values_in_a_block // num_classes)
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}.")
    return rows
