"""Focal loss against cross-entropy during training: the paper's observations, in every history at hand."""

from collections.abc import Iterator, Sequence

from focalcal.paper.claims import Claim, judged
from focalcal.paper.loss_comparison import short
from focalcal.paper.miscalibration import first_runs, least_nll, measured_split
from focalcal.paper.result_folders import KeptRun, ResultSet

_FOCAL = ("fl-1", "fl-2", "fl-3")
_CROSS_ENTROPY = "cross-entropy"


def _pairs(results: Sequence[ResultSet], losses: Sequence[str] = ("fl-3",)) -> Iterator[tuple[str, KeptRun, KeptRun]]:
    """Yield the cross-entropy run and a focal one of each result, with a name for both."""
    for result, plain in first_runs(results, _CROSS_ENTROPY):
        for _, focal in (pair for loss in losses for pair in first_runs([result], loss)):
            yield f"{result.name}, {short(focal.loss)}", plain, focal


def _share_of_epochs(plain: KeptRun, focal: KeptRun, key: str) -> float:
    """Count in how many of the epochs after the first tenth the focal loss has the higher value."""
    split = measured_split(plain)
    pairs = list(zip(plain.history, focal.history, strict=False))
    pairs = pairs[len(pairs) // 10 :]
    higher = [b[split][key] > a[split][key] for a, b in pairs if a.get(split) and b.get(split)]
    return float(sum(higher) / max(1, len(higher)))


def focal_training_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's comparison of focal losses with cross-entropy by epoch."""
    return [
        judged(
            "The test NLL rises less from its minimum with focal loss (γ = 3) than with cross-entropy.",
            [_rise(name, plain, focal, "nll") for name, plain, focal in _pairs(results)],
        ),
        judged(
            "The NLL of wrongly classified samples rises less with focal loss (γ = 3), too.",
            [_rise(name, plain, focal, "nll_wrong") for name, plain, focal in _pairs(results)],
        ),
        judged(
            "The NLL of rightly classified samples is higher with focal loss throughout: it is less sure of them.",
            [_throughout(name, plain, focal, "nll_right") for name, plain, focal in _pairs(results)],
        ),
        judged(
            "The entropy of wrong predictions is higher with focal loss throughout.",
            [_throughout(name, plain, focal, "entropy_wrong") for name, plain, focal in _pairs(results)],
        ),
        judged(
            "The norm of the last layer's weights is larger with focal loss at first, and smaller in the end.",
            [_reversal(name, plain, focal) for name, plain, focal in _pairs(results, _FOCAL)],
        ),
        judged(
            "The features' norms keep one order throughout: cross-entropy > γ = 1 > γ = 2 > γ = 3.",
            list(_feature_order(results)),
        ),
        judged(
            "Gradient norms are alike at first; later those of focal loss are smaller.",
            [
                _gradients(name, plain, focal)
                for name, plain, focal in _pairs(results)
                if plain.gradient_norms and focal.gradient_norms
            ],
            "no run recorded gradient norms; record.gradient_norms_at does",
        ),
    ]


def _rise(name: str, plain: KeptRun, focal: KeptRun, key: str) -> tuple[bool, str]:
    values = [(best[key], last[key]) for best, last in (least_nll(plain), least_nll(focal))]
    rises = [last - best for best, last in values]
    return rises[1] < rises[0], f"{name}: by {rises[1]:+.2f} against {rises[0]:+.2f}"


def _throughout(name: str, plain: KeptRun, focal: KeptRun, key: str) -> tuple[bool, str]:
    share = _share_of_epochs(plain, focal, key)
    return share == 1, f"{name}: in {100 * share:.0f}% of the epochs after the first tenth"


def _reversal(name: str, plain: KeptRun, focal: KeptRun) -> tuple[bool, str]:
    ratios = [b["weight_norm"] / a["weight_norm"] for a, b in zip(plain.history, focal.history, strict=False)]
    highest = max(ratios[: max(1, len(ratios) // 2)])
    holds = highest > 1 and ratios[-1] < 1
    return holds, f"{name}: up to {highest:.2f} times in the first half, {ratios[-1]:.2f} times in the end"


def _feature_order(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result, plain in first_runs(results, _CROSS_ENTROPY):
        runs = [plain, *(run for loss in _FOCAL for _, run in first_runs([result], loss))]
        histories = zip(*(run.history for run in runs), strict=False)
        norms = [[epoch["train"].get("feature_norm") for epoch in epochs] for epochs in histories]
        known = [one for one in norms if all(value is not None for value in one)]
        if len(runs) < 3 or not known:
            continue
        share = sum(one == sorted(one, reverse=True) for one in known) / len(known)
        last = " > ".join(f"{value:.2f} ({short(run.loss)})" for run, value in zip(runs, known[-1], strict=True))
        if known[-1] != sorted(known[-1], reverse=True):
            last = last.replace(" > ", ", ")
        yield share == 1, f"{result.name}: in {100 * share:.0f}% of the epochs; in the end {last}"


def _gradients(name: str, plain: KeptRun, focal: KeptRun) -> tuple[bool, str]:
    records = list(zip(plain.gradient_norms, focal.gradient_norms, strict=False))
    ratios = [b["loss"]["quantiles"]["0.5"] / a["loss"]["quantiles"]["0.5"] for a, b in records]
    epochs = [a["after_epochs"] for a, _ in records]
    shown = ", ".join(f"{ratio:.2f} after epoch {epoch}" for ratio, epoch in zip(ratios, epochs, strict=True))
    return ratios[-1] < 1, f"{name}: ratio of the medians {shown}"
