"""Which samples make a batch, and which part of it a process takes. All of it follows from the seed and the epoch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from focalcal.data.samples import Samples
from focalcal.training.randomness import generator

# Batches of like length are made within pools of this many batches, so that the order stays random.
_POOL_BATCHES = 50


def epoch_batches(
    samples: Samples,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    parts: int = 1,
    by_length: bool = False,
    drop_last: bool = False,
) -> list[Tensor]:
    """The positions of each batch of an epoch, in order.

    Args:
        samples: N samples; with ``by_length`` they have ``lengths``.
        batch_size: samples of a batch. The last one may be smaller, and is left out if it had fewer than two samples
            for each part: batch normalisation has no variance of a single one.
        seed: of the run.
        epoch: counted from 0.
        parts: into how many a batch will be cut, over processes and micro-batches.
        by_length: put samples of like length together.
        drop_last: every batch is full; the samples that are left over, the last of the epoch's random order, are left
            out, unless there are none but these.

    Returns:
        (B,) int64 positions for each batch.
    """
    source = generator(seed, "order", epoch)
    order = torch.randperm(len(samples), generator=source)
    if drop_last:
        order = order[: len(order) // batch_size * batch_size or None]
    if by_length:
        batches = _by_length(order, _lengths(samples), batch_size, source)
    else:
        batches = list(torch.split(order, batch_size))
    return [batch for batch in batches if len(batch) == batch_size or len(batch) >= 2 * parts] or batches[:1]


def _by_length(order: Tensor, lengths: Tensor, batch_size: int, source: torch.Generator) -> list[Tensor]:
    batches: list[Tensor] = []
    for pool in torch.split(order, _POOL_BATCHES * batch_size):
        batches += torch.split(pool[lengths[pool].argsort(stable=True)], batch_size)
    return [batches[place] for place in torch.randperm(len(batches), generator=source).tolist()]


def _lengths(samples: Samples) -> Tensor:
    lengths = getattr(samples, "lengths", None)
    if not isinstance(lengths, Tensor):
        raise ValueError("group_by_length needs samples that have lengths, such as texts; leave it off here.")
    return lengths


def evaluation_batches(samples: Samples, batch_size: int) -> list[Tensor]:
    """Every position exactly once; those of like length together where there are lengths."""
    lengths = getattr(samples, "lengths", None)
    order = torch.arange(len(samples)) if lengths is None else lengths.argsort(stable=True)
    return list(torch.split(order, batch_size))


def share(batch: Tensor, *, rank: int, world: int, accumulate: int) -> Sequence[Tensor]:
    """The micro-batches that one process takes of a batch; sizes differ by at most one.

    Examples:
        >>> [part.tolist() for part in share(torch.arange(7), rank=1, world=2, accumulate=2)]
        [[4, 5], [6]]
    """
    own: Tensor = batch.tensor_split(world)[rank]
    return own.tensor_split(accumulate)
