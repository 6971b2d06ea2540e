"""The test of perfect calibration: how likely chance alone would give an ECE as large."""

import numpy as np

from focalcal.metrics.arguments import takes_predictions
from focalcal.metrics.binning import check_bins
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.evaluation import CalibrationTest
from focalcal.metrics.gap_intervals import AbsoluteGaps
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.samples import confidence_samples
from focalcal.predictions import Predictions


@takes_predictions
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
    gaps = SampledGaps(confidence_samples(preds), bins, cluster_numbers(preds))
    return judge_gaps(HonestIntervals(gaps, seed).binned)


def judge_gaps(gaps: AbsoluteGaps) -> CalibrationTest:
    """Test the gaps of ECE."""
    null = gaps.null
    low, high = np.quantile(null, [0.05, 0.95])
    # Rounding makes of equal sums slightly unequal ones.
    p_value = (1 + int((null >= gaps.value - 1e-12).sum())) / (1 + len(null))
    return CalibrationTest(p_value, gaps.value, (float(low), float(high)))
