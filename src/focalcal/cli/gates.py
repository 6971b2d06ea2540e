"""Bounds that a metric must keep: ``--max-ece 0.02`` and the like, and what is said when one is not kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from focalcal.cli.packed_options import option
from focalcal.report.readings import READINGS, is_share

Side = Literal["max", "min"]

# The ones that most people need; the others work the same and would only hide these in the help.
_SHOWN = ("max_error", "max_nll", "max_ece", "max_ada_ece", "max_classwise_ece", "min_accuracy")
_PANEL = "Bounds (exit code 1 if one is not kept)"

GATE_OPTIONS = [
    option(
        f"{side}_{metric}",
        float | None,
        f"The {'largest' if side == 'max' else 'least'} {metric} to accept"
        + (", as a fraction." if is_share(metric) else "."),
        hidden=f"{side}_{metric}" not in _SHOWN,
        panel=_PANEL,
    )
    for metric in READINGS
    for side in ("max", "min")
]


@dataclass(frozen=True)
class Gate:
    """A bound that a metric must keep.

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
        lowest = -1.0 if self.metric == "signed_gap" else 0.0
        if is_share(self.metric) and not lowest <= self.limit <= 1:
            raise ValueError(
                f"{self.option} must lie between {lowest:g} and 1, as a fraction and not in percent; 0.02 is 2%."
            )
        if not math.isfinite(self.limit):
            raise ValueError(f"{self.option} needs a finite number.")

    @property
    def option(self) -> str:
        """As it was given on the command line."""
        return f"--{self.side}-{self.metric.replace('_', '-')} {repr(self.limit).removesuffix('.0')}"

    def is_met(self, value: float) -> bool:
        """Whether the bound is kept; a value that is undefined keeps none."""
        return value <= self.limit if self.side == "max" else value >= self.limit

    def failure(self, value: float) -> str:
        """One sentence that says which bound is not kept, and by which value."""
        if math.isnan(value):
            return f"{self.metric} is undefined on these predictions, so {self.option} is not kept."
        short = f"{value:.6g}"
        shown = short if float(short) != self.limit else repr(value)
        return f"{self.metric} is {shown}, {'above' if self.side == 'max' else 'below'} {self.option}."

    def to_dict(self, value: float) -> dict[str, Any]:
        """For JSON."""
        return {"metric": self.metric, self.side: self.limit, "value": value, "met": self.is_met(value)}


def chosen_gates(options: Mapping[str, float]) -> list[Gate]:
    """The gates of the options that were given.

    Examples:
        >>> chosen_gates({"max_ece": 0.02, "min_accuracy": 0.9})
        [Gate(metric='accuracy', side='min', limit=0.9), Gate(metric='ece', side='max', limit=0.02)]
    """
    sides: Sequence[Side] = ("max", "min")
    return [
        Gate(metric, side, options[f"{side}_{metric}"])
        for metric in READINGS
        for side in sides
        if f"{side}_{metric}" in options
    ]
