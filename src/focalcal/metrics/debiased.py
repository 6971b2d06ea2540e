"""The debiased calibration error (L2) of Kumar, Liang & Ma (2019): what is left of binned gaps after their noise.

In each bin the squared gap between mean confidence and accuracy a is too large by the variance of a, on average. That
variance is estimated without bias by a(1 − a)/(n_b − 1) and taken off:

    debiased = sqrt(max(0, Σ_b n_b/n · [(confidence_b − a_b)² − a_b (1 − a_b)/(n_b − 1)]))

Bins have equal mass, as in AdaECE, except that samples of equal confidence stay together, in the lower of two bins, so
that the result does not depend on the order of the samples. A bin with one sample says nothing about its own variance
and counts as 0. This is what the authors' package computes.
"""

import torch
from torch import Tensor

from focalcal.metrics.binning import BinSums, equal_mass_bounds, equal_mass_cuts
from focalcal.metrics.statistics import ConfidenceSamples, sample_statistics
from focalcal.predictions import Predictions


def debiased_ece(preds: Predictions, bins: int = 15) -> float:
    """Debiased L2 calibration error of the top-label confidence.

    Comparable with the root mean square of binned gaps, not with ECE, which is a mean of absolute gaps. It is 0 where
    the gaps are no larger than chance makes them.

    Args:
        preds: predictions. With weights, n_b is the effective number (Σw)²/Σw² of the bin, so that the scale of the
            weights does not matter.
        bins: number of bins.

    Returns:
        A number between 0 and 1.

    Examples:
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(8, 2)
        >>> debiased_ece(Predictions.from_probs(probs, torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])))  # right in 0.75 of 8
        0.0
        >>> round(debiased_ece(Predictions.from_probs(probs, torch.ones(8, dtype=torch.int64))), 6)  # never right
        0.75
    """
    return debiased_ece_from_statistics(sample_statistics(preds), bins)


def debiased_ece_from_statistics(statistics: ConfidenceSamples, bins: int = 15) -> float:
    """`debiased_ece` from what `sample_statistics` gives."""
    confidence, correct, weight = statistics.confidence, statistics.correct, statistics.weight
    if weight is not None:
        used = weight > 0
        confidence, correct, weight = confidence[used], correct[used], weight[used]
    confidence, order = confidence.sort()
    weight = None if weight is None else weight[order]
    bounds = _bounds_between_ties(confidence, _positions(weight, len(order), bins))
    terms = [confidence, correct[order].double()]
    if weight is None:
        return float(debiased_ece_of_sums(BinSums(bounds.diff(), *(_between(bounds, term) for term in terms))))
    count, squared, *sums = (_between(bounds, term) for term in (weight, weight**2, *(weight * x for x in terms)))
    return float(debiased_ece_of_sums(BinSums(count, *sums), squared))


def debiased_ece_of_sums(sums: BinSums, squared_weight: Tensor | None = None) -> Tensor:
    """Debiased L2 calibration error of given bins.

    Args:
        sums: (…, bins) counts, confidence and correctness; a bootstrap may have leading dimensions.
        squared_weight: (…, bins) Σw² where samples have weights, else None.

    Returns:
        (…) float64; NaN without samples.
    """
    count = sums.count.double()
    divisor = count.where(count > 0, torch.ones_like(count))
    accuracy = sums.correct.double() / divisor
    effective = count if squared_weight is None else count.square() / squared_weight.where(count > 0, divisor)
    # Rounding may put the effective number of one weighted sample a hair above 1.
    several = effective > 1 + 1e-12
    noise = accuracy * (1 - accuracy) / (effective - 1).where(several, torch.ones_like(count))
    excess = ((sums.gap / divisor).square() - noise).where(several, torch.zeros_like(count))
    return ((count * excess).sum(-1) / count.sum(-1)).clamp(min=0).sqrt()


def _positions(weight: Tensor | None, n: int, bins: int) -> Tensor:
    """(bins + 1,) cuts of sorted samples; with weights, at the same fractions of the total, between whole samples."""
    if weight is None:
        return equal_mass_bounds(n, bins)
    centres = weight.cumsum(0) - weight / 2
    positions = torch.searchsorted(centres, equal_mass_cuts(weight, bins))
    positions[-1] = n
    return positions


def _bounds_between_ties(confidence: Tensor, positions: Tensor) -> Tensor:
    """Move each cut inside a run of equal (sorted) values up to the end of that run."""
    last = confidence[(positions - 1).clamp(min=0)]
    moved = torch.searchsorted(confidence, last, right=True)
    return moved.where(positions > 0, torch.zeros_like(positions))


def _between(bounds: Tensor, values: Tensor) -> Tensor:
    """Sums of values (N,) from each bound to the next, float64: (len(bounds) − 1,)."""
    return torch.stack([part.sum() for part in values.tensor_split(bounds[1:-1])])
