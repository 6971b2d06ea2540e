"""A thing worth saying about a file, and what it is looked for in."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from focalcal.metrics.statistics import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions, PredictionsFile

Severity = Literal["problem", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """Something about a file.

    Attributes:
        severity: a problem makes numbers wrong, a warning may, an info is only worth knowing.
        name: short and stable, for programs.
        what: a sentence that says what was found.
        advice: a sentence that says what to do; empty where nothing is to be done.
    """

    severity: Severity
    name: str
    what: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"severity": self.severity, "name": self.name, "what": self.what, "advice": self.advice}


@dataclass(frozen=True)
class Examined:
    """Predictions under examination.

    Attributes:
        file: where they come from.
        preds: all of them, or the first ones of a very large file.
        is_part: whether the file has more.
        reading: the options that the file was read with.
        bins: of the ECE that the number of samples is judged for.
    """

    file: PredictionsFile
    preds: Predictions
    is_part: bool
    reading: Mapping[str, Any]
    bins: int

    @cached_property
    def statistics(self) -> SampleStatistics:
        """Per-sample numbers, in one pass."""
        return sample_statistics(self.preds)


def share(part: int, whole: int) -> str:
    """A share in percent, which is never rounded to all or nothing.

    Examples:
        >>> share(1, 10000), share(9999, 10000), share(5, 5)
        ('0.01%', '99.99%', '100%')
    """
    percent = 100 * part / whole
    digits = 0 if part in (0, whole) else 1 if 0.1 <= percent <= 99.9 else 2
    return f"{percent:.{digits}f}%"
