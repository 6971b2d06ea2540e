"""Thresholds for metrics: ``--max-ece 0.02`` and the like, for all samples and for every group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from focalcal.cli.options import option
from focalcal.metrics.catalogue import METRICS

if TYPE_CHECKING:
    from focalcal.metrics import Evaluation

Side = Literal["max", "min"]
# What a threshold is compared with: the estimate, or the end of its interval that is worse.
Judge = Literal["estimate", "upper"]

# The ones that most people need; the others work the same and would only hide these in the help.
_SHOWN = ("max_error", "max_nll", "max_ece", "max_ada_ece", "max_classwise_ece", "min_accuracy")
# Thresholds that are exceeded by more groups than this are counted, not named.
_MOST_NAMED = 10
_PANEL = "Thresholds (exit code 1 if one is exceeded)"

GATE_OPTIONS = [
    option(
        f"{side}_{metric}",
        float | None,
        f"The {'largest' if side == 'max' else 'smallest'} {metric} to accept"
        + (", as a fraction." if METRICS[metric].is_share else "."),
        hidden=f"{side}_{metric}" not in _SHOWN,
        panel=_PANEL,
    )
    for metric in METRICS
    for side in ("max", "min")
]


@dataclass(frozen=True)
class Gate:
    """A threshold for a metric.

    Examples:
        >>> gate = Gate("ece", "max", 0.02)
        >>> gate.is_met(0.01), gate.is_met(0.03), gate.is_met(math.nan)
        (True, False, False)
        >>> gate.failure(0.03)
        'ece is 0.03, above --max-ece 0.02.'
    """

    metric: str
    side: Side
    limit: float

    def __post_init__(self) -> None:
        lowest, highest = METRICS[self.metric].range
        if METRICS[self.metric].is_share and not lowest <= self.limit <= highest:
            raise ValueError(
                f"{self.option} must lie between {lowest:g} and 1, as a fraction and not in percent; 0.02 is 2%."
            )
        if not math.isfinite(self.limit):
            raise ValueError(f"{self.option} needs a finite number.")

    @property
    def option(self) -> str:
        """The option as it was given on the command line."""
        return f"--{self.side}-{self.metric.replace('_', '-')} {repr(self.limit).removesuffix('.0')}"

    def is_met(self, value: float) -> bool:
        """Return whether the value meets the threshold; an undefined one never does."""
        return value <= self.limit if self.side == "max" else value >= self.limit

    def compared_value(self, evaluation: Evaluation, judge: Judge) -> float:
        """Return the estimate, or the end of its interval that is farther from meeting the threshold."""
        if judge == "estimate":
            return evaluation.values[self.metric]
        return evaluation.intervals[self.metric][1 if self.side == "max" else 0]

    def failure(self, value: float, judge: Judge = "estimate") -> str:
        """Say in a sentence which threshold is exceeded, and by which value."""
        what = self.metric
        if judge == "upper":
            what = f"the {'upper' if self.side == 'max' else 'lower'} end of the interval of {self.metric}"
        if math.isnan(value):
            return f"{what} is undefined on these predictions, so {self.option} fails."
        short = f"{value:.6g}"
        shown = short if float(short) != self.limit else repr(value)
        return f"{what} is {shown}, {'above' if self.side == 'max' else 'below'} {self.option}."

    def to_dict(self, value: float) -> dict[str, Any]:
        """Return the threshold and its result, for JSON."""
        return {"metric": self.metric, self.side: self.limit, "value": value, "met": self.is_met(value)}


def check_judge(judge: str) -> Judge:
    """Return what thresholds are compared with; raises for any other word."""
    if judge not in get_args(Judge):
        raise ValueError(f"--judge is {judge!r}; it must be estimate or upper.")
    return cast(Judge, judge)


def choose_gates(options: Mapping[str, float]) -> list[Gate]:
    """Return the gates of the options that were given.

    Examples:
        >>> choose_gates({"max_ece": 0.02, "min_accuracy": 0.9})
        [Gate(metric='accuracy', side='min', limit=0.9), Gate(metric='ece', side='max', limit=0.02)]
    """
    sides: Sequence[Side] = ("max", "min")
    return [
        Gate(metric, side, options[f"{side}_{metric}"])
        for metric in METRICS
        for side in sides
        if f"{side}_{metric}" in options
    ]


def judge_groups(gates: Sequence[Gate], evaluation: Evaluation, judge: Judge) -> list[dict[str, Any]]:
    """Judge every group of at least 10 samples by every threshold: one entry for each, as in JSON."""
    from focalcal.metrics.group_moments import FEWEST_SAMPLES

    found = []
    for column, name, group in _groups(evaluation):
        if group.n < FEWEST_SAMPLES:
            continue
        for gate in gates:
            known = group.values if judge == "estimate" else group.intervals
            if gate.metric in known and not (judge == "upper" and math.isnan(group.intervals[gate.metric][0])):
                value = gate.compared_value(group, judge)
                found.append({"column": column, "group": name, **gate.to_dict(value)})
    return found


def group_failures(gates: Sequence[Gate], judged: Sequence[dict[str, Any]], judge: Judge) -> list[str]:
    """Say in a sentence each which threshold is exceeded in which group; the first ones, where they are many."""
    failed = [one for one in judged if not one["met"]]
    sentences = []
    for one in failed[:_MOST_NAMED]:
        gate = next(gate for gate in gates if gate.metric == one["metric"] and gate.side in one)
        sentences.append(f"{one['column']} {one['group']}: {gate.failure(one['value'], judge)}")
    if len(failed) > _MOST_NAMED:
        sentences.append(f"Thresholds are exceeded in {len(failed) - _MOST_NAMED:,} more places.")
    return sentences


def not_judged(gates: Sequence[Gate], evaluation: Evaluation, judged: Sequence[dict[str, Any]]) -> str | None:
    """Say how many groups are too small to be judged, or lack a number."""
    count = sum(1 for _ in _groups(evaluation)) * len(gates) - len(judged)
    if not count:
        return None
    return (
        f"--each-group: {count:,} of {count + len(judged):,} thresholds are not judged, because the group has fewer "
        "than 10 samples or no such number."
    )


def _groups(evaluation: Evaluation) -> Iterator[tuple[str, str, Evaluation]]:
    for column, table in evaluation.by.items():
        for name, group in table.groups.items():
            yield column, name, group
