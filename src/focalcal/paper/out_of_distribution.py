"""Out-of-distribution data: AUROC by entropy and by confidence, false alarms, and ECE under growing noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from focalcal.metrics.ood import Score, auroc_interval, ood_evaluate
from focalcal.paper.cells import Measured
from focalcal.paper.claims import Case, Claim, judge
from focalcal.paper.loss_comparison import figure, is_lower, short
from focalcal.paper.result_folders import ResultSet, load_scaled
from focalcal.sweeps.finished import OOD_SPLITS
from focalcal.sweeps.result_rows import title

_SETS = ("SVHN", "CIFAR-10-C")
_FOCAL = ("fl-3", "flsd-53")
# Where half of the answers are wrong, entropy cannot tell anything.
_MOST_ERROR = 30.0
# Ends of the interval of an AUROC, by result, loss, seed, data and scaling.
_Intervals = Mapping[tuple[str, str, int, str, str], tuple[float, float]]


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
                        pair = (loaded["test"][place], loaded[split][place])
                        found = ood_evaluate(*pair, score=score)
                        low, high = auroc_interval(*pair, score=score) or (None, None)
                        records.append(
                            {
                                "results": result.name,
                                "loss": run.loss,
                                "seed": run.seed,
                                "data": title(split),
                                "score": score,
                                "temperature_scaling": scaling,
                                "auroc": 100 * found.auroc,
                                "low": None if low is None else 100 * low,
                                "high": None if high is None else 100 * high,
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
    intervals = {
        (one["results"], one["loss"], one["seed"], one["data"], one["temperature_scaling"]): (one["low"], one["high"])
        for one in ood_records(results)
        if one["score"] == "entropy" and one["low"] is not None
    }
    nothing = "no network is accurate enough"
    return [
        judge(
            "FL-3 or FLSD-53 has the highest AUROC, before temperature scaling.",
            list(_highest(results, "pre", "pre", intervals)),
            nothing,
        ),
        judge(
            "FL-3 or FLSD-53 has the highest AUROC, after temperature scaling.",
            list(_highest(results, "post", "post", intervals)),
            nothing,
        ),
        judge(
            "Focal loss without temperature scaling beats the other losses with it.",
            list(_highest(results, "pre", "post", intervals)),
            nothing,
        ),
        judge(
            "Temperature scaling does not calibrate under shift: on the noisiest CIFAR-10-C the scaled ECE of "
            "cross-entropy is far above that on the test set.",
            list(_shift(results)),
        ),
    ]


def _highest(results: Sequence[ResultSet], of_focal: str, of_others: str, intervals: _Intervals) -> Iterator[Case]:
    """Compare the better of the two focal losses with the best of the losses that are not focal."""
    for result in results:
        errors = figure(result, "cross-entropy", "error")
        if errors is None or errors.value > _MOST_ERROR:
            continue
        losses = list(dict.fromkeys(row.method for row in result.rows if row.is_out_of_distribution))
        sides = [(_FOCAL, of_focal), ([loss for loss in losses if not loss.startswith("fl")], of_others)]
        for data in _SETS:
            known = [
                {loss: one for loss in side if (one := _auroc(result, loss, scaling, data, intervals)) is not None}
                for side, scaling in sides
            ]
            if all(known):
                focal, other = (_best(side) for side in known)
                shown = f"{short(focal)} {known[0][focal].text()} against {short(other)} {known[1][other].text()}"
                yield is_lower(known[1][other], known[0][focal]), f"{result.name}, {data}: {shown}"


def _best(side: Mapping[str, Measured]) -> str:
    return max(side, key=lambda loss: side[loss].value)


def _auroc(result: ResultSet, loss: str, scaling: str, data: str, intervals: _Intervals) -> Measured | None:
    """Find an AUROC of the table; of one seed with the interval of its kept predictions, if the table has none."""
    found = figure(result, loss, "ood_auroc", scaling, data=data)
    if found is None or found.spread is not None or found.interval is not None:
        return found
    seeds = {run.seed for run in result.runs if run.loss == loss}
    kept = [intervals.get((result.name, loss, seed, data, scaling)) for seed in seeds]
    return replace(found, interval=kept[0]) if len(kept) == 1 else found


def _shift(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        inside = figure(result, "cross-entropy", "ece", "post")
        outside = figure(result, "cross-entropy", "ece", "post", data="CIFAR-10-C")
        if inside is not None and outside is not None:
            holds = outside.value > 3 * inside.value
            yield holds, f"{result.name}: {outside.value:.1f}% against {inside.value:.1f}%"
