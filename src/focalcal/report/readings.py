"""What each metric means in a few plain words, and how its numbers are written for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["percent", "points", "number"]


@dataclass(frozen=True)
class Reading:
    """How to write and read a metric.

    Attributes:
        unit: percent of samples or of probability, percentage points with a sign, or a plain number.
        words: what the number says.
        group: metrics of one group stand together in tables.
    """

    unit: Unit
    words: str
    group: int


# The same names, in the same order, as the library's metrics; here because --help must not import torch.
READINGS: Mapping[str, Reading] = {
    "error": Reading("percent", "how often the predicted class is wrong", 0),
    "accuracy": Reading("percent", "how often it is right", 0),
    "top_5_accuracy": Reading("percent", "the label is among the five most probable", 0),
    "nll": Reading("number", "loss of the label's probability; lower is better", 1),
    "brier": Reading("number", "squared error of all probabilities, 0 to 2", 1),
    "ece": Reading("percent", "how far confidence is off, on average", 2),
    "ece_floor": Reading("percent", "what chance alone gives a perfect model", 2),
    "debiased_ece": Reading("percent", "root mean square gap, chance taken off", 2),
    "smooth_ece": Reading("percent", "how far confidence is off, without bins", 2),
    "mce": Reading("percent", "how far it is off in the worst bin", 2),
    "ada_ece": Reading("percent", "as ECE, in bins of equal mass", 2),
    "classwise_ece": Reading("percent", "mean gap over the classes' probabilities", 2),
    "signed_gap": Reading("points", "above 0 over-, below 0 under-confident", 2),
    "nll_calibration": Reading("number", "what one temperature would take off", 3),
    "nll_refinement": Reading("number", "what would stay", 3),
    "brier_calibration": Reading("number", "what one temperature would take off", 3),
    "brier_refinement": Reading("number", "what would stay", 3),
    "mean_confidence": Reading("percent", "how sure it says it is", 4),
    "mean_confidence_right": Reading("percent", "where it is right", 4),
    "mean_confidence_wrong": Reading("percent", "where it is wrong; lower is better", 4),
    "mean_entropy": Reading("number", "how spread out the probabilities are", 4),
    "mean_entropy_right": Reading("number", "where it is right", 4),
    "mean_entropy_wrong": Reading("number", "where it is wrong; higher is better", 4),
    "confident_share": Reading("percent", "samples of which it is 99% sure or more", 4),
    "confident_accuracy": Reading("percent", "how often it is right about those", 4),
}


def written(metric: str, value: float) -> str:
    """A value for people: percent where that is customary; a dash where it is undefined.

    Examples:
        >>> written("ece", 0.0537), written("nll", 0.37821), written("signed_gap", -0.012), written("mce", math.nan)
        ('5.37%', '0.3782', '−1.20', '–')
    """
    unit = READINGS[metric].unit
    if unit == "points":
        return _number(100 * value, "+.2f")
    return _number(value, ".4f") if unit == "number" else _number(100 * value, ".2f", "%")


def written_change(metric: str, value: float) -> str:
    """A difference of two values for people: percentage points where the values are in percent.

    Examples:
        >>> written_change("ece", -0.0412), written_change("nll", 0.0312)
        ('−4.12 pt', '+0.0312')
    """
    return _number(value, "+.4f") if READINGS[metric].unit == "number" else _number(100 * value, "+.2f", " pt")


def written_interval(ends: tuple[float, float] | None, write: Callable[[float], str]) -> str:
    """An interval for people, empty where there is none."""
    return "" if ends is None or math.isnan(ends[0]) else " – ".join(map(write, ends))


def _number(value: float, form: str, unit: str = "") -> str:
    if math.isnan(value):
        return "–"
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:{form}}{unit}".replace("-", "−")


def counted(count: int, noun: str) -> str:
    """A number of things.

    Examples:
        >>> counted(1, "sample"), counted(1200, "class")
        ('1 sample', '1,200 classes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def is_share(metric: str) -> bool:
    """Whether values lie in [0, 1], or [−1, 1] for a gap: fractions, which are often given in percent by mistake."""
    return READINGS[metric].unit != "number"
