"""Results of `evaluate` and `Accumulator.compute`: numbers with their intervals and bounds, to read or to write out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from focalcal.base.files import null_for_nan
from focalcal.base.measures import Of, measure
from focalcal.metrics.catalogue import METRICS, IntervalMethod, describe_metric

if TYPE_CHECKING:
    from focalcal.metrics.group_results import GroupTable

# A p-value up to this says that predictions are miscalibrated.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class CalibrationTest:
    """The test of "perfectly calibrated", with the ECE as its statistic.

    Attributes:
        p_value: Probability that a perfectly calibrated model with these confidences would show an ECE as large.
        ece: The ECE.
        expected: The range that 90% of such models would show: the 5% and the 95% quantile.
    """

    p_value: float
    ece: float
    expected: tuple[float, float]

    @property
    def is_significant(self) -> bool:
        """True if the ECE is above what 95% of perfectly calibrated models would show."""
        return self.p_value <= SIGNIFICANT

    @property
    def p_text(self) -> str:
        """The p-value for people.

        Examples:
            >>> CalibrationTest(0.412, 0.01, (0.0, 0.02)).p_text, CalibrationTest(0.00025, 0.1, (0.0, 0.02)).p_text
            ('p = 0.41', 'p < 0.001')
        """
        return "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"

    @property
    def range_text(self) -> str:
        """The range that a perfectly calibrated model would show, for people."""
        low, high = (f"{100 * end:.2f}%" for end in self.expected)
        return f"{low} to {high}"

    @property
    def facts(self) -> str:
        """The ECE, and what a perfectly calibrated model would show, for people."""
        return (
            f"ECE is {100 * self.ece:.2f}%; a perfectly calibrated model would show {self.range_text} on these samples "
            "(5% to 95%)"
        )

    def __str__(self) -> str:
        found = "the model is miscalibrated" if self.is_significant else "no miscalibration detected"
        return f"{self.facts}: {found} ({self.p_text})."

    def to_dict(self) -> dict[str, Any]:
        """Return everything in numbers and lists."""
        return {"p_value": self.p_value, "ece": self.ece, "expected": list(self.expected)}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics by name: fractions or nats, NaN where one is undefined.

    Attributes:
        values: The metrics; ``evaluation["ece"]`` is one of them.
        n: The number of samples that count.
        num_classes: K.
        bins: The number of bins of binned metrics.
        intervals: (low, high) of those metrics that have an interval.
        level: Level of the intervals; None without intervals.
        bounds: How far from the exact value a metric may be, where it is not computed exactly.
        notes: Sentences about what was left out or approximated, and why.
        methods: How the interval of each metric was made: ``"honest"``, ``"basic"``, ``"percentile"``, ``"bca"``, or
            ``"normal"`` for means of data that was not kept, and for shares of 0 or 1, of which resamples show nothing.
        calibration_test: The test of "perfectly calibrated"; None where there is no ECE.
        of: What calibration was measured of, as in ``Predictions``.
        by: Tables of groups by the name of their column; see `groups`.
        event: What class 1 is called, where predictions are its score and it has a name.

    Examples:
        >>> evaluation = Evaluation({"ece": 0.031, "mce": float("nan")}, n=100, num_classes=2, bins=15)
        >>> evaluation
        Evaluation of 100 samples, 2 classes, 15 bins; calibration of the predicted class
          ECE  0.0310
          MCE       –
        >>> evaluation["ece"]
        0.031
        >>> evaluation.to_dict()["values"]
        {'ece': 0.031, 'mce': None}
    """

    values: Mapping[str, float]
    n: int
    num_classes: int
    bins: int
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    level: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    calibration_test: CalibrationTest | None = None
    of: Of = "top"
    by: Mapping[str, GroupTable] = field(default_factory=dict)
    event: str | None = None

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    @property
    def groups(self) -> dict[str, Evaluation]:
        """Every group's own evaluation by its name, or by ``column=name`` where there are several columns."""
        if len(self.by) == 1:
            return next(iter(self.by.values())).groups
        tables = self.by.items()
        return {f"{column}={name}": found for column, table in tables for name, found in table.groups.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return everything in lists, dicts and numbers that JSON has: NaN and infinite numbers become None."""
        content: dict[str, Any] = null_for_nan(
            {
                "n": self.n,
                "of": self.of,
                "measured": measure(self.of, self.event).sentence,
                "num_classes": self.num_classes,
                "bins": self.bins,
                "level": self.level,
                "values": self.values,
                "intervals": self.intervals,
                "interval_methods": self.methods,
                "calibration_test": None if self.calibration_test is None else self.calibration_test.to_dict(),
                "bounds": self.bounds,
                "notes": self.notes,
            }
        )
        by = {column: table.to_dict() for column, table in self.by.items()}
        return {**content, "by": by} if by else content

    def to_markdown(self) -> str:
        """Return a table with one metric per row.

        Examples:
            >>> print(Evaluation({"ece": 0.031}, 100, 2, 15, {"ece": (0.01, 0.05)}, level=0.9).to_markdown())
            | metric | value | 90% interval |
            |:--|--:|:--|
            | ECE | 0.0310 | 0.0100 – 0.0500 |
        """
        columns = 3 if self.intervals else 2
        rows = [("metric", "value", f"{self._percent} interval"), *self._rows()]
        lines = [f"| {' | '.join(row[:columns])} |" for row in rows]
        lines.insert(1, "|:--|--:|:--|" if self.intervals else "|:--|--:|")
        tables = [f"\n{table.to_markdown()}" for table in self.by.values()]
        return "\n".join([*lines, *(f"\n{note}" for note in self._sentences(with_groups=False)), *tables])

    def __repr__(self) -> str:
        rows = self._rows()
        title, number = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
        with_intervals = f", {self._percent} intervals" if self.intervals else ""
        classes = "" if self.of == "confidence" else f", {self.num_classes} classes"
        size = f"{self.n:,} samples{classes}, {self.bins} bins{with_intervals}"
        lines = [f"Evaluation of {size}; calibration of {measure(self.of, self.event).title}"]
        lines += [f"  {row[0]:{title}}  {row[1]:>{number}}  {row[2]}".rstrip() for row in rows]
        return "\n".join([*lines, *(f"  {note}" for note in self._sentences())])

    def _sentences(self, with_groups: bool = True) -> list[str]:
        verdicts = [table.verdict for table in self.by.values() if with_groups]
        return [*([] if self.calibration_test is None else [str(self.calibration_test)]), *verdicts, *self.notes]

    @property
    def _percent(self) -> str:
        return "" if self.level is None else f"{100 * self.level:g}%"

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (
                describe_metric(name, self.of, self.event).heading if name in METRICS else name,
                _text(value),
                _interval_text(self.intervals.get(name)),
            )
            for name, value in self.values.items()
        ]


def _text(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:.4f}"


def _interval_text(interval: tuple[float, float] | None) -> str:
    return "" if interval is None or math.isnan(interval[0]) else f"{_text(interval[0])} – {_text(interval[1])}"


@dataclass(frozen=True)
class EvaluationRequest:
    """The metrics wanted, and how.

    Attributes:
        names: The metrics, in the order wanted.
        by_name: Whether they were named, or are all that there are.
        bins: Number of bins of binned metrics.
        intervals: Whether there are to be intervals.
        method: How; None for each metric's default.
        resamples: Number of resamples for those that are made of them; 0 for none of those.
        level: Level of the intervals.
        seed: Seed for the draws.
        by: Columns of groups that are evaluated each on its own.
    """

    names: tuple[str, ...]
    by_name: bool
    bins: int
    intervals: bool
    method: IntervalMethod | None
    resamples: int
    level: float
    seed: int
    by: tuple[str, ...] = ()

    def methods(self) -> dict[str, IntervalMethod]:
        """Return how the interval of each metric is to be made; those that get none are not there."""
        found = {name: self._method(METRICS[name].default_method) for name in self.names}
        return {name: method for name, method in found.items() if method is not None}

    def _method(self, default: IntervalMethod | None) -> IntervalMethod | None:
        if default is None or not self.intervals:
            return None
        if self.method == "honest":
            return "honest" if default == "honest" else None
        method = self.method or default
        return method if method == "honest" or self.resamples else None

    def select(self, evaluation: Evaluation) -> Evaluation:
        """Return only what is wanted, in its order."""
        values, bounds = evaluation.values, evaluation.bounds
        return replace(
            evaluation,
            values={name: values[name] for name in self.names if name in values},
            bounds={name: bounds[name] for name in self.names if name in bounds},
        )
