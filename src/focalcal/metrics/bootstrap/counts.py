"""Counts of each sample in each replicate: matrices of small whole numbers, made in blocks of replicates.

A block has shape (N, B), one column per replicate. A replicate is never written out as a list of rows: whatever a
metric adds up over samples is added up with these counts as weights.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows

Counts = npt.NDArray[np.uint8]
Drawn = npt.NDArray[np.bool_]

# One block of counts may take this many bytes; what is raised to float64 at a time, this many numbers.
BLOCK_BYTES = 2**27
CHUNK_NUMBERS = 2**20


def drawable(weights: Tensor | None, n: int) -> Drawn:
    """Return (n,) which samples can be drawn: those of positive weight, or all."""
    return np.ones(n, dtype=np.bool_) if weights is None else (weights > 0).numpy()


def count_once(drawn: Drawn) -> Counts:
    """Return (N, 1) counts of the data themselves."""
    return drawn.astype(np.uint8)[:, None]


def bootstrap_counts(drawn: Drawn, samples: int, seed: int, block: int | None = None) -> Iterator[Counts]:
    """Draw as many samples as can be drawn, with replacement; yields (N, up to ``block``) counts, ``samples`` in all.

    The draws depend on the seed alone: another ``block`` cuts the same replicates elsewhere.

    Args:
        drawn: (N,) which samples can be drawn.
        samples: Number of replicates.
        seed: Seed for the draws.
        block: Number of replicates at a time; by default as many as a block of bounded size holds.

    Examples:
        >>> [c.sum(axis=0).tolist() for c in bootstrap_counts(np.array([True] * 5), samples=3, seed=0, block=2)]
        [[5, 5], [5]]
    """
    generator = np.random.default_rng(seed)
    n = int(drawn.sum())

    # A count above 255 needs one sample to be drawn 256 times in n tries at 1/n each: less likely than 1e-500.
    def draw(_: int) -> npt.NDArray[np.int64]:
        return np.bincount(generator.integers(0, n, size=n, dtype=np.uint32), minlength=n)

    return _blocks(drawn, samples, block, draw)


def jackknife_counts(drawn: Drawn, groups: int, seed: int, block: int | None = None) -> Iterator[Counts]:
    """Leave out one of ``groups`` groups at a time; with as many groups as samples, one sample at a time.

    The samples are dealt at random into groups whose sizes differ by at most one.
    """
    group = np.random.default_rng(seed).permutation(int(drawn.sum())) % groups
    return _blocks(drawn, groups, block, lambda left_out: group != left_out)


def _blocks(
    drawn: Drawn, samples: int, block: int | None, replicate: Callable[[int], npt.NDArray[np.generic]]
) -> Iterator[Counts]:
    block = block or chunk_rows(len(drawn), BLOCK_BYTES)
    places = slice(None) if drawn.all() else np.flatnonzero(drawn)
    for start in range(0, samples, block):
        rows = np.zeros((min(block, samples - start), len(drawn)), dtype=np.uint8)
        for row in range(len(rows)):
            rows[row, places] = replicate(start + row)
        # Samples first: taking samples in another order and adding along them then moves whole rows.
        yield np.ascontiguousarray(rows.T)


def counted_sums(counts: Counts, blocks: Iterable[Tensor]) -> Tensor:
    """Compute sums over samples, each taken as often as it is counted.

    Args:
        counts: (N, B).
        blocks: Consecutive blocks of the samples' values, (rows, C) float64 each, N rows in all.

    Returns:
        A float64 tensor of shape (B, C).

    Examples:
        >>> counted_sums(np.array([[2, 0], [0, 1]], dtype=np.uint8), [torch.tensor([[1.5], [4.0]]).double()]).tolist()
        [[3.0], [4.0]]
    """
    total: Tensor | None = None
    start = 0
    for block in blocks:
        part = torch.from_numpy(counts[start : start + len(block)]).double()
        total = part.T @ block if total is None else total.addmm_(part.T, block)
        start += len(block)
    if total is None or start != len(counts):
        raise ValueError(f"there are counts for {len(counts)} samples but values for {start}: give one of each.")
    return total


def column_slices(counts: Counts, rows: int | None = None) -> Iterator[slice]:
    """Cut the replicates so that a slice of them, raised to float64, stays in the cache; at least 8 at a time.

    Args:
        counts: (N, B).
        rows: Number of numbers for each replicate, if not N.
    """
    width = max(8, CHUNK_NUMBERS // (rows or len(counts)))
    return (slice(start, start + width) for start in range(0, counts.shape[1], width))


def rows_in_chunk(replicates: int) -> int:
    """Return how many samples to raise to float64 at a time; at least 64, as narrower products are slow."""
    return max(64, CHUNK_NUMBERS // max(replicates, 1))
