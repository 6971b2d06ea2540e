"""The paired permutation test: how surprising a difference is if predictions were interchangeable sample by sample.

Each permutation swaps the two predictions of some samples. The p-value is the share of permutations whose difference is
at least as large, in size, as the one observed.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows
from focalcal.metrics.bootstrap.counts import BLOCK_BYTES, Counts
from focalcal.metrics.bootstrap.replicates import Resampler
from focalcal.metrics.bootstrap.sample_groups import resampler_of
from focalcal.metrics.catalogue import CONFIDENT, TOP_K
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.samples import SampleStatistics
from focalcal.predictions import Predictions

Array = npt.NDArray[np.float64]
Swaps = npt.NDArray[np.uint8]
Counted = npt.NDArray[np.bool_]

# Sums in another order differ by rounding: a difference within this much of the observed one is as large.
_ROUNDING = 1e-12


def random_swaps(n: int, permutations: int, seed: int, block: int | None = None) -> Iterator[Swaps]:
    """Toss a coin per sample and permutation: yields (n, up to ``block``) zeros and ones.

    The tosses depend on the seed alone, not on ``block``; they are not those of a bootstrap with the same seed.
    """
    generator = np.random.default_rng([seed, 1])
    block = block or chunk_rows(4 * n, BLOCK_BYTES)
    for start in range(0, permutations, block):
        bits = [np.frombuffer(generator.bytes(-(-n // 8)), np.uint8) for _ in range(min(block, permutations - start))]
        yield np.ascontiguousarray(np.unpackbits(np.stack(bits), axis=1, count=n).T)


def every_swap(which: Counted) -> Swaps:
    """Return (n, 2^d) all ways of swapping some of the d samples in ``which``; the first swaps none.

    Examples:
        >>> every_swap(np.array([True, False, True])).T.tolist()
        [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]]
    """
    d = int(which.sum())
    swaps = np.zeros((len(which), 2**d), dtype=np.uint8)
    swaps[which] = (np.arange(2**d) >> np.arange(d)[:, None]) & 1
    return swaps


def p_values(
    a: Predictions,
    b: Predictions,
    metrics: Sequence[str],
    permutations: int,
    seed: int,
    bins: int,
    statistics: tuple[SampleStatistics, SampleStatistics],
) -> dict[str, float]:
    """Compute two-sided p-values of the differences between two models, by metric.

    Exact for error, accuracy, top-5 accuracy and the confident share of samples of equal weight, whose differences
    under swaps are binomial; and for every metric where there are no more ways of swapping those samples whose
    predictions differ than ``permutations``. Otherwise (1 + hits) / (1 + permutations), with permutations on which a
    metric is undefined among the hits. Of more than 16,384 samples, 512 groups dealt at random are swapped as wholes:
    if samples are interchangeable, so are groups of them.

    Args:
        a: N predictions.
        b: Predictions of the same samples in the same order (see `focalcal.metrics.bootstrap.pairing`).
        metrics: Names out of `RESAMPLED_METRICS`.
        permutations: Number of permutations.
        seed: Seed for the permutations.
        bins: Number of bins of the binned metrics.
        statistics: Statistics of ``a`` and of ``b``.

    Returns:
        A number in (0, 1] for each metric; NaN where the difference itself is undefined.
    """
    # Samples of a cluster are not interchangeable one by one.
    found = {} if cluster_numbers(a) is not None else _binomial(metrics, statistics)
    others = [name for name in metrics if name not in found]
    if others:
        resampler, counted = resampler_of([a, b], others, bins, statistics, seed)
        differ = counted & _differ(a, b) if len(counted) == len(a) else counted
        few = 2 ** min(int(differ.sum()), 63) <= permutations
        swaps = iter([every_swap(differ)]) if few else random_swaps(len(counted), permutations, seed)
        found |= _count_hits(resampler, counted, swaps, added=0 if few else 1)
    return {name: found[name] for name in metrics}


def _count_hits(resampler: Resampler, counted: Counted, swaps: Iterator[Swaps], added: int) -> dict[str, float]:
    """(added + hits) / (added + permutations) of each metric."""
    observed = _differences(resampler, counted, np.zeros((len(counted), 1), dtype=np.uint8))
    hits, total = dict.fromkeys(observed, added), added
    for block in swaps:
        total += block.shape[1]
        for name, difference in _differences(resampler, counted, block).items():
            smaller = np.abs(difference) < np.abs(observed[name][0]) - _ROUNDING
            hits[name] += int(np.sum(~smaller))
    return {name: hits[name] / total if not np.isnan(observed[name][0]) else float("nan") for name in observed}


def _differences(resampler: Resampler, counted: Counted, swaps: Swaps) -> dict[str, Array]:
    """Compute metrics of the first model less those of the second, (B,) each, after swaps (N, B)."""
    kept = counted[:, None] & (swaps == 0)
    swapped = counted[:, None] & (swaps == 1)
    first, second = resampler.values_of_swaps(_interleave(kept, swapped), _interleave(swapped, kept))
    with np.errstate(invalid="ignore"):
        return {name: first[name] - second[name] for name in first}


def _interleave(of_a: Counted, of_b: Counted) -> Counts:
    return np.stack([of_a, of_b], axis=1).reshape(-1, of_a.shape[1]).astype(np.uint8)


def _differ(a: Predictions, b: Predictions) -> Counted:
    """Return (N,) where a swap changes anything."""
    blocks = zip(a.blocks(), b.blocks(), strict=True)
    return torch.cat([(x.probs().double() != y.probs().double()).any(dim=1) for x, y in blocks]).numpy()


def _binomial(metrics: Sequence[str], statistics: tuple[SampleStatistics, SampleStatistics]) -> dict[str, float]:
    """Compute exact p-values of the metrics that are shares of samples, where all count the same."""
    a, b = statistics
    used = torch.ones_like(a.correct) if a.weight is None else a.weight > 0
    if a.weight is not None and a.weight[used].min() < a.weight[used].max():
        return {}
    shares: dict[str, Callable[[SampleStatistics], Tensor]] = {
        "error": lambda s: s.right,
        "accuracy": lambda s: s.right,
        "top_5_accuracy": lambda s: s.rank < TOP_K,
        "confident_share": lambda s: s.confidence >= CONFIDENT,
    }
    return {name: sign_test(shares[name](a)[used], shares[name](b)[used]) for name in metrics if name in shares}


def sign_test(a: Tensor, b: Tensor) -> float:
    """Compute the exact two-sided p-value (McNemar) of as uneven a split of samples with only one of two properties.

    Args:
        a: (N,) bool.
        b: (N,) bool.

    Examples:
        >>> sign_test(torch.tensor([True, True, True, False]), torch.tensor([False, False, False, False]))
        0.25
    """
    from scipy.stats import binomtest  # importing scipy.stats takes half a second

    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
