"""The temperature of a grid with the least ECE, exactly, without trying most of the grid.

The ECE is at least |mean confidence − accuracy| (the bins' gaps are summed without their signs), and each sample's
confidence falls as T grows. So from the T at which the mean confidence meets the accuracy one goes outwards, and once
that lower bound is above the best ECE so far, nothing farther out can be better.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from focalcal.calibrators.scaled_scores import ScaledScores
from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.predictions import Predictions

# Rows for the first guess at where the mean confidence meets the accuracy.
_SAMPLE_ROWS = 1024
# Far above what float64 sums lose, far below any difference of ECE that matters.
_SLACK = 1e-9


def fit_temperature_on_grid(preds: Predictions, grid: Sequence[float], bins: int) -> float:
    """The T of ``grid`` at which softmax(z / T) has the least ECE, the first in the grid's order on ties.

    Args:
        preds: N predictions; soft labels count as their most probable class, weights count.
        grid: positive temperatures in any order.
        bins: the number of bins.

    Examples:
        >>> preds = Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])  # right 3 times of 4: T = 3.64 is best
        >>> fit_temperature_on_grid(preds, [1.0, 3.0, 3.7, 5.0], bins=15)
        3.7
    """
    if preds.weights is not None:
        preds = preds.select(preds.weights > 0)
    scores, ascending = ScaledScores.of(preds), sorted(set(grid))
    sample = scores.every(max(1, len(preds) // _SAMPLE_ROWS))
    start = bisect_left(ascending, True, key=lambda temperature: _gap_and_error(sample, temperature, bins)[0] <= 0)
    errors: dict[float, float] = {}
    if scores.behind is not None:  # the confidence of an answer behind a masked class grows with T
        errors = {temperature: _gap_and_error(scores, temperature, bins)[1] for temperature in ascending}
        return float(min(grid, key=errors.__getitem__))
    _walk(scores, bins, ascending[start:], errors, outwards=-1)
    _walk(scores, bins, reversed(ascending[:start]), errors, outwards=1)
    # In the order of the user's grid, so that the first minimum is theirs.
    return float(min((temperature for temperature in grid if temperature in errors), key=errors.__getitem__))


def _walk(
    scores: ScaledScores, bins: int, temperatures: Iterable[float], errors: dict[float, float], outwards: int
) -> None:
    """Fill in ``errors`` until the signed gap, growing in direction ``outwards``, rules out everything that follows."""
    for temperature in temperatures:
        gap, errors[temperature] = _gap_and_error(scores, temperature, bins)
        if outwards * gap > min(errors.values()) + _SLACK:
            return


def _gap_and_error(scores: ScaledScores, temperature: float, bins: int) -> tuple[float, float]:
    """Mean confidence − accuracy, and ECE, in float64: a rounded confidence could fall into another bin."""
    sums = equal_width_sums(scores.confidence(temperature), scores.correct, bins, scores.weight)
    return float(sums.gap.sum() / sums.count.sum()), mean_gap(sums)
