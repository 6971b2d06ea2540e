"""Calibration, confident predictions and accuracy of all losses: the paper's main claims, in every result at hand."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from focalcal.paper.claims import Case, Claim, all_hold, judge
from focalcal.paper.loss_comparison import against, figure, is_lower, short
from focalcal.paper.result_folders import ResultSet

_BASELINES = ("cross-entropy", "brier", "mmce", "ls-0.05")
_OURS = ("fl-3", "flsd-53")
_CROSS_ENTROPY = "cross-entropy"


def calibration_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on ECE, temperatures, error and top-5 accuracy."""
    return [
        judge(
            "Networks trained with cross-entropy are over-confident: their best temperature is 1.4 or more.",
            list(_temperatures(results, _CROSS_ENTROPY, 1.35, 99.0)),
        ),
        judge(
            "FLSD-53 has a best temperature near 1, from 0.9 to 1.1.",
            list(_temperatures(results, "flsd-53", 0.85, 1.15)),
        ),
        judge(
            "FLSD-53 has a lower ECE than cross-entropy before temperature scaling.",
            against(results, "flsd-53", _CROSS_ENTROPY, "ece", "pre"),
        ),
        judge(
            "FL-3 has a lower ECE than cross-entropy before temperature scaling.",
            against(results, "fl-3", _CROSS_ENTROPY, "ece", "pre"),
        ),
        judge(
            "Before scaling FL-3 or FLSD-53 has the lowest ECE of all losses.",
            list(_lowest(results, "pre")),
        ),
        judge("After scaling FL-3 or FLSD-53 has the lowest ECE of all losses.", list(_lowest(results, "post"))),
        judge(
            "FLSD-53 has a lower ECE than cross-entropy after temperature scaling.",
            against(results, "flsd-53", _CROSS_ENTROPY, "ece", "post"),
        ),
        judge(
            "Among fixed γ a larger one gives a lower ECE before scaling: γ = 3 below 2 below 1.",
            list(_by_gamma(results)),
        ),
        judge(
            "Focal loss does not cost accuracy: the error of FLSD-53 is not significantly above cross-entropy's.",
            against(results, "flsd-53", _CROSS_ENTROPY, "error", claim="not higher"),
        ),
        judge(
            "FLSD-53 has a higher top-5 accuracy than cross-entropy (in the paper with 100 and 200 classes).",
            against(results, "flsd-53", _CROSS_ENTROPY, "top5_accuracy", claim="higher"),
        ),
    ]


def _temperatures(results: Sequence[ResultSet], loss: str, low: float, high: float) -> Iterator[Case]:
    for result in results:
        found = figure(result, loss, "ece", "post")
        if found is not None and found.temperature is not None:
            yield low <= found.temperature <= high, f"{result.name}: T = {found.temperature:.2g}"


def _lowest(results: Sequence[ResultSet], scaling: str) -> Iterator[Case]:
    """Compare the lower of the two focal losses with the lowest of the paper's other four."""
    for result in results:
        found = {loss: figure(result, loss, "ece", scaling) for loss in (*_BASELINES, *_OURS)}
        known = {loss: one for loss, one in found.items() if one is not None}
        sides = [[loss for loss in side if loss in known] for side in (_OURS, _BASELINES)]
        if len(known) < 4 or not sides[0] or len(sides[1]) < 2:
            continue
        ours, other = (min(side, key=lambda loss: known[loss].value) for side in sides)
        yield (
            is_lower(known[ours], known[other]),
            f"{result.name}: {short(ours)} {known[ours].text()} against {short(other)} {known[other].text()}",
        )


def _by_gamma(results: Sequence[ResultSet]) -> Iterator[Case]:
    """Ask for both steps to be down; one that is up decides against, one that may be chance decides nothing."""
    for result in results:
        known = [one for loss in ("fl-1", "fl-2", "fl-3") if (one := figure(result, loss, "ece", "pre")) is not None]
        if len(known) == 3:
            steps = [is_lower(after, before) for before, after in pairwise(known)]
            shown = ", ".join(f"{one.text()} (γ = {gamma})" for gamma, one in enumerate(known, 1))
            yield all_hold(steps), f"{result.name}: {shown}"


def confident_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on |S99|: how many predictions have a confidence of 0.99 or more, and are right."""
    both = ("flsd-53", _CROSS_ENTROPY)
    return [
        judge(
            "Before temperature scaling FLSD-53 has a smaller |S99| than cross-entropy.",
            against(results, *both, "s99_share", "pre"),
        ),
        judge(
            "After temperature scaling FLSD-53 has the larger |S99|: it keeps its confidence.",
            against(results, *both, "s99_share", "post", claim="higher"),
        ),
        judge(
            "Before scaling, what FLSD-53 is sure of is right more often than with cross-entropy.",
            against(results, *both, "s99_accuracy", "pre", claim="higher"),
        ),
    ]
