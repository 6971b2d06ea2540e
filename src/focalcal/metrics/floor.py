"""The ECE that a perfectly calibrated model would show on this many samples with these confidences.

A finite sample is never exactly as accurate as it is confident, and ECE adds up absolute gaps, so it is above 0 even
for a perfect model. If sample i is right with probability f_i, its confidence, then

    floor = E[ Σ_b |Σ_{i in b} w_i (correct_i − f_i)| ] / Σ_i w_i ,   correct_i ~ Bernoulli(f_i), independent.

The number of right answers in a bin is then Poisson-binomial. We take its mean absolute deviation from the binomial
with the same mean and variance (counting right or wrong answers, whichever are rarer), for which de Moivre's formula is
exact: E|X − np| = 2ν C(n, ν) p^ν (1−p)^(n−ν+1) with ν = ⌊np⌋ + 1, written with Γ because n need not be whole. It is
exact where a bin's confidences are equal, and for one sample. With 15 bins it was within 5e-4 of the exact gap in every
bin tried, within 3e-5 from 10 samples in the bin on; a normal approximation is off by up to 0.1 and 0.008 there.
"""

import torch
from scipy.special import betaln
from torch import Tensor

from focalcal.metrics.arguments import takes_predictions
from focalcal.metrics.binning import as_number, bin_index, sum_by_index
from focalcal.metrics.samples import confidence_samples
from focalcal.metrics.sums import Measurable, Sums, get_sums


@takes_predictions
def ece_floor(preds: Measurable, *, bins: int = 15) -> float:
    """Compute the expected ECE of a perfectly calibrated model with the same confidences (formula: see the module).

    Args:
        preds: Predictions, of which only confidence and weights matter.
        bins: Number of bins of equal width, as for the ECE that it is compared with.

    Returns:
        A number between 0 and 1. An ECE near it does not show that the model is miscalibrated.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> probs = torch.tensor([[0.5, 0.5]]).expand(4, 2)  # |heads − 2| of four tosses is 0.75 on average
        >>> round(ece_floor(Predictions.from_probs(probs, torch.zeros(4, dtype=torch.int64))), 6)
        0.1875
    """
    if isinstance(preds, Sums):
        return as_number(ece_floor_of_sums(get_sums(preds, "chance")))
    samples = confidence_samples(preds)
    return as_number(ece_floor_of_sums(floor_sums(samples.confidence, bins, samples.weight)))


def floor_sums(confidence: Tensor, bins: int = 15, weight: Tensor | None = None, index: Tensor | None = None) -> Tensor:
    """Sum what the floor needs to know of each bin; sums of parts of the data add up to the whole's.

    Args:
        confidence: (N,) in [0, 1].
        bins: Number of bins of equal width.
        weight: (N,) non-negative, or None.
        index: (N,) the bins of the samples, where they are known already.

    Returns:
        (5, bins) float64: Σw, Σwq, Σw², Σw²q, Σw²q² with q = 1 − confidence.
    """
    index = bin_index(confidence, bins) if index is None else index
    doubt = 1 - confidence.double()
    if weight is None:
        count = sum_by_index(index, bins).double()
        first, second = (sum_by_index(index, bins, term) for term in (doubt, doubt.square()))
        return torch.stack([count, first, count, first, second])
    once, twice = weight.double(), weight.double().square()
    terms = (once, once * doubt, twice, twice * doubt, twice * doubt.square())
    return torch.stack([sum_by_index(index, bins, term) for term in terms])


def ece_floor_of_sums(sums: Tensor) -> Tensor:
    """Compute the floor from `floor_sums`.

    Args:
        sums: (…, 5, bins) float64.

    Returns:
        (…) float64; NaN without samples.
    """
    total, wrong, squares, wrong_first, wrong_second = sums.unbind(-2)
    rarely_wrong = 2 * wrong <= total
    right_first = squares - wrong_first
    mean = wrong.where(rarely_wrong, total - wrong)
    first = wrong_first.where(rarely_wrong, right_first)
    second = wrong_second.where(rarely_wrong, right_first - wrong_first + wrong_second)
    return _mean_deviation(mean, first, second).sum(-1) / total.sum(-1)


def _mean_deviation(mean: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """E|Σ w_i (x_i − q_i)| for x_i ~ Bernoulli(q_i), from Σwq, Σw²q and Σw²q²: a binomial count of steps of one size.

    With equal weights w the step is w. Otherwise it is the one that keeps the mean and the variance.
    """
    random = (first > 0) & (second < first) & (mean > 0)
    safe = torch.ones_like(mean)
    step = first.where(random, safe) / mean.where(random, safe)
    # Below 1e-12 the binomial is Poisson, and what is left of Σw²q² is rounding.
    p = (second / first.where(random, safe)).clamp(min=1e-12).where(random, safe / 2)
    expected = (mean / step).where(random, safe)
    n, v = expected / p, expected.floor() + 1
    log_deviation = (2 * v).log() + _log_binomial(n, v) + v * p.log() + (n - v + 1) * torch.log1p(-p)
    return (step * log_deviation.exp()).where(random, torch.zeros_like(mean))


def _log_binomial(n: Tensor, v: Tensor) -> Tensor:
    """Compute the logarithm of n over v, for real n > v − 1; accurate also where n is huge."""
    return -torch.log1p(n) - torch.from_numpy(betaln((n - v + 1).numpy(), (v + 1).numpy()))
