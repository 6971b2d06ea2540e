"""Checks on two sets of predictions: whether a calibrator fitted on the one may be tried on the other."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from focalcal.diagnosis.findings import Finding, share
from focalcal.predictions import Predictions

Names = tuple[str, str]
Hashes = npt.NDArray[np.int64]

# Shares of common rows: more than by accident, and beyond all doubt.
_SOME, _MOST = 0.05, 0.5
_FEWEST_COMMON = 5
# Samples drawn at random have the same label so often at most, where equal labels are to tell anything.
_TELLING = 0.8

_OTHER_NETWORK = "Use predictions of one and the same network."
_TOO_GOOD = "Calibrate on samples that are not in the test set; otherwise every figure after it is too good."


def different_classes(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """Find other classes, or another order of them."""
    if test.num_classes != val.num_classes:
        what = f"{names[0]} has {test.num_classes} classes and {names[1]} {val.num_classes}."
        yield Finding("problem", "class_count_mismatch", what, _OTHER_NETWORK)
    elif test.class_names is not None and val.class_names is not None and test.class_names != val.class_names:
        pairs = enumerate(zip(test.class_names, val.class_names, strict=True))
        place, (in_test, in_val) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
        what = f"Class {place} is {in_test!r} in {names[0]} and {in_val!r} in {names[1]}."
        yield Finding("problem", "class_names_mismatch", what, _OTHER_NETWORK)
    elif test.masked_classes != val.masked_classes:
        what = f"{names[0]} and {names[1]} have different masked classes."
        yield Finding("problem", "masked_classes_mismatch", what, _OTHER_NETWORK)


def wrong_splits(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """Find sets that call themselves something else than they are used as."""
    if val.split in ("test", "train"):
        what = f"{names[1]} is used as validation data but calls itself {val.split!r}."
        advice = "Fit calibrators on held-out validation predictions."
        yield Finding("problem" if val.split == "test" else "warning", "val_has_wrong_split", what, advice)
    if test.split in ("val", "validation", "train"):
        what = f"{names[0]} is used as test data but calls itself {test.split!r}."
        yield Finding("warning", "test_has_wrong_split", what, "Check that the two files were not exchanged.")


def common_samples(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """Find the same predictions in both sets, by rows and by ids."""
    overlap = overlap_of_rows(test, val)
    what = f"{100 * overlap:.3g}% of the smaller one's distinct rows are in both {names[0]} and {names[1]}"
    if same_content(test, val):
        yield Finding("problem", "val_equals_test", f"{names[0]} and {names[1]} hold the same predictions.", _TOO_GOOD)
    elif overlap >= _MOST:
        yield Finding("problem", "val_overlaps_test", f"{what}.", _TOO_GOOD)
    elif overlap >= _SOME:
        what = f"{what} (outputs in few steps may agree by chance)."
        yield Finding("warning", "val_overlaps_test", what, _TOO_GOOD)
    yield from _common_ids(test, val, names)


def _common_ids(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    common, agreeing = common_ids(test, val)
    if not common:
        return
    smaller = min(len(test), len(val))
    what = f"{common:,} ids ({share(common, smaller)} of the smaller one's) are in both {names[0]} and {names[1]}"
    telling = common >= _FEWEST_COMMON and chance_of_same_label(test, val) < _TELLING
    if telling and agreeing >= 0.95 * common:
        what = f"{what}, with the same label in {share(agreeing, common)} of them."
        yield Finding("problem", "common_ids", what, "Leave the samples that are in both out of one of the files.")
    else:
        advice = "If ids are row numbers of each file this is harmless; otherwise leave those samples out of one file."
        yield Finding("warning", "common_ids", f"{what}.", advice)


def common_ids(a: Predictions, b: Predictions) -> tuple[int, int]:
    """Count the ids that are in both, and those of them that have the same label in both."""
    if a.ids is None or b.ids is None:
        return 0, 0
    label = dict(zip(a.ids, a.hard_labels.tolist(), strict=True))
    both = {name: number for name, number in zip(b.ids, b.hard_labels.tolist(), strict=True) if name in label}
    return len(both), sum(label[name] == number for name, number in both.items())


def chance_of_same_label(a: Predictions, b: Predictions) -> float:
    """Compute how often a random sample of the one has the label of a random sample of the other."""
    classes = max(a.num_classes, b.num_classes)
    of_a, of_b = (torch.bincount(preds.hard_labels, minlength=classes) / len(preds) for preds in (a, b))
    return float(of_a @ of_b)


def row_hashes(preds: Predictions) -> Hashes:
    """Compute (N,) a number for each row of float32 outputs and label, equal for equal rows."""
    values = preds.values.float().numpy() + np.float32(0)  # so that −0 is 0
    joined = np.ascontiguousarray(np.concatenate([values.view(np.int32), _label(preds)], axis=1))
    rows = joined.view(np.dtype((np.void, joined.itemsize * joined.shape[1])))[:, 0]
    return np.fromiter((hash(row.tobytes()) for row in rows), np.int64, len(preds))


def overlap_of_rows(a: Predictions, b: Predictions) -> float:
    """Compute the share of the smaller set's rows that the larger one has too, among rows that occur once in each.

    A row that occurs often (a prediction that is sure of its class) says nothing about which sample it is of.
    """
    if a.num_classes != b.num_classes or a.kind != b.kind:
        return 0.0
    once_a, once_b = (_once(row_hashes(preds)) for preds in (a, b))
    smaller = min(len(once_a), len(once_b))
    return len(np.intersect1d(once_a, once_b)) / smaller if smaller else 0.0


def same_content(a: Predictions, b: Predictions) -> bool:
    """Return whether two sets have the same outputs and labels, in any order."""
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


CHECKS = (different_classes, wrong_splits, common_samples)
