"""Outputs that are not what they are said to be, or have lost precision on their way into the file."""

from collections.abc import Iterator

import torch
from torch import Tensor

from focalcal.cli.examination.finding import Examined, Finding, share
from focalcal.predictions import row_sum_tolerance
from focalcal.predictions.masking import answer_classes

# Confidences of exactly 1.0 are worth a word from this share on.
_MANY_SATURATED = 0.01
# Few values may lie on a coarse grid by accident, or because somebody wrote them by hand.
_DISTINCT_VALUES = 256
_LARGEST_FLOAT16 = 65504.0


def wrong_kind(examined: Examined) -> Iterator[Finding]:
    """Probabilities, or log-probabilities, that are called logits."""
    preds = examined.preds
    if preds.kind != "logits":
        return
    values = preds.values
    key = examined.reading.get("logits_key", "logits")
    if bool(((values >= 0) & (values <= 1)).all()):
        tolerance = row_sum_tolerance(preds.num_classes, torch.float32)
        if bool(((values.sum(1, dtype=torch.float64) - 1).abs() <= tolerance).all()):
            what = "The logits lie between 0 and 1 and every row sums to 1: they are probabilities"
            yield Finding("problem", "probabilities_as_logits", f"{what}.", f"Read them with --probs-key {key}.")
        else:
            what = "Every logit lies between 0 and 1, as after a softmax or sigmoid"
            advice = f"Save what comes before it; if these are probabilities, read them with --probs-key {key}."
            yield Finding("warning", "logits_between_0_and_1", f"{what}.", advice)
    elif bool((torch.logsumexp(values, dim=1).abs() <= 1e-3).all()):
        yield Finding("info", "log_probabilities", "The logits are log-probabilities, which is fine.")


def rounded(examined: Examined) -> Iterator[Finding]:
    """Values that were float16 or bfloat16 before, or were cut off at the largest float16."""
    values = examined.preds.values
    cut_off = int((values.abs() == _LARGEST_FLOAT16).any(1).sum())
    if cut_off:
        what = f"{cut_off:,} rows hold ±65504, the largest number of float16: larger ones were cut off."
        yield Finding("problem", "float16_overflow", what, "Save the outputs in float32.")
    grid = _coarse_grid(values)
    if grid is None:
        return
    step = torch.finfo(grid).eps / 2  # of numbers just below 1
    name, what = str(grid).removeprefix("torch."), f"All values are numbers that {str(grid).removeprefix('torch.')} has"
    if examined.preds.kind == "probs":
        advice = "Save logits, or probabilities that were computed and kept in float32."
        yield Finding("warning", f"{name}_probabilities", f"{what}: steps of {step:.2g} below 1.", advice)
    else:
        yield Finding("info", f"{name}_logits", f"{what}; they were probably rounded to it.")


def saturated(examined: Examined) -> Iterator[Finding]:
    """Confidences of exactly 1, labels of probability 0, and sums that miss 1."""
    preds, statistics = examined.preds, examined.statistics
    ones = int((statistics.confidence == 1).sum())
    if ones >= _MANY_SATURATED * len(preds):
        what = f"{share(ones, len(preds))} of the confidences are exactly 1.0"
        if preds.kind == "probs":
            advice = "What is beyond 1.0 was rounded away: save logits in float32 instead."
            yield Finding("warning", "saturated_confidence", f"{what}.", advice)
        else:
            yield Finding("info", "saturated_confidence", f"{what} after the softmax; the logits tell them apart.")
    yield from _impossible_labels(examined)
    if preds.kind == "probs":
        miss = float((preds.values.sum(1, dtype=torch.float64) - 1).abs().max())
        if miss > 1e-4:
            yield Finding("info", "row_sums", f"Rows of probabilities miss a sum of 1 by up to {miss:.2g}.")


def one_class(examined: Examined) -> Iterator[Finding]:
    """Outputs that always, or never, choose some classes."""
    preds, statistics = examined.preds, examined.statistics
    if len(preds) > 1 and bool((statistics.prediction == statistics.prediction[0]).all()):
        what = f"Every sample is predicted as class {answer_classes(preds)[int(statistics.prediction[0])]}."
        yield Finding("warning", "one_class_predicted", what, "Check that the outputs belong to a trained network.")


def _impossible_labels(examined: Examined) -> Iterator[Finding]:
    infinite = int(torch.isinf(examined.statistics.nll).sum())
    if not infinite:
        return
    what = f"{infinite:,} samples give their label a probability of 0, so NLL is infinite"
    if examined.preds.kind == "probs":
        advice = "Save logits, or log-probabilities as logits, so that nothing is rounded to 0."
    else:
        advice = "Unmask these classes (logit −inf), or leave the samples out."
    yield Finding("problem", "impossible_labels", f"{what}.", advice)


def _coarse_grid(values: Tensor) -> torch.dtype | None:
    """The coarsest type that has all of the values; None if none of the small ones has, or there are only a few."""
    for grid in (torch.bfloat16, torch.float16):
        if bool((values.to(grid).to(values.dtype) == values).all()):
            few = len(torch.unique(values.reshape(-1)[: 2**16])) < _DISTINCT_VALUES
            return None if few else grid
    return None
