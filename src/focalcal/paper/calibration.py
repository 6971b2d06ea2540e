"""Calibration, confident predictions and accuracy of all losses: the paper's main claims, in every result at hand."""

from collections.abc import Iterable, Iterator, Sequence

from focalcal.paper.claims import Claim, judged
from focalcal.paper.loss_comparison import against, figure, is_lower, short
from focalcal.paper.result_folders import ResultSet

_BASELINES = ("cross-entropy", "brier", "mmce", "ls-0.05")
_OURS = ("fl-3", "flsd-53")
_CROSS_ENTROPY = "cross-entropy"

_FOCAL = "flsd-53"


def calibration_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on ECE, temperatures, error and top-5 accuracy."""
    return [
        judged(
            "Networks trained with cross-entropy are over-confident: their best temperature is 1.4 or more.",
            list(_temperatures(results, _CROSS_ENTROPY, 1.35, 99.0)),
        ),
        judged(
            "FLSD-53 has a best temperature near 1, from 0.9 to 1.1.",
            list(_temperatures(results, "flsd-53", 0.85, 1.15)),
        ),
        judged(
            "FLSD-53 has a lower ECE than cross-entropy before temperature scaling.",
            _compared(results, "flsd-53", "ece", "pre"),
        ),
        judged(
            "FL-3 has a lower ECE than cross-entropy before temperature scaling.",
            _compared(results, "fl-3", "ece", "pre"),
        ),
        judged(
            "Before scaling FL-3 or FLSD-53 has the lowest ECE of all losses.",
            list(_lowest(results, "pre")),
        ),
        judged("After scaling FL-3 or FLSD-53 has the lowest ECE of all losses.", list(_lowest(results, "post"))),
        judged(
            "FLSD-53 has a lower ECE than cross-entropy after temperature scaling.",
            _compared(results, "flsd-53", "ece", "post"),
        ),
        judged(
            "Among fixed γ a larger one gives a lower ECE before scaling: γ = 3 below 2 below 1.",
            list(_by_gamma(results)),
        ),
        judged(
            "Focal loss does not cost accuracy: the error of FLSD-53 is not significantly above cross-entropy's.",
            _compared(results, "flsd-53", "error", "", strict=False),
        ),
        judged("FLSD-53 has a higher top-5 accuracy than cross-entropy.", list(_top5(results))),
    ]


def _compared(
    results: Sequence[ResultSet], loss: str, metric: str, scaling: str, *, strict: bool = True
) -> Iterable[tuple[bool, str]]:
    cases = (against(result, loss, _CROSS_ENTROPY, metric, scaling, strict=strict) for result in results)
    return [case for case in cases if case is not None]


def _temperatures(results: Sequence[ResultSet], loss: str, low: float, high: float) -> Iterator[tuple[bool, str]]:
    for result in results:
        found = figure(result, loss, "ece", "post")
        if found is not None and found.temperature is not None:
            yield low <= found.temperature <= high, f"{result.name}: T = {found.temperature:.2g}"


def _lowest(results: Sequence[ResultSet], scaling: str) -> Iterator[tuple[bool, str]]:
    """Ask which of the paper's six losses is lowest, and whether the difference to the other side is significant."""
    for result in results:
        found = {loss: figure(result, loss, "ece", scaling) for loss in (*_BASELINES, *_OURS)}
        known = {loss: one for loss, one in found.items() if one is not None}
        sides = [[loss for loss in side if loss in known] for side in (_OURS, _BASELINES)]
        if len(known) < 4 or not sides[0] or len(sides[1]) < 2:
            continue
        ours, other = (min(side, key=lambda loss: known[loss].value) for side in sides)
        lower = is_lower(known[ours], known[other])
        note = " (not significant)" if lower is None else ""
        yield (
            known[ours].value < known[other].value,
            f"{result.name}: {short(ours)} {known[ours].text()} against {short(other)} {known[other].text()}{note}",
        )


def _by_gamma(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        found = [figure(result, loss, "ece", "pre") for loss in ("fl-1", "fl-2", "fl-3")]
        values = [one.value for one in found if one is not None]
        if len(values) == 3:
            shown = ", ".join(f"{value:.2f} (γ = {gamma})" for gamma, value in enumerate(values, 1))
            yield values == sorted(values, reverse=True), f"{result.name}: {shown}"


def _top5(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        found = [figure(result, loss, "top5_accuracy") for loss in ("flsd-53", _CROSS_ENTROPY)]
        if found[0] is not None and found[1] is not None:
            higher = is_lower(found[1], found[0])
            note = " (not significant)" if higher is None else ""
            yield higher is True, f"{result.name}: {found[0].text()} against {found[1].text()}{note}"


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
