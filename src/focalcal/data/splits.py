"""Seeded splits that keep the share of every class, and their fingerprints."""

import hashlib

import torch
from torch import Tensor


def rank_in_class(labels: Tensor, seed: int) -> Tensor:
    """Rank each sample in a random order of its class: (N,) int64, 0 for the first one of each class.

    Examples:
        >>> rank_in_class(torch.tensor([0, 1, 1, 0, 1]), seed=0).sort().values
        tensor([0, 0, 1, 1, 2])
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = shuffled[labels[shuffled].sort(stable=True).indices]
    counts = torch.bincount(labels)
    first = counts.cumsum(0) - counts
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(labels)) - first[labels[order]]
    return ranks


def hold_out(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Choose positions that are kept and positions that are held out, both rising and with nothing in common.

    From each class the same share, rounded, is held out, at random but fixed by the seed.

    Examples:
        >>> kept, held = hold_out(torch.arange(10).repeat(50), 0.1, seed=0)
        >>> len(kept), len(held)
        (450, 50)
    """
    counts = torch.bincount(labels)
    held = rank_in_class(labels, seed) < (counts * share).round().long()[labels]
    return torch.nonzero(~held).view(-1), torch.nonzero(held).view(-1)


def choose_balanced_subset(labels: Tensor, size: int, seed: int) -> Tensor:
    """Choose rising positions of ``size`` samples, as many of each class as of any other (give or take one).

    A smaller subset of the same seed lies within a larger one.

    Examples:
        >>> labels = torch.arange(10).repeat(50)
        >>> labels[choose_balanced_subset(labels, 20, seed=0)].bincount()
        tensor([2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    """
    if not 0 < size <= len(labels):
        raise ValueError(f"train_size must be between 1 and {len(labels)}, the size of the training split; got {size}.")
    order = rank_in_class(labels, seed).sort(stable=True).indices
    return order[:size].sort().values


def hash_split(ids: Tensor) -> str:
    """Compute the SHA-256 of the ids in their order, as little-endian 64-bit integers.

    Examples:
        >>> hash_split(torch.arange(3))[:16]
        'ab25350e3e65efeb'
    """
    return hashlib.sha256(ids.numpy().astype("<i8").tobytes()).hexdigest()
