"""Focal loss against cross-entropy during training: the paper's observations, in every history at hand."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from focalcal.paper.claims import Case, Claim, judge, of_every_seed
from focalcal.paper.loss_comparison import short
from focalcal.paper.miscalibration import least_nll, measured_split, recorded_runs
from focalcal.paper.result_folders import KeptRun, ResultSet

_FOCAL = ("fl-1", "fl-2", "fl-3")
_CROSS_ENTROPY = "cross-entropy"
_ALIKE = 1.25


@dataclass(frozen=True)
class _Pairs:
    """Runs with cross-entropy and with a focal loss, of the same seeds of one result."""

    name: str
    runs: Sequence[tuple[KeptRun, KeptRun]]

    def case(self, judge: Callable[[KeptRun, KeptRun], tuple[bool, str]]) -> Case:
        return of_every_seed(self.name, [judge(plain, focal) for plain, focal in self.runs])


def _pairs(results: Sequence[ResultSet], losses: Sequence[str] = ("fl-3",)) -> Iterator[_Pairs]:
    for result, plain in recorded_runs(results, _CROSS_ENTROPY):
        for loss in losses:
            focal = {run.seed: run for _, runs in recorded_runs([result], loss) for run in runs}
            both = [(run, focal[run.seed]) for run in plain if run.seed in focal]
            if both:
                yield _Pairs(f"{result.name}, {short(loss)}", both)


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
        judge(
            "The test NLL rises less from its minimum with focal loss (γ = 3) than with cross-entropy.",
            [pairs.case(partial(_rise, key="nll")) for pairs in _pairs(results)],
        ),
        judge(
            "The NLL of wrongly classified samples rises less with focal loss (γ = 3), too.",
            [pairs.case(partial(_rise, key="nll_wrong")) for pairs in _pairs(results)],
        ),
        judge(
            "The NLL of rightly classified samples is higher with focal loss throughout: it is less sure of them.",
            [pairs.case(partial(_throughout, key="nll_right")) for pairs in _pairs(results)],
        ),
        judge(
            "The entropy of wrong predictions is higher with focal loss throughout.",
            [pairs.case(partial(_throughout, key="entropy_wrong")) for pairs in _pairs(results)],
        ),
        judge(
            "The norm of the last layer's weights is larger with focal loss at first, and smaller in the end.",
            [pairs.case(_reversal) for pairs in _pairs(results, _FOCAL)],
        ),
        judge(
            "The features' norms keep one order throughout: cross-entropy > γ = 1 > γ = 2 > γ = 3.",
            list(_feature_order(results)),
        ),
        judge(
            "Gradient norms are alike at first (within 25%); later those of focal loss are smaller.",
            [
                pairs.case(_gradients)
                for pairs in _pairs(results)
                if all(run.gradient_norms for both in pairs.runs for run in both)
            ],
            "no run recorded gradient norms; record.gradient_norms_at does",
        ),
    ]


def _rise(plain: KeptRun, focal: KeptRun, key: str) -> tuple[bool, str]:
    values = [(best[key], last[key]) for best, last in (least_nll(plain), least_nll(focal))]
    rises = [last - best for best, last in values]
    return rises[1] < rises[0], f"by {rises[1]:+.2f} against {rises[0]:+.2f}"


def _throughout(plain: KeptRun, focal: KeptRun, key: str) -> tuple[bool, str]:
    share = _share_of_epochs(plain, focal, key)
    return share == 1, f"in {100 * share:.0f}% of the epochs after the first tenth"


def _reversal(plain: KeptRun, focal: KeptRun) -> tuple[bool, str]:
    ratios = [b["weight_norm"] / a["weight_norm"] for a, b in zip(plain.history, focal.history, strict=False)]
    highest = max(ratios[: max(1, len(ratios) // 2)])
    holds = highest > 1 and ratios[-1] < 1
    return holds, f"up to {highest:.2f} times in the first half, {ratios[-1]:.2f} times in the end"


def _feature_order(results: Sequence[ResultSet]) -> Iterator[Case]:
    for result, plain in recorded_runs(results, _CROSS_ENTROPY):
        others = [runs for loss in _FOCAL for _, runs in recorded_runs([result], loss)]
        by_seed = {run.seed: [run] for run in plain}
        for run in (run for runs in others for run in runs if run.seed in by_seed):
            by_seed[run.seed].append(run)
        found = [_order_of_features(runs) for runs in by_seed.values() if len(runs) > 2]
        known = [one for one in found if one is not None]
        if known:
            yield of_every_seed(result.name, known)


def _order_of_features(runs: Sequence[KeptRun]) -> tuple[bool, str] | None:
    """Compare the norms epoch by epoch; None where they were not recorded."""
    histories = zip(*(run.history for run in runs), strict=False)
    norms = [[epoch["train"].get("feature_norm") for epoch in epochs] for epochs in histories]
    known = [one for one in norms if all(value is not None for value in one)]
    if not known:
        return None
    share = sum(one == sorted(one, reverse=True) for one in known) / len(known)
    last = " > ".join(f"{value:.2f} ({short(run.loss)})" for run, value in zip(runs, known[-1], strict=True))
    if known[-1] != sorted(known[-1], reverse=True):
        last = last.replace(" > ", ", ")
    return share == 1, f"in {100 * share:.0f}% of the epochs; in the end {last}"


def _gradients(plain: KeptRun, focal: KeptRun) -> tuple[bool, str]:
    records = list(zip(plain.gradient_norms, focal.gradient_norms, strict=False))
    ratios = [b["loss"]["quantiles"]["0.5"] / a["loss"]["quantiles"]["0.5"] for a, b in records]
    epochs = [a["after_epochs"] for a, _ in records]
    shown = ", ".join(f"{ratio:.2g} after epoch {epoch}" for ratio, epoch in zip(ratios, epochs, strict=True))
    alike = 1 / _ALIKE < ratios[0] < _ALIKE
    return alike and max(ratios[1:], default=2.0) < 1, f"ratio of the medians {shown}"
