"""Checks on one set of predictions: its outputs, its labels, samples that repeat, and the fit of a temperature."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from focalcal.base.measures import Of, name_event
from focalcal.diagnosis.findings import Finding, Patient, share
from focalcal.diagnosis.pairs import row_hashes
from focalcal.metrics.calibration_testing import judge_gaps
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.predictions import row_sum_tolerance
from focalcal.predictions.masking import answer_classes, drop_masked
from focalcal.temperature import fit_inverse_temperature

# Confidences of exactly 1.0 are worth a word from this share on.
_MANY_SATURATED = 0.01
# Few values may lie on a coarse grid by accident, or because somebody wrote them by hand.
_DISTINCT_VALUES = 256
_LARGEST_FLOAT16 = 65504.0
# A shift of the labels is suspected if it gains this much accuracy.
_SHIFT_GAIN = 0.2
# Beyond this many standard deviations from chance it is not an accident; fewer samples than this show nothing.
_DEVIATIONS = 4.0
_FEWEST = 30
# A few equal rows are an accident of rounding.
_MANY_REPEATED = 0.01
# Beyond it float32 has few steps left, and rows become equal by rounding.
_SURE = 0.999
# The paper's grid of temperatures; networks that are trained and saved properly stay well inside.
_USUAL_TEMPERATURES = (0.1, 10.0)
# If chance alone gives an ECE of so much, the data can show nothing smaller.
_MUCH_BY_CHANCE = 0.02
# Scores of an event are spread below it too; confidences of answers often are not.
_LEAST_SURE = 0.5

Check = Callable[[Patient], Iterator[Finding]]


def wrong_kind(patient: Patient) -> Iterator[Finding]:
    """Find probabilities, or log-probabilities, that are called logits."""
    preds = patient.preds
    if preds.kind != "logits":
        return
    values = preds.values
    read = "construct them with Predictions.from_probs"
    if patient.logits_key is not None:
        read = f"read them with probs_key={patient.logits_key!r}"
    if bool(((values >= 0) & (values <= 1)).all()):
        tolerance = row_sum_tolerance(preds.num_classes, torch.float32)
        if bool(((values.sum(1, dtype=torch.float64) - 1).abs() <= tolerance).all()):
            what = "The logits lie between 0 and 1 and every row sums to 1: they are probabilities"
            yield Finding("problem", "probabilities_as_logits", f"{what}.", f"{read[0].upper()}{read[1:]}.")
        else:
            what = "Every logit lies between 0 and 1, as after a softmax or sigmoid"
            advice = f"Save what comes before it; if these are probabilities, {read}."
            yield Finding("warning", "logits_between_0_and_1", f"{what}.", advice)
    elif bool((torch.logsumexp(values, dim=1).abs() <= 1e-3).all()):
        yield Finding("info", "log_probabilities", "The logits are log-probabilities, which is fine.")


def low_precision(patient: Patient) -> Iterator[Finding]:
    """Find values that were float16 or bfloat16 before, or were cut off at the largest float16."""
    values = patient.preds.values
    cut_off = int((values.abs() == _LARGEST_FLOAT16).any(1).sum())
    if cut_off:
        what = f"{cut_off:,} rows hold ±65504, the largest number of float16: larger ones were cut off."
        yield Finding("problem", "float16_overflow", what, "Save the outputs in float32.")
    grid = _coarse_grid(values)
    if grid is None:
        return
    step = torch.finfo(grid).eps / 2  # of numbers just below 1
    name, what = str(grid).removeprefix("torch."), f"All values are numbers that {str(grid).removeprefix('torch.')} has"
    if patient.preds.kind == "probs":
        advice = "Save logits, or probabilities that were computed and kept in float32."
        yield Finding("warning", f"{name}_probabilities", f"{what}: steps of {step:.2g} below 1.", advice)
    else:
        yield Finding("info", f"{name}_logits", f"{what}; they were probably rounded to it.")


def saturated_confidence(patient: Patient) -> Iterator[Finding]:
    """Find confidences of exactly 1, labels of probability 0, and sums that miss 1."""
    preds, statistics = patient.preds, patient.statistics
    ones = int((statistics.confidence == 1).sum())
    if ones >= _MANY_SATURATED * len(preds):
        what = f"{share(ones, len(preds))} of the confidences are exactly 1.0"
        if preds.kind == "probs":
            advice = "What is beyond 1.0 was rounded away: save logits in float32 instead."
            yield Finding("warning", "saturated_confidence", f"{what}.", advice)
        else:
            yield Finding("info", "saturated_confidence", f"{what} after the softmax; the logits tell them apart.")
    yield from _impossible_labels(patient)
    if preds.kind == "probs":
        miss = float((preds.values.sum(1, dtype=torch.float64) - 1).abs().max())
        if miss > 1e-4:
            yield Finding("info", "row_sums", f"Rows of probabilities miss a sum of 1 by up to {miss:.2g}.")


def one_class_predicted(patient: Patient) -> Iterator[Finding]:
    """Find outputs that always choose the same class."""
    preds, statistics = patient.preds, patient.statistics
    if len(preds) > 1 and bool((statistics.prediction == statistics.prediction[0]).all()):
        what = f"Every sample is predicted as class {answer_classes(preds)[int(statistics.prediction[0])]}."
        yield Finding("warning", "one_class_predicted", what, "Check that the outputs belong to a trained network.")


def _impossible_labels(patient: Patient) -> Iterator[Finding]:
    infinite = int(torch.isinf(patient.statistics.nll).sum())
    if not infinite:
        return
    samples = "1 sample gives its" if infinite == 1 else f"{infinite:,} samples give their"
    what = f"{samples} label a probability of 0, so NLL is infinite"
    if patient.preds.kind == "probs":
        advice = "Save logits, or log-probabilities as logits, so that nothing is rounded to 0."
    else:
        advice = "Unmask these classes (logit −inf), or leave the samples out."
    yield Finding("problem", "impossible_labels", f"{what}.", advice)


def _coarse_grid(values: Tensor) -> torch.dtype | None:
    """Return the coarsest type that has all values; None if no small one has, or the values are only a few."""
    for grid in (torch.bfloat16, torch.float16):
        if bool((values.to(grid).to(values.dtype) == values).all()):
            few = len(torch.unique(values.reshape(-1)[: 2**16])) < _DISTINCT_VALUES
            return None if few else grid
    return None


def missing_classes(patient: Patient) -> Iterator[Finding]:
    """Find classes that no label names."""
    preds = drop_masked(patient.preds)
    if preds.has_soft_labels:
        lacking = (preds.labels.sum(0) == 0).nonzero()[:, 0].tolist()
    else:
        lacking = (torch.bincount(preds.labels, minlength=preds.num_classes) == 0).nonzero()[:, 0].tolist()
    if not lacking:
        return
    numbers = answer_classes(patient.preds)
    names = _list_classes([numbers[place] for place in lacking], patient.preds.class_names)
    what = f"{len(lacking)} of {preds.num_classes} classes have no sample ({names})."
    advice = "If the samples should cover all classes, check the labels and the order of the outputs."
    yield Finding("warning", "missing_classes", what, advice)


def shifted_labels(patient: Patient) -> Iterator[Finding]:
    """Find labels that count from 1 where outputs count from 0, or the other way; two classes that are swapped."""
    statistics, n = patient.statistics, len(patient.preds)
    right = int(statistics.right.sum())
    by = {offset: int((statistics.prediction == statistics.label + offset).sum()) for offset in (-1, 1)}
    if len(answer_classes(patient.preds)) == 2:
        swapped = n - right
        if swapped - right > _SHIFT_GAIN * n and n >= _FEWEST:
            what = f"Accuracy is {share(right, n)}, and {share(swapped, n)} with the two classes swapped."
            yield Finding("problem", "swapped_classes", what, "Check which class the outputs and the labels call 1.")
        return
    offset, shifted = max(by.items(), key=lambda item: item[1])
    if shifted - right > _SHIFT_GAIN * n and n >= _FEWEST:
        what = f"Accuracy is {share(right, n)}, and {share(shifted, n)} with every label {offset:+d}"
        advice = "Make labels and outputs count from the same number."
        yield Finding("problem", "shifted_labels", f"{what}: the labels look off by one.", advice)


def accuracy_by_chance(patient: Patient) -> Iterator[Finding]:
    """Find accuracy below, or no better than, that of guessing."""
    statistics, n, classes = patient.statistics, len(patient.preds), len(answer_classes(patient.preds))
    if n < _FEWEST or any(True for _ in shifted_labels(patient)):
        return
    right, guessed = int(statistics.right.sum()), n / classes
    deviation = math.sqrt(guessed * (1 - 1 / classes))
    common = int(torch.bincount(statistics.label).max())
    advice = "Check that outputs and labels are of the same samples, in the same order, with the same classes."
    if right < guessed - _DEVIATIONS * deviation:
        what = f"Accuracy is {share(right, n)}, below that of guessing ({100 / classes:.3g}%)."
        yield Finding("problem", "below_chance", what, advice)
    elif right < guessed + deviation:
        what = f"Accuracy is {share(right, n)}, no better than guessing ({100 / classes:.3g}%)."
        yield Finding("warning", "no_better_than_chance", what, advice)
    elif right <= common < n and patient.preds.of == "top":
        what = f"Accuracy is {share(right, n)}; always naming the most common class would give {share(common, n)}."
        yield Finding("warning", "no_better_than_the_most_common_class", what, advice)


def _list_classes(classes: list[int], names: Sequence[str] | None) -> str:
    shown = ", ".join(str(index) if names is None else names[index] for index in classes[:5])
    return shown + (f" and {len(classes) - 5} more" if len(classes) > 5 else "")


def repeated_ids(patient: Patient) -> Iterator[Finding]:
    """Find ids that stand for more than one sample."""
    ids = patient.preds.ids
    if ids is None:
        return
    often = [(name, count) for name, count in Counter(ids).most_common() if count > 1]
    if often:
        name, count = often[0]
        what = f"{len(often):,} ids occur more than once, {name!r} {count} times."
        yield Finding(
            "problem", "duplicate_ids", what, "Leave out the samples that were counted twice, or correct ids."
        )


def repeated_rows(patient: Patient) -> Iterator[Finding]:
    """Find rows that equal an earlier one in every output and in the label; sure predictions do so by rounding."""
    preds = patient.preds
    unsure = patient.statistics.confidence < _SURE
    hashes = row_hashes(preds)[unsure.numpy()]
    repeated = len(hashes) - len(np.unique(hashes))
    if repeated and repeated >= _MANY_REPEATED * len(preds):
        what = f"{share(repeated, len(preds))} of the rows repeat an earlier one, outputs and label alike."
        advice = "Check that no sample was saved twice; outputs in few steps (rounded, or binned) repeat by nature."
        yield Finding("warning", "duplicate_rows", what, advice)


def best_temperature(patient: Patient) -> Iterator[Finding]:
    """Fit T to these samples themselves, by NLL, and find fits that have no good answer."""
    preds, statistics = patient.preds, patient.statistics
    if preds.kind == "logits" and bool(torch.isinf(statistics.nll).any()):
        return  # a masked label has no finite loss at any temperature, which is a finding of its own
    fit = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
    best = f"{fit.temperature:.3g}"
    if fit.bound == "lower":
        what = f"The best temperature is at its lower bound {best}: the label (nearly) always has the largest output."
        yield Finding("warning", "temperature_at_bound", what, "Fit calibrators on data with some wrong predictions.")
    elif fit.bound == "upper":
        what = f"The best temperature is at its upper bound {best}: the outputs do not speak for the labels."
        yield Finding("problem", "temperature_at_bound", what, "Check that outputs and labels are of the same samples.")
    elif not _USUAL_TEMPERATURES[0] <= fit.temperature <= _USUAL_TEMPERATURES[1]:
        what = f"The best temperature is {best}, far from 1: the outputs are scaled, or are not logits."
        yield Finding("warning", "unusual_temperature", what, "Check what the outputs are before you calibrate.")
    else:
        yield Finding(
            "info", "temperature", f"The best temperature for these samples, by NLL, is {best}{_meaning(best)}."
        )


def too_few_samples(patient: Patient) -> Iterator[Finding]:
    """Find an ECE that chance alone explains."""
    clusters = cluster_numbers(patient.preds)
    test = judge_gaps(HonestIntervals(SampledGaps(patient.statistics, patient.bins, clusters)).binned)
    if sum(test.expected) / 2 >= _MUCH_BY_CHANCE:
        much = "part of the ECE" if test.is_significant else "a large ECE"
        what = f"Few samples for {patient.bins} bins, so chance alone makes {much}: {test}"
        advice = "Take more samples or fewer bins, and read the ECE with its interval."
        yield Finding("warning", "too_few_samples", what, advice)
    elif not test.is_significant:
        yield Finding("info", "ece_by_chance", str(test))


def _meaning(best: str) -> str:
    temperature = float(best)
    return "" if temperature == 1 else f": {'less' if temperature > 1 else 'more'} confidence would lower it"


def score_or_confidence(patient: Patient) -> Iterator[Finding]:
    """Point out that a score of class 1 and a confidence with its correctness look the same."""
    preds, statistics = patient.preds, patient.statistics
    if preds.of != "score":
        return
    event = name_event(preds.of, preds.class_names) or "class 1"
    what = f"One number per sample is taken for the score of {event}"
    advice = "If it is the confidence of an answer, and the label says whether that was right, use confidence_key and "
    advice += "correct_key: accuracy is another number then."
    if len(preds) >= _FEWEST and bool((statistics.confidence >= _LEAST_SURE).all()):
        what = f"{what}, but none is below {_LEAST_SURE:g}, as of the confidence of an answer"
        yield Finding("warning", "score_or_confidence", f"{what}.", advice)
    else:
        yield Finding("info", "score_or_confidence", f"{what}.", advice)


# Checks of what predictions of several classes should look like, which a confidence of one answer cannot.
_OF_CLASSES = (one_class_predicted, missing_classes, shifted_labels, accuracy_by_chance)
# A score of a rare event may well never name it.
_OF_SEVERAL = (one_class_predicted,)


def checks_for(of: Of) -> Iterator[Check]:
    """Yield the checks that make sense for what calibration is measured of."""
    skipped: tuple[Check, ...] = {"top": (), "score": _OF_SEVERAL, "confidence": _OF_CLASSES}[of]
    yield from (check for check in CHECKS if check not in skipped)


CHECKS: tuple[Check, ...] = (
    wrong_kind,
    score_or_confidence,
    low_precision,
    saturated_confidence,
    one_class_predicted,
    missing_classes,
    shifted_labels,
    accuracy_by_chance,
    repeated_ids,
    repeated_rows,
    best_temperature,
    too_few_samples,
)
