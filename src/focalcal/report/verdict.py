"""The verdict on a model, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from focalcal.report.readings import format_value, pluralise

if TYPE_CHECKING:
    from focalcal.metrics.evaluation import Evaluation

# Where an interval of the mean confidence − accuracy holds 0, and no more than so much besides.
BALANCED = "Neither over- nor under-confident on the whole"
BALANCED_SCORES = "Scores neither too high nor too low on the whole"
_NARROW = 0.03
# Where it holds much else.
UNDECIDED = "Too few samples to show over- or under-confidence either way"
UNDECIDED_SCORES = "Too few samples to show whether scores are too high or too low"
# Of fewer samples than this nothing is said but the numbers.
_FEWEST = 10
# For intervals that no resampling made: 90%, as is usual here.
_TAIL, _NORMAL = 0.05, 1.645
# A frequency that is the difference of two sums is 0 or 1 up to this.
_ROUNDING = 1e-9


def verdict(evaluation: Evaluation, impossible: int | None = None) -> list[str]:
    """Write sentences about confidence as a whole, ECE, an infinite loss and groups, as far as the metrics are there.

    Args:
        evaluation: The numbers.
        impossible: Number of labels that were given probability 0, if that was counted.
    """
    whole = (_of_confidence(evaluation), _of_ece(evaluation), _of_loss(evaluation, impossible))
    found = (*whole, *(table.verdict for table in evaluation.by.values()))
    return [sentence for sentence in found if sentence]


def tendency(evaluation: Evaluation) -> str:
    """Say in a few words how far the model is over- or under-confident; empty if that is not known.

    Examples:
        >>> from focalcal.metrics.evaluation import Evaluation
        >>> tendency(Evaluation({"signed_gap": 0.041}, 1000, 2, 15))
        'Over-confident by 4.1 points'
        >>> tendency(Evaluation({"signed_gap": 0.155}, 20, 2, 15, {"signed_gap": (-0.02, 0.33)}))
        'Too few samples to show over- or under-confidence either way'
    """
    gap = evaluation.values.get("signed_gap", math.nan)
    if math.isnan(gap):
        return ""
    low, high = _range_of_gap(evaluation, gap)
    is_score = evaluation.of == "score"
    undecided = UNDECIDED_SCORES if is_score else UNDECIDED
    if evaluation.n < _FEWEST:
        return undecided
    if low <= 0 <= high or round(100 * gap, 2) == 0:
        balanced = BALANCED_SCORES if is_score else BALANCED
        return balanced if max(-low, high) <= _NARROW else undecided
    points = f"{abs(100 * gap):.1f} points"
    if is_score:
        return f"Scores too {'high' if gap > 0 else 'low'} by {points}"
    return f"{'Over' if gap > 0 else 'Under'}-confident by {points}"


def is_balanced(evaluation: Evaluation) -> bool:
    """Return whether confidence (or the score) is right on the whole, as far as the samples show."""
    return tendency(evaluation) in (BALANCED, BALANCED_SCORES)


def is_undecided(evaluation: Evaluation) -> bool:
    """Return whether there are too few samples to tell."""
    return tendency(evaluation) in (UNDECIDED, UNDECIDED_SCORES)


def _outcome_rate(evaluation: Evaluation) -> float:
    """Return how often what confidence is about came true: the accuracy, or of a score the frequency of class 1."""
    values = evaluation.values
    if evaluation.of != "score":
        return values.get("accuracy", math.nan)
    rate = values.get("mean_confidence", math.nan) - values.get("signed_gap", math.nan)
    near = rate if math.isnan(rate) else float(round(rate))
    return near if abs(rate - near) < _ROUNDING else rate


def _range_of_gap(evaluation: Evaluation, gap: float) -> tuple[float, float]:
    """Compute an interval of mean confidence − accuracy.

    Resamples of samples that are all right (or all wrong) are all right too, and say nothing of how rare a mistake is:
    n of them show no more than an accuracy of 0.05^(1/n). Without resamples, n samples of confidence c are off by
    √(c(1 − c)/n) by chance, at most, and by no more than if c were one half.
    """
    accuracy, confidence = _outcome_rate(evaluation), evaluation.values.get("mean_confidence", math.nan)
    unseen = 1 - _TAIL ** (1 / max(evaluation.n, 1))
    low, high = evaluation.intervals.get("signed_gap", (math.nan, math.nan))
    if accuracy == 1:
        return (gap if math.isnan(low) else low), gap + unseen
    if accuracy == 0:
        return gap - unseen, (gap if math.isnan(high) else high)
    if math.isnan(low):
        variance = 0.25 if math.isnan(confidence) else max(confidence * (1 - confidence), 0)
        spread = math.sqrt(variance / evaluation.n)
        return gap - _NORMAL * spread, gap + _NORMAL * spread
    return low, high


def shows_miscalibration(evaluation: Evaluation) -> bool | None:
    """Return whether ECE is larger than chance explains, by the test of calibration; None where there is no ECE."""
    test = evaluation.calibration_test
    if test is None:
        return None
    return test.is_significant and not (_is_one_sided(evaluation) and is_undecided(evaluation))


def _is_one_sided(evaluation: Evaluation) -> bool:
    """Tell whether there are too few samples for any claim, or none that was right, or none that was wrong."""
    return evaluation.n < _FEWEST or _outcome_rate(evaluation) in (0, 1)


def _of_confidence(evaluation: Evaluation) -> str:
    words, values = tendency(evaluation), evaluation.values
    if words and evaluation.of == "score" and "mean_confidence" in values:
        rate = _percent(_outcome_rate(evaluation))
        words += f": mean score {_percent(values['mean_confidence'])}, {evaluation.event or 'class 1'} occurs in {rate}"
    elif words and "mean_confidence" in values and "accuracy" in values:
        words += f": mean confidence {_percent(values['mean_confidence'])}, accuracy {_percent(values['accuracy'])}"
    return f"{words}." if words else ""


def _of_ece(evaluation: Evaluation) -> str:
    test = evaluation.calibration_test
    if test is None:
        return ""
    if test.is_significant and not shows_miscalibration(evaluation):
        return f"{test.facts}: too few to detect miscalibration."
    return str(test)


def _of_loss(evaluation: Evaluation, impossible: int | None) -> str:
    if not math.isinf(evaluation.values.get("nll", 0.0)):
        return ""
    if evaluation.of == "confidence":
        return "Answers of confidence 1 were wrong, or of confidence 0 right: NLL is infinite; clip before use."
    labels = f"{pluralise(impossible, 'label')} {'was' if impossible == 1 else 'were'}" if impossible else "Labels were"
    return f"{labels} given probability 0: NLL is infinite; clip or smooth before use."


def _percent(value: float) -> str:
    return format_value("ece", value)
