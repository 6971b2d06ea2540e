"""The test of perfect calibration: how likely chance alone would give an ECE as large."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from focalcal.metrics.binning import check_bins
from focalcal.metrics.gap_intervals import AbsoluteGaps, Interval
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.samples import confidence_samples
from focalcal.predictions import Predictions

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
    expected: Interval

    @property
    def is_significant(self) -> bool:
        """Whether the ECE is above what 95% of perfectly calibrated models would show."""
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


def calibration_test(preds: Predictions, *, bins: int = 15, seed: int = 0) -> CalibrationTest:
    """Test whether predictions may be perfectly calibrated.

    A small p-value says that they are not. A large one says that this many samples do not show it, not that they are.

    Args:
        preds: Predictions with labels.
        bins: Number of bins of equal width of the ECE.
        seed: Seed for the draws.

    Examples:
        >>> import torch
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(400, 2)
        >>> calibration_test(Predictions.from_probs(probs, torch.arange(400) % 4 == 0)).p_value > 0.9
        True
        >>> calibration_test(Predictions.from_probs(probs, torch.arange(400) % 2)).p_value < 0.001
        True
    """
    check_bins(bins)
    return judge_gaps(HonestIntervals(SampledGaps(confidence_samples(preds), bins), seed).binned)


def judge_gaps(gaps: AbsoluteGaps) -> CalibrationTest:
    """Test the gaps of ECE."""
    null = gaps.null
    low, high = np.quantile(null, [0.05, 0.95])
    # Rounding makes of equal sums slightly unequal ones.
    p_value = (1 + int((null >= gaps.value - 1e-12).sum())) / (1 + len(null))
    return CalibrationTest(p_value, gaps.value, (float(low), float(high)))
