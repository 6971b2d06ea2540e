"""Findings about predictions, and the predictions that are looked at."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions

Severity = Literal["problem", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        severity: A problem makes numbers wrong, a warning may, an info is only worth knowing.
        name: Short and stable, for programs.
        what: A sentence that says what was found.
        advice: A sentence that says what to do; empty where nothing is to be done.
    """

    severity: Severity
    name: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} {self.advice}".rstrip()

    def to_dict(self) -> dict[str, str]:
        """Return the attributes, for JSON."""
        return {"severity": self.severity, "name": self.name, "what": self.what, "advice": self.advice}


@dataclass(frozen=True)
class Patient:
    """Predictions under examination.

    Attributes:
        preds: All of them, or the first ones of a very large file.
        bins: Number of bins of the ECE that the number of samples is judged for.
        logits_key: The name that logits were read by, or None where they come from no file.
    """

    preds: Predictions
    bins: int
    logits_key: str | None

    @cached_property
    def statistics(self) -> SampleStatistics:
        """Per-sample numbers, in one pass."""
        return sample_statistics(self.preds)


def share(part: int, whole: int) -> str:
    """Write a share in percent, which is never rounded to all or nothing.

    Examples:
        >>> share(1, 10000), share(9999, 10000), share(5, 5)
        ('0.01%', '99.99%', '100%')
    """
    percent = 100 * part / whole
    digits = 0 if part in (0, whole) else 1 if 0.1 <= percent <= 99.9 else 2
    return f"{percent:.{digits}f}%"
