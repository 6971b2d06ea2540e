"""Two files that do not go together: a calibrator fitted on the one would say nothing true about the other."""

from collections.abc import Iterator

from focalcal.cli.examination.finding import Examined, Finding, share
from focalcal.cli.examination.repeats import same_content, same_samples
from focalcal.predictions import Predictions

# Shares of common rows: by accident, and beyond all doubt.
_SOME, _MOST = 0.05, 0.5
_FEWEST_COMMON = 5


def different_classes(test: Examined, val: Examined) -> Iterator[Finding]:
    """Other classes, or another order of them."""
    a, b = test.preds, val.preds
    if a.num_classes != b.num_classes:
        what = f"{test.name} has {a.num_classes} classes and {val.name} {b.num_classes}."
        yield Finding("problem", "class_count_mismatch", what, "Use predictions of one and the same network.")
    elif a.class_names is not None and b.class_names is not None and a.class_names != b.class_names:
        place = next(i for i, (x, y) in enumerate(zip(a.class_names, b.class_names, strict=True)) if x != y)
        what = f"Class {place} is {a.class_names[place]!r} in {test.name} and {b.class_names[place]!r} in {val.name}."
        yield Finding("problem", "class_names_mismatch", what, "Use predictions of one and the same network.")


def wrong_splits(test: Examined, val: Examined) -> Iterator[Finding]:
    """Files that call themselves something else than they are used as."""
    if val.preds.split in ("test", "train"):
        what = f"{val.name} is to be validation data but calls itself {val.preds.split!r}."
        yield Finding("problem", "val_has_wrong_split", what, "Fit calibrators on held-out validation predictions.")
    if test.preds.split in ("val", "validation", "train"):
        what = f"{test.name} is to be test data but calls itself {test.preds.split!r}."
        yield Finding("warning", "test_has_wrong_split", what, "Check that the two files were not exchanged.")


def common_samples(test: Examined, val: Examined) -> Iterator[Finding]:
    """The same predictions in both files, by rows and by ids."""
    advice = "Calibrate on samples that are not in the test set; otherwise every figure after it is too good."
    overlap = same_samples(test.preds, val.preds)
    if same_content(test.preds, val.preds):
        what = f"{test.name} and {val.name} hold the same predictions."
        yield Finding("problem", "val_equals_test", what, advice)
    elif overlap >= _MOST:
        what = f"{100 * overlap:.3g}% of the smaller file's distinct rows are in the other file, too."
        yield Finding("problem", "val_overlaps_test", what, advice)
    elif overlap >= _SOME:
        what = f"{100 * overlap:.3g}% of the smaller file's distinct rows are in the other file, too"
        yield Finding("warning", "val_overlaps_test", f"{what} (outputs in few steps may agree by chance).", advice)
    yield from _common_ids(test, val)


def _common_ids(test: Examined, val: Examined) -> Iterator[Finding]:
    common, agreeing = common_ids(test.preds, val.preds)
    if not common:
        return
    smaller = min(len(test.preds), len(val.preds))
    what = f"{common:,} ids ({share(common, smaller)} of the smaller file) are in both files"
    if common >= _FEWEST_COMMON and agreeing >= 0.95 * common:
        what += f", with the same label in {share(agreeing, common)} of them."
        yield Finding("problem", "common_ids", what, "Leave the samples that are in both out of one of the files.")
    else:
        advice = "If ids are row numbers of each file this is harmless; otherwise leave those samples out of one file."
        yield Finding("warning", "common_ids", f"{what}, mostly with other labels.", advice)


def common_ids(a: Predictions, b: Predictions) -> tuple[int, int]:
    """How many ids are in both, and how many of those have the same label in both."""
    if a.ids is None or b.ids is None:
        return 0, 0
    label = dict(zip(a.ids, a.hard_labels.tolist(), strict=True))
    both = {name: number for name, number in zip(b.ids, b.hard_labels.tolist(), strict=True) if name in label}
    return len(both), sum(label[name] == number for name, number in both.items())
