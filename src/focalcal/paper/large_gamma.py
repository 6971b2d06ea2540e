"""Large γ: what becomes of training with γ = 7 and 10, where the paper expects gradients to die."""

from collections.abc import Iterator, Sequence
from typing import Any

from focalcal.paper.claims import Claim, judge
from focalcal.paper.loss_comparison import against, figure, short
from focalcal.paper.result_folders import ResultSet

LARGE = ("fl-7", "fl-10")
_SHOWN = ("cross-entropy", "fl-3", *LARGE)


def large_gamma_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Collect error, ECE, T and gradient norms of results that have a run with a large γ."""
    records = []
    for result in _with_large(results):
        for loss in _SHOWN:
            figures = {
                name: figure(result, loss, metric, scaling)
                for name, metric, scaling in (
                    ("error", "error", ""),
                    ("ece_pre", "ece", "pre"),
                    ("ece_post", "ece", "post"),
                )
            }
            if figures["error"] is None:
                continue
            run = next((one for one in result.runs if one.loss == loss and one.history), None)
            norms = run.gradient_norms[-1]["loss"]["quantiles"]["0.5"] if run and run.gradient_norms else None
            last = run.history[-1]["train"] if run else {}
            records.append(
                {
                    "results": result.name,
                    "loss": loss,
                    **{name: None if one is None else one.text() for name, one in figures.items()},
                    "training_error": 100 * last["error"] if "error" in last else None,
                    "confidence_of_right": 100 * last["confidence_right"] if "confidence_right" in last else None,
                    "median_gradient_norm": norms,
                }
            )
    return records


def large_gamma_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge what the paper expects of γ ≥ 7."""
    nothing = "no run has γ = 7 or 10; focalcal sweep RECIPE --losses cross-entropy,fl-3,fl-7,fl-10 makes them"
    return [
        judge(
            "With γ = 7 or 10 gradients die early and training fails: most training samples are wrong in the end.",
            list(_failures(results)),
            nothing,
        ),
        judge("Predictions stay ambiguous: the network is under-confident.", list(_under(results)), nothing),
        judge(
            "A larger γ does not give a lower ECE any more: γ = 10 has a higher one than γ = 3.",
            against(results, "fl-10", "fl-3", "ece", "pre", claim="higher"),
            nothing,
        ),
    ]


def _with_large(results: Sequence[ResultSet]) -> list[ResultSet]:
    return [result for result in results if any(row.method in LARGE for row in result.rows)]


def _failures(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    """Take the training error of the first seed, which is in the histories."""
    for result in _with_large(results):
        errors = {run.loss: 100 * run.history[-1]["train"]["error"] for run in reversed(result.runs) if run.history}
        reference = "cross-entropy" if "cross-entropy" in errors else "fl-3"
        for loss in LARGE:
            own, other = (figure(result, one, "error") for one in (loss, reference))
            if own is not None and other is not None and loss in errors:
                text = f"test error {own.text()} against {other.text()} of {short(reference)}"
                yield errors[loss] > 50, f"{result.name}, γ = {loss[3:]}: {text}, training error {errors[loss]:.1f}%"


def _under(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in _with_large(results):
        for loss in LARGE:
            own = figure(result, loss, "ece", "post")
            if own is not None and own.temperature is not None:
                yield own.temperature < 0.9, f"{result.name}, γ = {loss[3:]}: T = {own.temperature:.2g}"
