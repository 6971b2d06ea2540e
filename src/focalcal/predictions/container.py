"""Predictions: the outputs of a classifier with labels, checked, in one shape for everything that follows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from focalcal.base.chunks import chunks
from focalcal.base.measures import Of, check_of
from focalcal.predictions.checks import LabelsAre, Where
from focalcal.predictions.confidence_pairs import prepare_pairs
from focalcal.predictions.construction import check_options, check_whole, construct
from focalcal.predictions.description import Description, can_be_masked, describe, show_masked
from focalcal.predictions.groups import Groups
from focalcal.predictions.rows import (
    Kind,
    Rows,
    change_rows,
    check_kind,
    check_values,
    choose_block_rows,
    join_rows,
    pick_rows,
    prepare_rows,
)
from focalcal.predictions.tensors import float_tensor

if TYPE_CHECKING:
    from typing import Unpack

    from focalcal.predictions.construction import OutputOptions
    from focalcal.predictions.formats.safetensors import Compact
    from focalcal.predictions.read_options import ReadOptions

NO_LABELS = (
    "These predictions have no labels, so they can be calibrated and saved but not measured; pass labels, or name "
    "their column with labels_key where the file has one."
)
# About a megabyte of float32: a block and what is computed from it stay in the cache.
_VALUES_IN_A_BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits or probabilities of N samples over K classes, with their labels if these are known.

    Make them with :meth:`from_logits`, :meth:`from_probs`, :meth:`from_confidence`, :meth:`load` or
    :func:`focalcal.predict`, which check what they are given. The arrays are shared with the caller where their type
    allows it: do not write into them afterwards.

    Attributes:
        values: (N, K) float32 or float64 on the CPU, contiguous: logits or probabilities, as ``kind`` says.
        kind: ``"logits"`` or ``"probs"``.
        labels_or_none: The labels, as ``labels`` gives them, or None where they are not known.
        of: What calibration is measured of: ``"top"``, the probability of the predicted class; ``"score"``, that of
            class 1 of two; ``"confidence"``, a number per answer, with the two columns (wrong, right) and labels that
            say whether the answer was right.
        weights: (N,) float64, at least 0, or None where every sample counts the same.
        ids: One string per sample, or None.
        clusters: (N,) int64, the image, sentence or user that each sample belongs to, or None where samples are
            independent of each other.
        groups: Columns such as ``region`` or ``month``, by name: the group of each sample.
        split: Name of the set that the samples belong to ("val", "test", ...), or None.
        class_names: One name per class, or None.
        masked_classes: Classes that take a share of the probability but are never the answer, in order; metrics look
            at the probabilities of the others (see docs/predictions.md).
        provenance: Origin of the predictions, as text by key.
    """

    values: Tensor
    kind: Kind
    labels_or_none: Tensor | None = None
    _: KW_ONLY
    of: Of = "top"
    weights: Tensor | None = None
    ids: tuple[str, ...] | None = None
    clusters: Tensor | None = None
    groups: Groups = field(default_factory=dict)
    split: str | None = None
    class_names: tuple[str, ...] | None = None
    masked_classes: tuple[int, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Shapes and types only, so that taking a block costs nothing; the values were checked on the way in.
        check_kind(self.kind)
        if self.values.ndim != 2 or self.values.dtype not in (torch.float32, torch.float64):
            raise ValueError("values must be (N, K) float32 or float64; use Predictions.from_logits or from_probs.")
        check_of(self.of)
        if self.of != "top" and self.num_classes != 2:
            raise ValueError(f"of={self.of!r} needs two columns; use Predictions.from_probs or from_confidence.")
        labels = self.labels_or_none
        hard = labels is not None and labels.shape == self.values.shape[:1] and labels.dtype == torch.int64
        if labels is not None and not hard and not self.has_soft_labels:
            raise ValueError("labels must be (N,) int64 or (N, K) float64; use Predictions.from_logits or from_probs.")
        if self.masked_classes and not can_be_masked(self.masked_classes, self.num_classes):
            raise ValueError(
                "masked_classes must be classes, in order, that leave two others; use from_logits or from_probs."
            )

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        masked_classes: Collection[int] = (),
        of: Of | None = None,
        positive_class: int | str | None = None,
        class_dim: int | None = None,
        labels_are: LabelsAre = "probs",
        ids: Any = None,
        split: str | None = None,
        weights: Any = None,
        groups: Mapping[str, Any] | None = None,
        clusters: Any = None,
        ignore_index: int | None = -100,
        provenance: Mapping[str, str] | None = None,
        allow_duplicate_ids: bool = False,
    ) -> Predictions:
        """Make predictions from logits: any real numbers, of which the softmax gives the probabilities.

        Numpy or torch, any floating-point type (float64 stays, others become float32), any device.

        One column is the score of an event: its calibration is that of the probability of class 1 against the
        frequency of class 1. Two and more columns are measured by the predicted class.

        Args:
            logits: (N, K); or (N, K, d1, ...), flattened to one row per position (samples first, then d1, ...); or one
                logit z for two classes, (N,) or (N, 1) or (N, 1, d1, ...), which becomes the two logits (0, z). Finite
                numbers, or -inf for a masked class; no NaN, no +inf, no row of -inf alone.
            labels: Integers 0 ... K-1 of shape (N,) or (N, d1, ...), or whole floats, or booleans for two classes; or
                text, which is matched with ``class_names`` or else sorted; or a matrix
                shaped as the (two-class) logits, of class probabilities or of counts; None where they are not known,
                for predictions that are only to be calibrated.
            class_names: K names.
            masked_classes: Classes that are never the answer, such as the neutral one of a sentiment network that has
                to say positive or negative. Their values stay, because a temperature acts on all of them; metrics are
                those of the other classes.
            of: ``"top"`` measures a score by its predicted class, ``"score"`` two columns by the second of them.
            positive_class: The class of two, by number or name, whose probability is the score; it becomes class 1.
            class_dim: Axis of the classes, by default 1; -1 for outputs (N, T, K).
            labels_are: ``"counts"`` for a matrix of votes, whose rows are divided by their sum.
            ids: N strings or integers. With extra dimensions, the position's number is added: ``id:position``.
            split: Set that the samples belong to; calibrators refuse to be fitted on ``"test"``.
            weights: (N,) or (N, d1, ...), at least 0.
            groups: Columns by name, ``{"region": [...]}``, of text or whole numbers, (N,) or (N, d1, ...).
            clusters: Text or whole numbers, (N,) or (N, d1, ...): samples of one image, sentence or user depend on
                each other. With extra dimensions the sample is the cluster, unless other ones are passed.
            ignore_index: Positions with this label are dropped; None drops nothing.
            provenance: Text by key, kept with the predictions.
            allow_duplicate_ids: Accept an id that occurs more than once.

        Raises:
            ValueError: One sentence that says what is wrong, in which row, and what to do.

        Examples:
            >>> preds = Predictions.from_logits([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], [0, 2], split="val")
            >>> preds
            Predictions(2 samples, 3 classes, logits, split='val')
            >>> preds.probs()[0].round(decimals=3)
            tensor([0.8440, 0.1140, 0.0420], dtype=torch.float64)
            >>> score = Predictions.from_logits([0.7, -1.2], [1, 0])
            >>> score.of, score.values.tolist()
            ('score', [[0.0, 0.7], [0.0, -1.2]])
        """
        return from_rows(
            *construct(
                "logits",
                logits,
                labels,
                class_names=class_names,
                masked_classes=masked_classes,
                of=of,
                positive_class=positive_class,
                class_dim=class_dim,
                labels_are=labels_are,
                ids=ids,
                split=split,
                weights=weights,
                groups=groups,
                clusters=clusters,
                ignore_index=ignore_index,
                provenance=provenance,
                allow_duplicate_ids=allow_duplicate_ids,
            )
        )

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        labels: Any = None,
        *,
        tolerance: float | None = None,
        **options: Unpack[OutputOptions],
    ) -> Predictions:
        """Make predictions from probabilities; labels and options are those of :meth:`from_logits`.

        No value may lie outside [0, 1], and each row must sum to 1 within the tolerance, by default
        max(1e-3, 2·eps) + K / 2^25 with the eps of the type they came in: 0.001 for float32 and float64, 0.002 for
        float16, 0.016 for bfloat16, and a little more for very many classes. They are kept as given, not rescaled.

        Args:
            probs: (N, K); or (N, K, d1, ...); or one probability p for two classes, which becomes (1-p, p).
            labels: As in :meth:`from_logits`.
            tolerance: Largest distance of a row sum from 1, instead of the default.
            **options: ``class_names``, ``masked_classes``, ``of``, ``positive_class``, ``class_dim``, ``labels_are``,
                ``ids``, ``split``, ``weights``, ``groups``, ``clusters``, ``ignore_index``, ``provenance`` and
                ``allow_duplicate_ids``, as in :meth:`from_logits`.

        Examples:
            >>> Predictions.from_probs([0.9, 0.2], [1, 1], ids=["a", "b"]).values
            tensor([[0.1000, 0.9000],
                    [0.8000, 0.2000]], dtype=torch.float64)
            >>> Predictions.from_probs([[0.6, 0.6]], [0])
            Traceback (most recent call last):
            ValueError: The probabilities of row 0 sum to 1.2, not to 1 (tolerance 0.001); if these are logits use \
from_logits, otherwise divide each row by its sum or pass a larger tolerance.
        """
        check_options(options)
        return from_rows(*construct("probs", probs, labels, tolerance=tolerance, **options))

    @classmethod
    def from_confidence(
        cls,
        confidence: Any,
        correct: Any = None,
        *,
        predicted: Any = None,
        labels: Any = None,
        ids: Any = None,
        split: str | None = None,
        weights: Any = None,
        groups: Mapping[str, Any] | None = None,
        clusters: Any = None,
        ignore_index: int | None = -100,
        provenance: Mapping[str, str] | None = None,
        allow_duplicate_ids: bool = False,
    ) -> Predictions:
        """Make predictions from one confidence per answer, and whether the answer was right.

        For a language model's stated confidence, detections that match or do not, or a network of which only the top
        class was kept. Metrics that need the probabilities of all classes are not available.

        Args:
            confidence: (N,) or (N, d1, ...), between 0 and 1.
            correct: The same shape: booleans, or 0 and 1. None where it follows from ``predicted`` and ``labels``, or
                is not known.
            predicted: The class that each answer named, text or whole numbers; kept as the group ``"predicted"``.
            labels: The true class, text or whole numbers; without ``correct``, an answer is right where both agree.
            ids: As in :meth:`from_logits`.
            split: As in :meth:`from_logits`.
            weights: As in :meth:`from_logits`.
            groups: As in :meth:`from_logits`.
            clusters: As in :meth:`from_logits`.
            ignore_index: Positions with this label (or this value of ``correct``) are dropped.
            provenance: As in :meth:`from_logits`.
            allow_duplicate_ids: As in :meth:`from_logits`.

        Examples:
            >>> preds = Predictions.from_confidence([0.9, 0.8, 0.6], predicted=["cat", "dog", "cat"],
            ...                                     labels=["cat", "dog", "dog"])
            >>> preds.of, preds.labels.tolist(), preds.values[:, 1].tolist(), preds.groups["predicted"].names
            ('confidence', [1, 1, 0], [0.9, 0.8, 0.6], ('cat', 'dog'))
        """
        pairs = prepare_pairs(confidence, correct, predicted, labels, groups, ignore_index)
        rows = prepare_rows(
            "probs",
            pairs.outputs,
            pairs.correct,
            weights=weights,
            ids=ids,
            groups=pairs.groups,
            clusters=clusters,
            ignore_index=ignore_index,
            class_dim=1,
        )
        description = describe(2, of="confidence", split=split, provenance=provenance)
        return from_rows(check_whole(rows, allow_duplicate_ids), "probs", description)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]

    @property
    def labels(self) -> Tensor:
        """(N,) int64 classes, or (N, K) float64 class probabilities (soft labels) whose rows sum to 1.

        Raises:
            ValueError: They are not known.
        """
        if self.labels_or_none is None:
            raise ValueError(NO_LABELS)
        return self.labels_or_none

    @property
    def has_labels(self) -> bool:
        """True if labels are known."""
        return self.labels_or_none is not None

    @property
    def has_soft_labels(self) -> bool:
        """True if labels are class probabilities (N, K) instead of classes (N,)."""
        labels = self.labels_or_none
        return labels is not None and labels.shape == self.values.shape and labels.dtype == torch.float64

    @property
    def hard_labels(self) -> Tensor:
        """(N,) int64: the labels, or the most probable class of soft labels (the first of equal ones)."""
        return self.labels.argmax(dim=1) if self.has_soft_labels else self.labels

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        parts = [f"{len(self)} samples", f"{self.num_classes} classes", self.kind]
        parts += [] if self.of == "top" else [f"of={self.of!r}"]
        parts += ["no labels"] * (not self.has_labels)
        parts += ["soft labels"] * self.has_soft_labels + ["weights"] * (self.weights is not None)
        parts += ["ids"] * (self.ids is not None) + ["clusters"] * (self.clusters is not None)
        parts += [f"groups={', '.join(self.groups)}"] if self.groups else []
        parts += [] if self.split is None else [f"split={self.split!r}"]
        parts += show_masked(self.masked_classes)
        return f"Predictions({', '.join(parts)})"

    def logits(self) -> Tensor:
        """Return (N, K) logits: the values themselves, or the logarithms of probabilities.

        A probability of 0 counts as the smallest normal float32, 1.2e-38 (log -87.3), in both float types: its
        logarithm must be finite, because a temperature moves it. :meth:`log_probs` gives -inf there.

        Examples:
            >>> Predictions.from_probs([[0.25, 0.75], [1.0, 0.0]], [1, 0]).logits().round(decimals=3)
            tensor([[ -1.3860,  -0.2880],
                    [  0.0000, -87.3370]], dtype=torch.float64)
        """
        if self.kind == "logits":
            return self.values
        return self.values.clamp_min(torch.finfo(torch.float32).tiny).log_()

    def log_probs(self) -> Tensor:
        """Return (N, K) log-probabilities: log softmax of logits, or the log of probabilities (-inf where one is 0)."""
        return torch.log_softmax(self.values, dim=1) if self.kind == "logits" else self.values.log()

    def probs(self) -> Tensor:
        """Return (N, K) probabilities: softmax of logits, or the probabilities as given."""
        return torch.softmax(self.values, dim=1) if self.kind == "logits" else self.values

    def blocks(self, rows: int | None = None) -> Iterator[Predictions]:
        """Cut into consecutive views of at most ``rows`` samples (by default about a megabyte); nothing is copied."""
        rows = choose_block_rows(rows, self.num_classes, _VALUES_IN_A_BLOCK)
        if 0 < len(self) <= rows:
            yield self
            return
        for block in chunks(len(self), budget=rows):
            yield change_rows(self, lambda part, block=block: part[block])  # type: ignore[misc]

    def select(self, index: Tensor | Sequence[int]) -> Predictions:
        """Return the samples at ``index``, in its order: int64 positions, or a boolean mask (N,)."""
        chosen = torch.as_tensor(index)
        chosen = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen.to(torch.int64)
        return pick_rows(self, chosen)

    def with_values(self, values: Any, kind: Kind) -> Predictions:
        """Return the same samples with other outputs (N, K), checked: what calibrators' ``transform`` gives."""
        check_kind(kind)
        tensor, dtype = float_tensor(values, kind)
        if tensor.shape != self.values.shape:
            raise ValueError(f"The values have shape {tuple(tensor.shape)} instead of {tuple(self.values.shape)}.")
        check_values(kind, tensor, None, dtype, Where())
        return replace(self, values=tensor.contiguous(), kind=kind)

    def save(self, path: str | os.PathLike[str], *, compact: Compact | None = None) -> None:
        """Write to ``.safetensors``, ``.npz``, ``.parquet`` or ``.csv``: all of it or, on an error, nothing.

        The same predictions give the same bytes: no date and no path is written.

        Args:
            path: The file.
            compact: For ``.safetensors``, the type that the values are rounded to, ``"float16"`` or ``"float32"``, in
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
            FileNotFoundError: There is no such file.
            ValueError: One sentence with the file's name, for a corrupt, truncated, empty or wrong file or content.
        """
        from focalcal.predictions.predictions_file import open_predictions

        return open_predictions(path, **options).read()


def from_rows(rows: Rows, kind: Kind, description: Description | None = None) -> Predictions:
    """Join checked rows with what is said about all of them."""
    return Predictions(kind=kind, **vars(rows), **vars(description or Description()))


def concatenate(parts: Sequence[Predictions]) -> Predictions:
    """Put predictions of one kind and the same classes one after another; split, names, provenance of the first."""
    if any(part.of != parts[0].of for part in parts):
        raise ValueError(
            "Only predictions that are measured alike go together, by predicted class, score or confidence."
        )
    return parts[0] if len(parts) == 1 else join_rows(parts)
