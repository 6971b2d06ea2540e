"""Samples that occur more than once, in one file or in two."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from focalcal.cli.examination.finding import Examined, Finding, share
from focalcal.predictions import Predictions

Hashes = npt.NDArray[np.int64]

# A few equal rows are an accident of rounding.
_MANY_REPEATED = 0.01
# Beyond it float32 has few steps left, and rows become equal by rounding.
_SURE = 0.999


def repeated_ids(examined: Examined) -> Iterator[Finding]:
    """Ids that stand for more than one sample."""
    ids = examined.preds.ids
    if ids is None:
        return
    often = [(name, count) for name, count in Counter(ids).most_common() if count > 1]
    if often:
        name, count = often[0]
        what = f"{len(often):,} ids occur more than once, {name!r} {count} times."
        yield Finding(
            "problem", "duplicate_ids", what, "Leave out the samples that were counted twice, or correct ids."
        )


def repeated_rows(examined: Examined) -> Iterator[Finding]:
    """Rows that equal an earlier one in every output and in the label; sure predictions do so by rounding."""
    preds = examined.preds
    unsure = examined.statistics.confidence < _SURE
    hashes = row_hashes(preds)[unsure.numpy()]
    repeated = len(hashes) - len(np.unique(hashes))
    if repeated and repeated >= _MANY_REPEATED * len(preds):
        what = f"{share(repeated, len(preds))} of the rows repeat an earlier one, outputs and label alike."
        advice = "Check that no sample was saved twice; outputs in few steps (rounded, or binned) repeat by nature."
        yield Finding("warning", "duplicate_rows", what, advice)


def row_hashes(preds: Predictions) -> Hashes:
    """(N,) a number for each row of float32 outputs and label, equal for equal rows."""
    values = preds.values.float().numpy() + np.float32(0)  # so that −0 is 0
    joined = np.ascontiguousarray(np.concatenate([values.view(np.int32), _label(preds)], axis=1))
    rows = joined.view(np.dtype((np.void, joined.itemsize * joined.shape[1])))[:, 0]
    return np.fromiter((hash(row.tobytes()) for row in rows), np.int64, len(preds))


def same_samples(a: Predictions, b: Predictions) -> float:
    """The share of the smaller set's rows that the larger one has too, among rows that occur once in each.

    A row that occurs often (a prediction that is sure of its class) says nothing about which sample it is of.
    """
    if a.num_classes != b.num_classes or a.kind != b.kind:
        return 0.0
    once_a, once_b = (_once(row_hashes(preds)) for preds in (a, b))
    smaller = min(len(once_a), len(once_b))
    return len(np.intersect1d(once_a, once_b)) / smaller if smaller else 0.0


def same_content(a: Predictions, b: Predictions) -> bool:
    """Whether two sets have the same outputs and labels, in any order."""
    if len(a) != len(b) or a.values.shape != b.values.shape or a.kind != b.kind:
        return False
    return bool((np.sort(row_hashes(a)) == np.sort(row_hashes(b))).all())


def _label(preds: Predictions) -> npt.NDArray[np.int32]:
    labels = preds.labels.float().view(torch.int32) if preds.has_soft_labels else preds.labels[:, None].int()
    return np.asarray(labels.numpy())


def _once(hashes: Hashes) -> Hashes:
    values, counts = np.unique(hashes, return_counts=True)
    once: Hashes = values[counts == 1]
    return once
