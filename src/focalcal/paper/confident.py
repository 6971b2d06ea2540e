"""Confident and calibrated: how many predictions have a confidence of 0.99 or more, and are right."""

from collections.abc import Sequence

from focalcal.paper.claims import Claim, judged
from focalcal.paper.comparing import against
from focalcal.paper.result_folders import ResultSet

_BOTH = ("flsd-53", "cross-entropy")


def confident_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on |S99|."""
    return [
        judged(
            "Before temperature scaling FLSD-53 has a smaller |S99| than cross-entropy.",
            against(results, *_BOTH, "s99_share", "pre"),
        ),
        judged(
            "After temperature scaling FLSD-53 has the larger |S99|: it keeps its confidence.",
            against(results, *_BOTH, "s99_share", "post", claim="higher"),
        ),
        judged(
            "Before scaling, what FLSD-53 is sure of is right more often than with cross-entropy.",
            against(results, *_BOTH, "s99_accuracy", "pre", claim="higher"),
        ),
    ]
