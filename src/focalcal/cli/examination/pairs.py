"""Two files that do not go together: a calibrator fitted on the one would say nothing true about the other."""

from collections.abc import Iterator

import torch

from focalcal.cli.examination.finding import Finding, share
from focalcal.cli.examination.repeats import same_content, same_samples
from focalcal.predictions import Predictions
from focalcal.predictions.masking import masked_classes

Names = tuple[str, str]

# Shares of common rows: more than by accident, and beyond all doubt.
_SOME, _MOST = 0.05, 0.5
_FEWEST_COMMON = 5
# Samples drawn at random have the same label so often at most, where equal labels are to tell anything.
_TELLING = 0.8

_OTHER_NETWORK = "Use predictions of one and the same network."
_TOO_GOOD = "Calibrate on samples that are not in the test set; otherwise every figure after it is too good."


def different_classes(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """Other classes, or another order of them."""
    if test.num_classes != val.num_classes:
        what = f"{names[0]} has {test.num_classes} classes and {names[1]} {val.num_classes}."
        yield Finding("problem", "class_count_mismatch", what, _OTHER_NETWORK)
    elif test.class_names is not None and val.class_names is not None and test.class_names != val.class_names:
        pairs = enumerate(zip(test.class_names, val.class_names, strict=True))
        place, (in_test, in_val) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
        what = f"Class {place} is {in_test!r} in {names[0]} and {in_val!r} in {names[1]}."
        yield Finding("problem", "class_names_mismatch", what, _OTHER_NETWORK)
    elif masked_classes(test) != masked_classes(val):
        what = f"{names[0]} and {names[1]} have other masked classes."
        yield Finding("problem", "masked_classes_mismatch", what, _OTHER_NETWORK)


def wrong_splits(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """Files that call themselves something else than they are used as."""
    if val.split in ("test", "train"):
        what = f"{names[1]} is to be validation data but calls itself {val.split!r}."
        advice = "Fit calibrators on held-out validation predictions."
        yield Finding("problem" if val.split == "test" else "warning", "val_has_wrong_split", what, advice)
    if test.split in ("val", "validation", "train"):
        what = f"{names[0]} is to be test data but calls itself {test.split!r}."
        yield Finding("warning", "test_has_wrong_split", what, "Check that the two files were not exchanged.")


def common_samples(test: Predictions, val: Predictions, names: Names) -> Iterator[Finding]:
    """The same predictions in both files, by rows and by ids."""
    overlap = same_samples(test, val)
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
    """How many ids are in both, and how many of those have the same label in both."""
    if a.ids is None or b.ids is None:
        return 0, 0
    label = dict(zip(a.ids, a.hard_labels.tolist(), strict=True))
    both = {name: number for name, number in zip(b.ids, b.hard_labels.tolist(), strict=True) if name in label}
    return len(both), sum(label[name] == number for name, number in both.items())


def chance_of_same_label(a: Predictions, b: Predictions) -> float:
    """How often a random sample of the one has the label of a random sample of the other."""
    classes = max(a.num_classes, b.num_classes)
    of_a, of_b = (torch.bincount(preds.hard_labels, minlength=classes) / len(preds) for preds in (a, b))
    return float(of_a @ of_b)
