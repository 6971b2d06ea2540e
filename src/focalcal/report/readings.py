"""Numbers written for people."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from focalcal.base.measures import Of, measure
from focalcal.metrics.catalogue import METRICS

if TYPE_CHECKING:
    from focalcal.metrics.evaluation import Evaluation


def format_value(metric: str, value: float) -> str:
    """Write a value for people: percent where that is customary; a dash where it is undefined.

    Examples:
        >>> format_value("ece", 0.0537), format_value("nll", 0.37821), format_value("mce", math.nan)
        ('5.37%', '0.3782', '–')
        >>> format_value("signed_gap", -0.012)
        '−1.20'
    """
    return METRICS[metric].format(value)


def format_change(metric: str, value: float) -> str:
    """Write a difference of two values for people: percentage points where the values are in percent.

    Examples:
        >>> format_change("ece", -0.0412), format_change("nll", 0.0312)
        ('−4.12 pt', '+0.0312')
    """
    return METRICS[metric].format_change(value)


def format_interval(ends: tuple[float, float] | None, write: Callable[[float], str]) -> str:
    """Write an interval for people, empty where there is none."""
    return "" if ends is None or math.isnan(ends[0]) else " – ".join(map(write, ends))


def data_size(found: Evaluation) -> str:
    """Write how much data there is: samples, classes and bins; pairs of confidence and correct have no classes."""
    classes = "" if found.of == "confidence" else f", {found.num_classes} classes"
    return f"{found.n:,} samples{classes}, {found.bins} bins"


def describe_measure(of: Of, event: str | None = None) -> str:
    """Say what calibration is measured of; ``event`` is what class 1 is called.

    Examples:
        >>> describe_measure("score")
        'Calibration of the score, which is the probability of class 1, against how often class 1 occurs.'
    """
    return f"Calibration of {measure(of, event).sentence}."


def pluralise(count: int, noun: str) -> str:
    """Write a number of things.

    Examples:
        >>> pluralise(1, "sample"), pluralise(1200, "class")
        ('1 sample', '1,200 classes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"
