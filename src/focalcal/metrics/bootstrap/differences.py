"""Results of comparing two models, or two sets of samples, metric by metric, with a verdict in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from focalcal.metrics.bootstrap.interval_methods import Interval
from focalcal.metrics.catalogue import METRICS

NO_DIFFERENCE = "no significant difference"
NOT_TESTED = "not tested"
# More metrics that do not differ than this are counted, not named.
_MOST_NAMED = 8


@dataclass(frozen=True)
class Difference:
    """The difference of two models in one metric.

    Attributes:
        metric: Name of the metric.
        names: Names of the two models.
        values: Value of the metric for each.
        difference: The first less the second; NaN where either is undefined.
        interval: Interval of the difference, by the paired bootstrap; for sets of different samples as
            `focalcal.compare` says.
        p_value: P-value of the paired permutation test, two-sided, or of the difference of two sets.
        adjusted_p_value: P-value after Holm's correction over all pairs of models that were compared in this metric, or
            over all metrics of sets of different samples.
        level: Level of the interval; a difference is significant if the adjusted p-value is at most 1 − level, too.
    """

    metric: str
    names: tuple[str, str]
    values: tuple[float, float]
    difference: float
    interval: Interval
    p_value: float
    adjusted_p_value: float
    level: float

    @property
    def is_significant(self) -> bool:
        """True if the test and the interval both say that the metric differs."""
        outside = self.interval[0] > 0 or self.interval[1] < 0
        # 1 − 0.9 is a little less than 0.1.
        return outside and self.adjusted_p_value <= 1 - self.level + 1e-12

    @property
    def verdict(self) -> str:
        """In words: which model has the lower value, that the difference is not significant, or has no test."""
        if math.isnan(self.difference):
            return f"{self.metric} is not defined on these samples"
        if math.isnan(self.adjusted_p_value):
            return NOT_TESTED
        if not self.is_significant:
            return NO_DIFFERENCE
        return f"{self.names[0] if self.difference < 0 else self.names[1]} has the lower {self.metric}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON: undefined numbers are None."""
        low, high = self.interval
        numbers = {
            **dict(zip(("a", "b"), self.values, strict=True)),
            "difference": self.difference,
            "low": low,
            "high": high,
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
        }
        return {**{k: v if math.isfinite(v) else None for k, v in numbers.items()}, "verdict": self.verdict}


@dataclass(frozen=True)
class Comparison:
    """The differences of two models: ``comparison["ece"].verdict``.

    Attributes:
        names: Names of the two models.
        differences: Differences by metric.
        paired: Whether both are of the same samples.
        notes: Sentences about samples that depend on each other.
    """

    names: tuple[str, str]
    differences: dict[str, Difference]
    paired: bool = True
    notes: tuple[str, ...] = ()

    def __getitem__(self, metric: str) -> Difference:
        return self.differences[metric]

    @property
    def verdict(self) -> str:
        """In words: which metrics differ significantly; those that do not are named last, or counted if many."""
        lower: dict[str, list[str]] = {}
        same: list[str] = []
        untested: list[str] = []
        for name, difference in self.differences.items():
            if difference.is_significant:
                winner = self.names[0] if difference.difference < 0 else self.names[1]
                lower.setdefault(winner, []).append(_title(name))
            else:
                (untested if math.isnan(difference.adjusted_p_value) else same).append(_title(name))
        parts = [f"{winner} has a significantly lower {', '.join(titles)}" for winner, titles in lower.items()]
        if same:
            few = self.paired or len(same) <= _MOST_NAMED
            which = ", ".join(same) if few else f"{'the other' if parts else 'any of'} {len(same)} metrics"
            parts.append(f"{'no' if parts else 'No'} significant difference in {which}")
        if untested:
            which = ", ".join(untested) if len(untested) <= _MOST_NAMED else f"{len(untested)} metrics"
            parts.append(f"{NOT_TESTED if parts else NOT_TESTED.capitalize()}: {which}")
        return f"{'; '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON: the two names, and what is known of each metric."""
        return {
            "names": list(self.names),
            "paired": self.paired,
            "metrics": {k: v.to_dict() for k, v in self.differences.items()},
            "verdict": self.verdict,
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """Return a table, one row per metric, and the notes."""
        head = f"| metric | {self.names[0]} | {self.names[1]} | difference | interval | p | verdict |"
        rows = [head, "|---|---|---|---|---|---|---|", *map(_row, self.differences.values())]
        return "\n".join([*rows, *(f"\n{note}" for note in self.notes)])


def _title(metric: str) -> str:
    """Return a heading that can stand in a list with commas."""
    title, comma, rest = METRICS[metric].heading.partition(", ")
    return f"{title} ({rest})" if comma else title


def _row(d: Difference) -> str:
    low, high = d.interval
    ends = "" if math.isnan(low) else f"{low:+.4f} … {high:+.4f}"
    p_value = "" if math.isnan(d.adjusted_p_value) else f"{d.adjusted_p_value:.3g}"
    numbers = f"{d.values[0]:.4f} | {d.values[1]:.4f} | {d.difference:+.4f} | {ends}"
    return f"| {d.metric} | {numbers} | {p_value} | {d.verdict} |"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values that keep the chance of any false finding at their level.

    The i-th smallest of m is multiplied by m − i + 1, raised to the largest before it and cut off at 1. NaN stays NaN
    and is not counted.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = p.copy()
    order = np.argsort(p)[: int(np.sum(~np.isnan(p)))]
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return [float(value) for value in adjusted]
