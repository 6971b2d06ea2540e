"""Results of `evaluate` with ``by=``: every group's metrics, which groups stand out, and the worst one in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focalcal.base.files import null_for_nan
from focalcal.base.markdown import markdown_table
from focalcal.base.measures import Of
from focalcal.metrics.catalogue import METRICS, describe_metric
from focalcal.metrics.evaluation import SIGNIFICANT, Evaluation

# A table for people has no more rows than this; all groups are in `Evaluation.groups` and in JSON.
MOST_ROWS = 40
# The metrics of a table for people, as far as they were asked for.
TABLE_METRICS = ("error", "signed_gap", "ece")
# More groups than this are counted in a sentence, not named.
_MOST_NAMED = 5


@dataclass(frozen=True)
class GroupTest:
    """A test of one group.

    Attributes:
        p_value: NaN where the group has too few samples to be tested.
        adjusted_p_value: After Holm's correction for the number of groups.
        difference: The group less the rest, where that is what is tested.
        value: That of the group itself.
    """

    p_value: float
    adjusted_p_value: float
    difference: float | None = None
    value: float | None = None

    @property
    def is_significant(self) -> bool:
        """True if the adjusted p-value is at most 0.05."""
        return self.adjusted_p_value <= SIGNIFICANT

    def to_dict(self) -> dict[str, Any]:
        """Return everything in numbers."""
        given = {} if self.difference is None else {"value": self.value, "difference": self.difference}
        p_values = {"p_value": self.p_value, "adjusted_p_value": self.adjusted_p_value}
        return {**given, **p_values, "significant": self.is_significant}


@dataclass(frozen=True)
class GroupResult:
    """One group of samples.

    Attributes:
        name: Its name.
        evaluation: Its metrics, as if it were evaluated alone.
        gap: Whether its mean confidence − accuracy differs from that of all other samples.
        error: Whether its error does.
        calibration: The test of "perfectly calibrated".
    """

    name: str
    evaluation: Evaluation
    gap: GroupTest
    error: GroupTest
    calibration: GroupTest

    @property
    def findings(self) -> tuple[str, ...]:
        """The significant findings, in words."""
        found = []
        if self.calibration.is_significant:
            found.append("miscalibrated")
        if self.gap.is_significant and self.gap.difference is not None:
            side = "above" if self.gap.difference > 0 else "below"
            how = f"{side} the rest" if self.has_worse_gap else "nearer to 0 than the rest"
            found.append(f"{_short_gap(self.evaluation)} {how}")
        if self.error.is_significant and self.error.difference is not None:
            found.append(f"error {'above' if self.error.difference > 0 else 'below'} the rest")
        return tuple(found)

    @property
    def has_worse_gap(self) -> bool:
        """True if its mean gap is significantly further from 0 than that of the rest, which is not off itself."""
        test = self.gap
        if not test.is_significant or test.difference is None or test.value is None:
            return False
        return abs(test.value) > abs(test.value - test.difference)

    @property
    def has_worse_error(self) -> bool:
        """True if its error is significantly larger than that of the rest."""
        return self.error.is_significant and (self.error.difference or 0.0) > 0

    @property
    def is_worse(self) -> bool:
        """True if something is known to be wrong with it; a group may also differ because the rest is off."""
        return self.calibration.is_significant or self.has_worse_gap or self.has_worse_error

    @property
    def severity(self) -> tuple[float, float, float]:
        """Amount that is known to be wrong with it; small groups do not come first because of their noise."""
        low, _ = self.evaluation.intervals.get("ece", (math.nan, math.nan))
        at_least = 0.0 if math.isnan(low) or not self.calibration.is_significant else low
        gap = abs(self.gap.difference or 0.0) if self.has_worse_gap else 0.0
        error = (self.error.difference or 0.0) if self.has_worse_error else 0.0
        return at_least, gap, error

    def to_dict(self) -> dict[str, Any]:
        """Return everything in lists, dicts and numbers."""
        tests = {name: getattr(self, name).to_dict() for name in ("gap", "error", "calibration")}
        return {**self.evaluation.to_dict(), "tests": tests, "findings": list(self.findings), "is_worse": self.is_worse}


@dataclass(frozen=True)
class GroupTable:
    """The groups of one column, such as region.

    Attributes:
        column: Its name.
        results: The groups by name.
        notes: Sentences about what was left out, and why.
    """

    column: str
    results: Mapping[str, GroupResult]
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, Evaluation]:
        """Every group's metrics."""
        return {name: result.evaluation for name, result in self.results.items()}

    @property
    def _of(self) -> Of:
        return next((one.evaluation.of for one in self.results.values()), "top")

    @property
    def _event(self) -> str | None:
        return next((one.evaluation.event for one in self.results.values()), None)

    @property
    def worst(self) -> GroupResult | None:
        """The group of which most is known to be wrong; None where nothing is."""
        found = [result for result in self.results.values() if result.is_worse]
        return max(found, key=lambda result: (result.severity, result.evaluation.n), default=None)

    def ordered(self) -> list[GroupResult]:
        """Return all groups: the worst first, then by the number of samples."""
        return sorted(
            self.results.values(),
            key=lambda one: (one.is_worse, one.severity, one.evaluation.n),
            reverse=True,
        )

    @property
    def verdict(self) -> str:
        """In words: which groups stand out, and the worst one."""
        results, start = list(self.results.values()), f"By {self.column} ({_count_words(len(self.results), 'group')})"
        if all(math.isnan(one.calibration.p_value) for one in results):
            return f"{start}: too few samples in each to test any."
        failed = [one.name for one in results if one.calibration.is_significant]
        parts = [
            f"{_join_names(failed)} {'fails' if len(failed) == 1 else 'fail'} the test of calibration"
            if failed
            else "no group fails the test of calibration"
        ]
        gap = describe_metric("signed_gap", self._of, self._event).title
        for names, what in (
            (
                [one.name for one in results if one.has_worse_gap],
                f"significantly further from 0 in {gap} than the rest",
            ),
            ([one.name for one in results if one.has_worse_error], "significantly higher in error than the rest"),
        ):
            if names:
                parts.append(f"{_join_names(names)} {'is' if len(names) == 1 else 'are'} {what}")
        better = [one.name for one in results if one.findings and not one.is_worse]
        if better:
            parts.append(
                f"{_join_names(better)} {'differs' if len(better) == 1 else 'differ'} from the rest for the better"
            )
        if len(parts) == 1:
            parts.append("none differs significantly from the rest")
        worst = "" if self.worst is None else f" Worst: {_describe(self.worst)}."
        return f"{start}: {'; '.join(parts)}.{worst}"

    def rows(self, metrics: Sequence[str] | None = None) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the rows of a table for people, the worst groups first, at most 40.

        Args:
            metrics: Its columns; None for the usual ones.
        """
        results = self.ordered()[:MOST_ROWS]
        names = [name for name in metrics or TABLE_METRICS if any(name in one.evaluation.values for one in results)]
        headings = [
            self.column,
            "finding",
            "n",
            *(describe_metric(name, self._of, self._event).heading for name in names),
        ]
        return headings, [
            [
                one.name,
                "; ".join(one.findings),
                f"{one.evaluation.n:,}",
                *(_cell(one.evaluation, name) for name in names),
            ]
            for one in results
        ]

    def sentences(self) -> list[str]:
        """Return the verdict, what the table leaves out, and the notes."""
        hidden = len(self.results) - MOST_ROWS
        cut = [f"The table shows {MOST_ROWS} of {len(self.results):,} groups, the worst first."] if hidden > 0 else []
        return [self.verdict, *cut, *self.notes]

    def to_markdown(self, metrics: Sequence[str] | None = None) -> str:
        """Return a table with one group per row, and the verdict."""
        headings, rows = self.rows(metrics)
        return "\n\n".join([markdown_table(headings, rows, left=2), *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        """Return everything in lists, dicts and numbers that JSON has."""
        content: dict[str, Any] = null_for_nan(
            {
                "groups": {name: result.to_dict() for name, result in self.results.items()},
                "worst": None if self.worst is None else self.worst.name,
                "verdict": self.verdict,
                "notes": list(self.notes),
            }
        )
        return content


def _short_gap(evaluation: Evaluation) -> str:
    return describe_metric("signed_gap", evaluation.of, evaluation.event).title.removeprefix("mean ")


def _describe(result: GroupResult) -> str:
    found = result.evaluation
    parts = [", ".join(result.findings)]
    for name in ("signed_gap", "error", "ece"):
        if name in found.values:
            metric = describe_metric(name, found.of, found.event)
            parts.append(f"{metric.title} {metric.format(found.values[name])}")
    return f"{result.name} ({'; '.join(parts)}; n = {found.n:,})"


def _join_names(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _count_words(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cell(evaluation: Evaluation, metric: str) -> str:
    if metric not in evaluation.values:
        return ""
    low, high = evaluation.intervals.get(metric, (math.nan, math.nan))
    value = METRICS[metric].format(evaluation.values[metric])
    return value if math.isnan(low) else f"{value} [{METRICS[metric].format(low)}, {METRICS[metric].format(high)}]"
