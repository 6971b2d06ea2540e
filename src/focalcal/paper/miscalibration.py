"""Causes of miscalibration: the paper's observations on cross-entropy, in every history at hand."""

from collections.abc import Iterator, Sequence
from typing import Any

from focalcal.paper.claims import Claim, judged
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


def first_runs(results: Sequence[ResultSet], loss: str) -> Iterator[tuple[ResultSet, KeptRun]]:
    """Yield the first seed of a loss in every result that has its history."""
    for result in results:
        runs = (one for one in result.runs if one.loss == loss and one.history)
        # Translators do not record what the network says about its training samples.
        run = next((one for one in runs if "nll" in one.history[-1]["train"]), None)
        if run is not None:
            yield result, run


def miscalibration_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's section on the causes of miscalibration."""
    found = [(result, run, *least_nll(run)) for result, run in first_runs(results, _LOSS)]
    return [
        judged(
            "With cross-entropy the test NLL rises again after its minimum, while the training NLL keeps falling.",
            [
                (
                    last["nll"] > 1.02 * best["nll"] and _train_nll(run, -1) < _train_nll(run, best["epoch"] - 1),
                    f"{result.name}: {best['nll']:.2f} after epoch {best['epoch']}, {last['nll']:.2f} after "
                    f"{last['epoch']}; training {_train_nll(run, best['epoch'] - 1):.2f}, {_train_nll(run, -1):.2f}",
                )
                for result, run, best, last in found
            ],
        ),
        judged(
            "Only wrongly classified samples cause that rise: the NLL of the right ones keeps falling.",
            [
                (
                    last["nll_wrong"] > best["nll_wrong"] and last["nll_right"] < best["nll_right"],
                    f"{result.name}: wrong {best['nll_wrong']:.2f} → {last['nll_wrong']:.2f}, "
                    f"right {best['nll_right']:.3f} → {last['nll_right']:.3f}",
                )
                for result, _, best, last in found
            ],
        ),
        judged(
            "With cross-entropy the test ECE rises together with the test NLL.",
            [
                (last["ece"] > best["ece"], f"{result.name}: {100 * best['ece']:.1f}% → {100 * last['ece']:.1f}%")
                for result, _, best, last in found
            ],
        ),
        judged(
            "The entropy of right and of wrong predictions falls: the network grows surer of its mistakes.",
            [
                (
                    last["entropy_wrong"] < best["entropy_wrong"] and last["entropy_right"] < best["entropy_right"],
                    f"{result.name}: wrong {best['entropy_wrong']:.2f} → {last['entropy_wrong']:.2f}, "
                    f"right {best['entropy_right']:.2f} → {last['entropy_right']:.2f}",
                )
                for result, _, best, last in found
            ],
        ),
        judged(
            "Training samples move to the highest bin of confidence, also once the training accuracy is 100%.",
            [_snapshots(result, run) for result, run, _, _ in found if len(run.snapshots) > 1],
            "no run recorded the training set; record.snapshots_at does",
        ),
    ]


def _train_nll(run: KeptRun, epoch: int) -> float:
    return float(run.history[epoch]["train"]["nll"])


def _snapshots(result: ResultSet, run: KeptRun) -> tuple[bool, str]:
    shares = [one["count"][-1] / sum(one["count"]) for one in run.snapshots]
    accuracies = [sum(one["correct"]) / sum(one["count"]) for one in run.snapshots]
    steps = ", ".join(
        f"{100 * share:.0f}% after epoch {one['epoch']} (accuracy {100 * accuracy:.1f}%)"
        for one, share, accuracy in zip(run.snapshots, shares, accuracies, strict=True)
    )
    return shares == sorted(shares) and shares[-1] > shares[-2], f"{result.name}: confidence above 96% in {steps}"
