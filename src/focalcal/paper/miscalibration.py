"""Causes of miscalibration: the paper's observations on cross-entropy, in every history at hand."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from focalcal.paper.claims import Case, Claim, judge, of_every_seed
from focalcal.paper.result_folders import KeptRun, ResultSet

_LOSS = "cross-entropy"


def measured_split(run: KeptRun) -> str:
    """Return ``test`` where it was measured after every epoch, and ``val`` otherwise."""
    return "test" if all(epoch.get("test") for epoch in run.history) else "val"


def least_nll(run: KeptRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the epoch with the least NLL on the test set (or validation), and the last epoch, of that split."""
    split = measured_split(run)
    best = min(run.history, key=lambda epoch: float(epoch[split]["nll"]))
    return {**best[split], "epoch": best["epoch"] + 1}, {**run.history[-1][split], "epoch": len(run.history)}


def recorded_runs(results: Sequence[ResultSet], loss: str) -> Iterator[tuple[ResultSet, list[KeptRun]]]:
    """Yield the runs of a loss, seed by seed, in every result that has their histories."""
    for result in results:
        runs = [one for one in result.runs if one.loss == loss and one.history]
        # Translators do not record what the network says about its training samples.
        runs = [one for one in runs if "nll" in one.history[-1]["train"]]
        if runs:
            yield result, runs


def miscalibration_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's section on the causes of miscalibration."""
    found = list(recorded_runs(results, _LOSS))

    def cases(judge: Callable[[KeptRun], tuple[bool, str]]) -> list[Case]:
        return [of_every_seed(result.name, [judge(run) for run in runs]) for result, runs in found]

    snapshots = [(result, [run for run in runs if len(run.snapshots) > 1]) for result, runs in found]
    return [
        judge(
            "With cross-entropy the test NLL rises again after its minimum, while the training NLL keeps falling.",
            cases(_nll_rises),
        ),
        judge(
            "Only wrongly classified samples cause that rise: the NLL of the right ones keeps falling.",
            cases(_wrong_samples_cause_it),
        ),
        judge("With cross-entropy the test ECE rises together with the test NLL.", cases(_ece_rises)),
        judge(
            "The entropy of right and of wrong predictions falls: the network grows surer of its mistakes.",
            cases(_entropy_falls),
        ),
        judge(
            "Training samples move to the highest bin of confidence, also once the training accuracy is 100%.",
            [of_every_seed(result.name, [_snapshots(run) for run in runs]) for result, runs in snapshots if runs],
            "no run recorded the training set; record.snapshots_at does",
        ),
    ]


def _nll_rises(run: KeptRun) -> tuple[bool, str]:
    best, last = least_nll(run)
    train = [float(run.history[place]["train"]["nll"]) for place in (best["epoch"] - 1, -1)]
    return (
        last["nll"] > 1.02 * best["nll"] and train[1] < train[0],
        f"{best['nll']:.2f} after epoch {best['epoch']}, {last['nll']:.2f} after {last['epoch']}; "
        f"training {train[0]:.2f}, {train[1]:.2f}",
    )


def _wrong_samples_cause_it(run: KeptRun) -> tuple[bool, str]:
    best, last = least_nll(run)
    return (
        last["nll_wrong"] > best["nll_wrong"] and last["nll_right"] < best["nll_right"],
        f"wrong {best['nll_wrong']:.2f} → {last['nll_wrong']:.2f}, "
        f"right {best['nll_right']:.3f} → {last['nll_right']:.3f}",
    )


def _ece_rises(run: KeptRun) -> tuple[bool, str]:
    best, last = least_nll(run)
    return last["ece"] > best["ece"], f"{100 * best['ece']:.1f}% → {100 * last['ece']:.1f}%"


def _entropy_falls(run: KeptRun) -> tuple[bool, str]:
    best, last = least_nll(run)
    return (
        last["entropy_wrong"] < best["entropy_wrong"] and last["entropy_right"] < best["entropy_right"],
        f"wrong {best['entropy_wrong']:.2f} → {last['entropy_wrong']:.2f}, "
        f"right {best['entropy_right']:.2f} → {last['entropy_right']:.2f}",
    )


def _snapshots(run: KeptRun) -> tuple[bool, str]:
    shares = [one["count"][-1] / sum(one["count"]) for one in run.snapshots]
    accuracies = [sum(one["correct"]) / sum(one["count"]) for one in run.snapshots]
    steps = ", ".join(
        f"{100 * share:.0f}% after epoch {one['epoch']} (accuracy {100 * accuracy:.1f}%)"
        for one, share, accuracy in zip(run.snapshots, shares, accuracies, strict=True)
    )
    return shares == sorted(shares) and shares[-1] > shares[-2], f"confidence above 96% in {steps}"
