"""Seeded splits that keep the share of every class, and their fingerprints."""

import hashlib
from collections.abc import Mapping, Sequence

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
    kept, held = hold_out_parts(labels, [share], seed)
    return kept, held


def hold_out_parts(labels: Tensor, shares: Sequence[float], seed: int) -> list[Tensor]:
    """Choose rising positions that are kept, and those of one part per share, with nothing in common.

    From each class the same shares, rounded, are held out, at random but fixed by the seed.

    Examples:
        >>> [len(part) for part in hold_out_parts(torch.arange(10).repeat(50), [0.1, 0.2], seed=0)]
        [350, 50, 100]
    """
    counts, ranks = torch.bincount(labels), rank_in_class(labels, seed)
    # The part of each sample by its rank in its class: 0 is held out first, the last part is kept.
    ends = torch.stack([(counts * share).round().long() for share in shares]).cumsum(0)[:, labels]
    part = (ranks >= ends).sum(dim=0)
    return [torch.nonzero(part == number).view(-1) for number in (len(shares), *range(len(shares)))]


def choose_splits(
    labels: Mapping[str, Tensor], shares: Mapping[str, float], seed: int, advice: str
) -> dict[str, Tensor]:
    """Choose the positions of train, val and test among samples that lie one after the other, split by split.

    A split that is not given is held out from train, the same share of every class.

    Args:
        labels: Labels of the given splits; ``train`` comes first.
        shares: Share for each of ``val`` and ``test``, should it not be given.
        seed: Seed for what is held out.
        advice: End of the message where there are too few samples: what to give instead.

    Examples:
        >>> labels = {"train": torch.arange(2).repeat(10), "test": torch.tensor([1, 0])}
        >>> {split: len(chosen) for split, chosen in choose_splits(labels, {"val": 0.2, "test": 0.2}, 0, "").items()}
        {'train': 16, 'val': 4, 'test': 2}
    """
    missing = [split for split in shares if split not in labels]
    learnt = labels["train"]
    kept, *held = hold_out_parts(learnt, [shares[split] for split in missing], seed) if missing else [_all(learnt)]
    for split, positions in zip(missing, held, strict=True):
        if not len(positions):
            share = f"{shares[split]:.0%} of each class, rounded, is none"
            raise ValueError(f"{len(learnt)} training samples are too few to hold out {split}: {share}; {advice}.")
    if len(torch.unique(learnt[kept])) < len(torch.unique(learnt)):
        raise ValueError(f"The shares held out leave a class without a training sample; {advice}.")
    chosen, first = {"train": kept}, len(learnt)
    for split in shares:
        if split in labels:
            chosen[split] = _all(labels[split]) + first
            first += len(labels[split])
        else:
            chosen[split] = held[missing.index(split)]
    return chosen


def _all(labels: Tensor) -> Tensor:
    return torch.arange(len(labels))


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
