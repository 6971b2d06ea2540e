"""Measures of calibration: of the predicted class, the score of an event, or a confidence.

Free of torch, so that ``--help`` can use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Of = Literal["top", "score", "confidence"]


@dataclass(frozen=True)
class Measure:
    """One of the three, in words for every output that has numbers of it.

    Attributes:
        title: Its name, after "calibration of".
        sentence: What is compared with what.
        confidence: What stands on the horizontal axis of a reliability diagram.
        outcome: What stands on the vertical axis.
        left_out: Sentence about metrics that there are not, and others that mean something else; empty for none.
    """

    title: str
    sentence: str
    confidence: str
    outcome: str
    left_out: str = ""


MEASURES: Mapping[Of, Measure] = {
    "top": Measure(
        title="the predicted class",
        sentence="the probability of the predicted class against how often that class is right",
        confidence="confidence",
        outcome="accuracy",
    ),
    "score": Measure(
        title="the score of class 1",
        sentence="the score, which is the probability of class 1, against how often class 1 occurs",
        confidence="score",
        outcome="frequency of class 1",
        left_out="Of a score, what is told apart by right and wrong answers, and |S99|, is left out.",
    ),
    "confidence": Measure(
        title="the confidence of each answer",
        sentence="the confidence of each answer against how often such answers are right",
        confidence="confidence",
        outcome="accuracy",
        left_out="NLL and Brier score are those of the confidence as the probability of being right; metrics that need "
        "the probabilities of all classes (classwise-ECE, entropy, top-5 accuracy) are left out.",
    ),
}


def check_of(of: str) -> None:
    """Refuse anything but the three."""
    if of not in MEASURES:
        raise ValueError(f"of must be 'top', 'score' or 'confidence', not {of!r}.")
