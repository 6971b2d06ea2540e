"""Measures of calibration: of the predicted class, the score of an event, or a confidence.

Free of torch, so that ``--help`` can use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
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


def name_event(of: Of, class_names: Sequence[str] | None) -> str | None:
    """Return what class 1 is called where predictions are its score; None where it has no other name.

    Examples:
        >>> name_event("score", ("genuine", "fraud")), name_event("score", ("0", "1")), name_event("score", ("0", "7"))
        ('fraud', None, 'class 7')
    """
    name = class_names[1].strip() if of == "score" and class_names else ""
    if name.lower() in ("", "1", "true"):
        return None
    return f"class {name}" if name.isdecimal() else name


def with_event(text: str, event: str | None) -> str:
    """Say what class 1 is called, in a text about it."""
    return text if event is None else text.replace("class 1", event)


def measure(of: Of, event: str | None = None) -> Measure:
    """Return what is measured, in words; of a score with the name of class 1, if it has one.

    Examples:
        >>> measure("score", "fraud").sentence
        'the score, which is the probability of fraud, against how often fraud occurs'
    """
    plain = MEASURES[of]
    return (
        plain if event is None else Measure(*(with_event(getattr(plain, each.name), event) for each in fields(plain)))
    )


def check_of(of: str) -> None:
    """Refuse anything but the three."""
    if of not in MEASURES:
        raise ValueError(f"of must be 'top', 'score' or 'confidence', not {of!r}.")
