"""What an evaluation says about a model, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from focalcal.cli.readings import written

if TYPE_CHECKING:
    from focalcal.metrics.evaluation import Evaluation

# Without an interval, an ECE of less than twice the floor is called close to it.
_CLOSE = 2.0


def verdict(evaluation: Evaluation) -> list[str]:
    """One sentence about confidence as a whole and one about ECE, where the metrics for them are there."""
    return [sentence for sentence in (_of_confidence(evaluation), _of_ece(evaluation)) if sentence]


def _of_confidence(evaluation: Evaluation) -> str:
    values = evaluation.values
    gap = values.get("signed_gap", math.nan)
    if math.isnan(gap):
        return ""
    claim = ""
    if "mean_confidence" in values and "accuracy" in values:
        claim = f": mean confidence {_percent(values['mean_confidence'])}, accuracy {_percent(values['accuracy'])}"
    low, high = evaluation.intervals.get("signed_gap", (math.nan, math.nan))
    if low <= 0 <= high or round(100 * gap, 2) == 0:
        return f"Neither over- nor under-confident on the whole{claim}."
    return f"{'Over' if gap > 0 else 'Under'}-confident by {abs(100 * gap):.1f} points{claim}."


def _of_ece(evaluation: Evaluation) -> str:
    ece, floor = (evaluation.values.get(name, math.nan) for name in ("ece", "ece_floor"))
    if math.isnan(ece) or math.isnan(floor):
        return ""
    facts = f"ECE is {_percent(ece)}; a perfectly calibrated model would show {_percent(floor)} on these samples"
    low, _ = evaluation.intervals.get("ece", (math.nan, math.nan))
    if ece <= floor or low <= floor:
        return f"{facts}: miscalibration is not shown."
    if math.isnan(low) and ece < _CLOSE * floor:
        return f"{facts}: hardly less, so miscalibration is not shown without an interval."
    return f"{facts}: the model is miscalibrated."


def _percent(value: float) -> str:
    return written("ece", value)
