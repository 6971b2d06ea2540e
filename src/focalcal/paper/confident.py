"""Confident and calibrated: how many predictions have a confidence of 0.99 or more, and are right."""

from collections.abc import Iterator, Sequence

from focalcal.paper.claims import Claim, judged
from focalcal.paper.comparing import figure, is_lower
from focalcal.paper.result_folders import ResultSet

_FOCAL, _CROSS_ENTROPY = "flsd-53", "cross-entropy"


def confident_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on |S99|."""
    return [
        judged(
            "Before temperature scaling FLSD-53 has a smaller |S99| than cross-entropy.", list(_shares(results, "pre"))
        ),
        judged(
            "After temperature scaling FLSD-53 has the larger |S99|: it keeps its confidence.",
            list(_shares(results, "post", focal_is_larger=True)),
        ),
        judged(
            "Before scaling, what FLSD-53 is sure of is right more often than with cross-entropy.",
            list(_accuracies(results)),
        ),
    ]


def _shares(results: Sequence[ResultSet], scaling: str, *, focal_is_larger: bool = False) -> Iterator[tuple[bool, str]]:
    for result in results:
        focal, plain = (figure(result, loss, "s99_share", scaling) for loss in (_FOCAL, _CROSS_ENTROPY))
        if focal is not None and plain is not None:
            lower = is_lower(plain, focal) if focal_is_larger else is_lower(focal, plain)
            note = " (not significant)" if lower is None else ""
            yield lower is True, f"{result.name}: {focal.text()} against {plain.text()}{note}"


def _accuracies(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        focal, plain = (figure(result, loss, "s99_accuracy", "pre") for loss in (_FOCAL, _CROSS_ENTROPY))
        if focal is not None and plain is not None:
            higher = is_lower(plain, focal)
            note = " (not significant)" if higher is None else ""
            yield higher is True, f"{result.name}: {focal.text()} against {plain.text()}{note}"
