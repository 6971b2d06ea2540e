"""Bins of equal width: which one a probability belongs to, what falls into each, and the gaps that ECE and MCE are.

Bins are (lower, upper] and their edges are the doubles i/M: a value equal to an edge belongs to the bin that ends
there, 0 belongs to the first bin and 1 to the last. A float32 value is compared as the double that it is, so that the
same number falls into the same bin whatever type carries it.
"""

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_MOST_BINS = 10_000
# Far more than the rounding of a product of at most 10,000.
_ROUNDED = 1e-9


def edges(bins: int) -> Tensor:
    """Return the M + 1 edges of M bins of equal width, as the doubles i/M.

    Args:
        bins: The number of bins M, at least 1.

    Returns:
        A float64 tensor of shape (M + 1,).

    Examples:
        >>> edges(4).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_bins(bins)
    return torch.arange(bins + 1, dtype=torch.float64) / bins


def check_bins(bins: int) -> None:
    """Raise unless the number of bins is a whole number from 1 to 10,000: more would fill the memory, not a diagram."""
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise TypeError(f"the number of bins must be an integer, not {type(bins).__name__}: pass for example bins=15.")
    if bins < 1:
        raise ValueError(f"the number of bins must be at least 1, not {bins}: pass for example bins=15.")
    if bins > _MOST_BINS:
        raise ValueError(f"the number of bins must be at most {_MOST_BINS:,}, not {bins:,}: pass for example bins=15.")


def bin_index(p: Tensor, bins: int) -> Tensor:
    """Return the bin, 0 … M − 1, of every probability: the m with m/M < p ≤ (m + 1)/M, and 0 for p = 0.

    Args:
        p: Probabilities in [0, 1], of any shape and float type.
        bins: The number of bins M.

    Returns:
        An int64 tensor of the shape of ``p``.

    Examples:
        >>> bin_index(torch.tensor([0.0, 0.25, 0.26, 1.0]), bins=4).tolist()
        [0, 0, 1, 3]
    """
    p = p.double().contiguous()
    place = p * bins
    index = place.ceil().sub_(1).clamp_(0, bins - 1).long()
    # A product so near an edge may have been rounded onto its wrong side: only there (and for NaN) edges are compared.
    near = ~((place - place.round()).abs_() >= _ROUNDED)
    if bool(near.any()):
        index[near] = torch.bucketize(p[near], _inner_edges(bins))
    return index


@cache
def _inner_edges(bins: int) -> Tensor:
    return edges(bins)[1:-1]


def equal_mass_bounds(n: int, bins: int) -> Tensor:
    """Return where ``numpy.array_split`` cuts n samples into M parts: the first n mod M parts have one sample more.

    Args:
        n: Number of samples.
        bins: The number of parts M; where n < M the last M − n parts are empty.

    Returns:
        An int64 tensor of shape (M + 1,), from 0 to n.

    Examples:
        >>> equal_mass_bounds(8, bins=3).tolist()
        [0, 3, 6, 8]
    """
    check_bins(bins)
    part = torch.arange(bins + 1)
    return part * (n // bins) + part.clamp(max=n % bins)


@dataclass(frozen=True)
class BinSums:
    """Sums of each bin: shape (bins,) each, or (B, bins); whole numbers (int64) where no weights were given.

    Attributes:
        count: The number of samples, or their total weight (float64).
        confidence: The sum of their confidence, float64.
        correct: The number, or the total weight, of those that were right.
    """

    count: Tensor
    confidence: Tensor
    correct: Tensor

    @property
    def gap(self) -> Tensor:
        """Sum of confidence minus sum of correctness in each bin, float64; 0 in an empty bin."""
        return self.confidence - self.correct.double()


def sum_by_index(index: Tensor, size: int, values: Tensor | None = None) -> Tensor:
    """Add up ``values`` (or count) by ``index``: result (size,); int64 counts without values, else float64 sums."""
    if values is None:
        return torch.bincount(index, minlength=size)
    return torch.zeros(size, dtype=torch.float64).index_add_(0, index, values.double())


def bin_sums(index: Tensor, size: int, confidence: Tensor, correct: Tensor, weight: Tensor | None = None) -> BinSums:
    """Add up samples whose bins are known.

    Args:
        index: (N,) int64, the bin of each sample, below ``size``.
        size: Number of bins.
        confidence: (N,) of any float type.
        correct: (N,) bool.
        weight: (N,) float64, or None for one per sample.

    Examples:
        >>> index, confidence = torch.tensor([0, 1, 1]), torch.tensor([0.25, 0.75, 1.0])
        >>> sums = bin_sums(index, 2, confidence, torch.tensor([False, True, True]))
        >>> sums.count.tolist(), sums.confidence.tolist(), sums.correct.tolist()
        ([1, 2], [0.25, 1.75], [0, 2])
    """
    right = correct.bool()
    if weight is None:
        return BinSums(
            sum_by_index(index, size), sum_by_index(index, size, confidence), sum_by_index(index[right], size)
        )
    return BinSums(
        sum_by_index(index, size, weight),
        sum_by_index(index, size, confidence.double() * weight),
        sum_by_index(index[right], size, weight[right]),
    )


def equal_width_sums(confidence: Tensor, correct: Tensor, bins: int, weight: Tensor | None = None) -> BinSums:
    """Compute sums over M bins of equal width, for ECE and MCE; arguments as in `bin_sums`."""
    return bin_sums(bin_index(confidence, bins), bins, confidence, correct, weight)


def mean_gap(sums: BinSums) -> float:
    """Return Σ_m |confidence − correct| / Σ count: ECE of bins of equal width, AdaECE of bins of equal mass."""
    return as_number(sums.gap.abs().sum(-1) / sums.count.sum(-1))


def largest_gap(sums: BinSums) -> float:
    """max_m |confidence − correct| / count over the bins that are not empty, MCE; NaN if all are."""
    filled = sums.count > 0
    gaps = (sums.gap.abs() / sums.count).where(filled, sums.gap.new_zeros(()))
    return as_number(gaps.amax(-1).where(filled.any(-1), gaps.new_tensor(float("nan"))))


def as_number(value: Tensor | npt.NDArray[np.float64]) -> float:
    """Turn the value of one set of samples into a float; those of B resamples stay an array, whatever the type says."""
    return float(value) if value.ndim == 0 else cast(float, np.asarray(value))
