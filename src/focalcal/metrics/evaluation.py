"""What `evaluate` and `Accumulator.compute` give: numbers with their intervals and bounds, to read or to write out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# In the order of tables: how often it is right, what it loses, how far confidence is off, how confident it is.
METRIC_TITLES: Mapping[str, str] = {
    "error": "error",
    "accuracy": "accuracy",
    "top_5_accuracy": "top-5 accuracy",
    "nll": "NLL (nats)",
    "brier": "Brier score",
    "ece": "ECE",
    "ece_floor": "ECE of a perfect model (floor)",
    "debiased_ece": "debiased ECE (L2)",
    "smooth_ece": "smooth ECE",
    "mce": "MCE",
    "ada_ece": "AdaECE",
    "classwise_ece": "classwise-ECE",
    "signed_gap": "mean confidence − accuracy",
    "nll_calibration": "NLL, calibration part",
    "nll_refinement": "NLL, refinement part",
    "brier_calibration": "Brier, calibration part",
    "brier_refinement": "Brier, refinement part",
    "mean_confidence": "mean confidence",
    "mean_confidence_right": "mean confidence, right",
    "mean_confidence_wrong": "mean confidence, wrong",
    "mean_entropy": "mean entropy (nats)",
    "mean_entropy_right": "mean entropy, right",
    "mean_entropy_wrong": "mean entropy, wrong",
    "confident_share": "confidence ≥ 0.99 (|S99|)",
    "confident_accuracy": "accuracy of |S99|",
}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics by name: fractions or nats, NaN where one is undefined.

    Attributes:
        values: the metrics.
        n: the number of samples that count.
        num_classes: K.
        bins: the number of bins of binned metrics.
        intervals: (low, high) of those metrics that have an interval.
        level: how often such an interval covers what it estimates; None without intervals.
        bounds: how far from the exact value a metric may be, where it is not computed exactly.
        notes: sentences about what was left out or approximated, and why.
        method: how the intervals were made; None without intervals.

    Examples:
        >>> evaluation = Evaluation({"ece": 0.031, "mce": float("nan")}, n=100, num_classes=2, bins=15)
        >>> evaluation
        Evaluation of 100 samples, 2 classes, 15 bins
          ECE  0.0310
          MCE       –
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
    method: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything in lists, dicts and numbers that JSON has: NaN and infinite numbers become None."""
        return {
            "n": self.n,
            "num_classes": self.num_classes,
            "bins": self.bins,
            "level": self.level,
            "method": self.method,
            "values": {name: _finite(value) for name, value in self.values.items()},
            "intervals": {name: [_finite(low), _finite(high)] for name, (low, high) in self.intervals.items()},
            "bounds": {name: _finite(bound) for name, bound in self.bounds.items()},
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """A table with one metric a row.

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
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def __repr__(self) -> str:
        rows = self._rows()
        title, number = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
        with_intervals = f", {self._percent} intervals" if self.intervals else ""
        lines = [f"Evaluation of {self.n:,} samples, {self.num_classes} classes, {self.bins} bins{with_intervals}"]
        lines += [f"  {row[0]:{title}}  {row[1]:>{number}}  {row[2]}".rstrip() for row in rows]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    @property
    def _percent(self) -> str:
        return "" if self.level is None else f"{100 * self.level:g}%"

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (METRIC_TITLES.get(name, name), _text(value), _interval_text(self.intervals.get(name)))
            for name, value in self.values.items()
        ]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _text(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:.4f}"


def _interval_text(interval: tuple[float, float] | None) -> str:
    return "" if interval is None or math.isnan(interval[0]) else f"{_text(interval[0])} – {_text(interval[1])}"
