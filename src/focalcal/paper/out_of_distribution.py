"""Out-of-distribution data: AUROC by entropy and by confidence, false alarms, and ECE under growing noise."""

from collections.abc import Iterator, Sequence
from typing import Any

from focalcal.metrics.ood import Score, ood_evaluate
from focalcal.paper.claims import Claim, judge
from focalcal.paper.loss_comparison import figure, short
from focalcal.paper.result_folders import ResultSet, load_scaled
from focalcal.sweeps.finished import OOD_SPLITS
from focalcal.sweeps.result_rows import title

_SETS = ("SVHN", "CIFAR-10-C")
_FOCAL = ("fl-3", "flsd-53")
# Where half of the answers are wrong, entropy cannot tell anything.
_MOST_ERROR = 30.0


def ood_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Measure every kept out-of-distribution set of every run: AUROC and FPR at 95%, by both scores, pre and post."""
    records = []
    scores: tuple[Score, ...] = ("entropy", "confidence")
    for result in results:
        for run in result.runs:
            kept = run.finished
            splits = [] if kept is None else [one for one in OOD_SPLITS if kept.file(one, kept.shown).is_file()]
            if not splits:
                continue
            _, loaded = load_scaled(run, "test", *splits)
            for split in splits:
                for score in scores:
                    for scaling, place in (("pre", 0), ("post", 1)):
                        found = ood_evaluate(loaded["test"][place], loaded[split][place], score=score)
                        records.append(
                            {
                                "results": result.name,
                                "loss": run.loss,
                                "seed": run.seed,
                                "data": title(split),
                                "score": score,
                                "temperature_scaling": scaling,
                                "auroc": 100 * found.auroc,
                                "fpr95": 100 * found.fpr_at_tpr,
                            }
                        )
    return records


def severity_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Collect error, ECE and AUROC of every severity of CIFAR-10-C, pre and post, from the tables."""
    records = []
    for result in results:
        losses = list(dict.fromkeys(row.method for row in result.rows if row.is_out_of_distribution))
        for loss in losses:
            own: list[dict[str, Any]] = []
            for severity in (0, 1, 2, 3, 4, 5):
                data = "" if severity == 0 else title("cifar10_c" if severity == 5 else f"cifar10_c_{severity}")
                found = {
                    name: figure(result, loss, metric, scaling, data=data)
                    for name, metric, scaling in (
                        ("error", "error", ""),
                        ("ece_pre", "ece", "pre"),
                        ("ece_post", "ece", "post"),
                        ("auroc_pre", "ood_auroc", "pre"),
                        ("auroc_post", "ood_auroc", "post"),
                    )
                }
                if found["ece_pre"] is not None:
                    values = {name: None if one is None else one.value for name, one in found.items()}
                    own.append({"results": result.name, "loss": loss, "severity": severity, **values})
            records += own if len(own) > 1 else []  # severity 0 is the test set
    return records


def ood_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims on out-of-distribution data."""
    return [
        judge(
            "FL-3 or FLSD-53 has the highest AUROC, before temperature scaling.",
            list(_highest(results, "pre", "pre")),
            "no network is accurate enough",
        ),
        judge(
            "FL-3 or FLSD-53 has the highest AUROC, after temperature scaling.",
            list(_highest(results, "post", "post")),
            "no network is accurate enough",
        ),
        judge(
            "Focal loss without temperature scaling beats the other losses with it.",
            list(_highest(results, "pre", "post")),
            "no network is accurate enough",
        ),
        judge(
            "Temperature scaling does not calibrate under shift: on the noisiest CIFAR-10-C the scaled ECE of "
            "cross-entropy is far above that on the test set.",
            list(_shift(results)),
        ),
    ]


def _highest(results: Sequence[ResultSet], of_focal: str, of_others: str) -> Iterator[tuple[bool, str]]:
    for result in results:
        errors = figure(result, "cross-entropy", "error")
        if errors is None or errors.value > _MOST_ERROR:
            continue
        losses = list(dict.fromkeys(row.method for row in result.rows if row.is_out_of_distribution))
        for data in _SETS:
            focal = [
                (one.value, loss) for loss in _FOCAL if (one := figure(result, loss, "ood_auroc", of_focal, data=data))
            ]
            others = [
                (one.value, loss)
                for loss in losses
                if not loss.startswith("fl") and (one := figure(result, loss, "ood_auroc", of_others, data=data))
            ]
            if focal and others:
                best, other = max(focal), max(others)
                text = f"{result.name}, {data}: {short(best[1])} {best[0]:.1f}, {short(other[1])} {other[0]:.1f}"
                yield best[0] > other[0], text


def _shift(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        inside = figure(result, "cross-entropy", "ece", "post")
        outside = figure(result, "cross-entropy", "ece", "post", data="CIFAR-10-C")
        if inside is not None and outside is not None:
            holds = outside.value > 3 * inside.value
            yield holds, f"{result.name}: {outside.value:.1f}% against {inside.value:.1f}%"
