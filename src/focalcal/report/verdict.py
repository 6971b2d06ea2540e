"""What an evaluation says about a model, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from focalcal.report.readings import written

if TYPE_CHECKING:
    from focalcal.metrics.evaluation import Evaluation

# Without an interval, an ECE of less than twice the floor is called close to it.
_CLOSE = 2.0
# Where an interval of the mean confidence − accuracy holds 0.
BALANCED = "Neither over- nor under-confident on the whole"


def verdict(evaluation: Evaluation) -> list[str]:
    """One sentence about confidence as a whole and one about ECE, where the metrics for them are there."""
    return [sentence for sentence in (_of_confidence(evaluation), _of_ece(evaluation)) if sentence]


def tendency(evaluation: Evaluation) -> str:
    """In a few words whether the model is over- or under-confident, and by how much; empty where it is not known.

    Examples:
        >>> from focalcal.metrics.evaluation import Evaluation
        >>> tendency(Evaluation({"signed_gap": 0.041}, 100, 2, 15))
        'Over-confident by 4.1 points'
    """
    gap = evaluation.values.get("signed_gap", math.nan)
    if math.isnan(gap):
        return ""
    low, high = evaluation.intervals.get("signed_gap", (math.nan, math.nan))
    if low <= 0 <= high or round(100 * gap, 2) == 0:
        return BALANCED
    return f"{'Over' if gap > 0 else 'Under'}-confident by {abs(100 * gap):.1f} points"


def shows_miscalibration(evaluation: Evaluation) -> bool | None:
    """Whether ECE is larger than chance explains; None where ECE or its floor is not known."""
    ece, floor = (evaluation.values.get(name, math.nan) for name in ("ece", "ece_floor"))
    if math.isnan(ece) or math.isnan(floor):
        return None
    low, _ = evaluation.intervals.get("ece", (math.nan, math.nan))
    if math.isnan(low):
        return ece >= _CLOSE * floor and ece > floor
    return ece > floor and low > floor


def _of_confidence(evaluation: Evaluation) -> str:
    words, values = tendency(evaluation), evaluation.values
    if words and "mean_confidence" in values and "accuracy" in values:
        words += f": mean confidence {_percent(values['mean_confidence'])}, accuracy {_percent(values['accuracy'])}"
    return f"{words}." if words else ""


def _of_ece(evaluation: Evaluation) -> str:
    shown = shows_miscalibration(evaluation)
    if shown is None:
        return ""
    ece, floor = evaluation.values["ece"], evaluation.values["ece_floor"]
    facts = f"ECE is {_percent(ece)}; a perfectly calibrated model would show {_percent(floor)} on these samples"
    if shown:
        return f"{facts}: the model is miscalibrated."
    if math.isnan(evaluation.intervals.get("ece", (math.nan,))[0]) and ece > floor:
        return f"{facts}: hardly less, so miscalibration is not shown without an interval."
    return f"{facts}: miscalibration is not shown."


def _percent(value: float) -> str:
    return written("ece", value)
