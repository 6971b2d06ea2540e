"""Batches: their samples, each process's part of them, and loading. The order follows from the seed and the epoch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from focalcal.data.data_types import Batch, Samples
from focalcal.training.randomness import generator

# Batches of similar length are made within pools of this many batches, so that the order stays random.
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
    batch_tokens: int | None = None,
) -> list[Tensor]:
    """Choose the positions of each batch of an epoch, in order.

    Args:
        samples: N samples; with ``by_length`` they have ``lengths``.
        batch_size: Samples per batch. The last batch may be smaller, and is left out if it has fewer than two samples
            per part: batch normalisation has no variance of a single one.
        seed: Seed of the run.
        epoch: The epoch, counted from 0.
        parts: Number of parts that each batch will be cut into, over processes and micro-batches.
        by_length: Put samples of similar length together.
        drop_last: Leave out the last, incomplete batch of the epoch's random order, unless it is the only one.
        batch_tokens: Tokens per batch, padding included, instead of a number of samples: those of similar length are
            put together until one more would exceed it.

    Returns:
        (B,) int64 positions for each batch.
    """
    source = generator(seed, "order", epoch)
    order = torch.randperm(len(samples), generator=source)
    if batch_tokens is not None:
        batches = _by_tokens(order, _lengths(samples), batch_tokens, source)
        return [batch for batch in batches if len(batch) >= parts] or batches[:1]
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


def _by_tokens(order: Tensor, lengths: Tensor, tokens: int, source: torch.Generator) -> list[Tensor]:
    pool_size = max(1, int(_POOL_BATCHES * tokens / lengths.double().mean()))
    batches: list[Tensor] = []
    for pool in torch.split(order, pool_size):
        pool = pool[lengths[pool].argsort(stable=True)]
        first = 0
        for place, length in enumerate(lengths[pool].tolist()):
            if place > first and (place - first + 1) * length > tokens:
                batches.append(pool[first:place])
                first = place
        batches.append(pool[first:])
    return [batches[place] for place in torch.randperm(len(batches), generator=source).tolist()]


def _lengths(samples: Samples) -> Tensor:
    lengths = getattr(samples, "lengths", None)
    if not isinstance(lengths, Tensor):
        raise ValueError(
            "group_by_length and batch_tokens need samples that have lengths, such as texts; leave them off."
        )
    return lengths


def evaluation_batches(samples: Samples, batch_size: int) -> list[Tensor]:
    """Split all positions into batches; samples of similar length together if they have lengths."""
    lengths = getattr(samples, "lengths", None)
    order = torch.arange(len(samples)) if lengths is None else lengths.argsort(stable=True)
    return list(torch.split(order, batch_size))


def process_share(batch: Tensor, *, rank: int, world: int, accumulate: int) -> Sequence[Tensor]:
    """Cut a batch into the micro-batches of one process; sizes differ by at most one.

    Examples:
        >>> [part.tolist() for part in process_share(torch.arange(7), rank=1, world=2, accumulate=2)]
        [[4, 5], [6]]
    """
    own: Tensor = batch.tensor_split(world)[rank]
    return own.tensor_split(accumulate)


def prefetch(samples: Samples, positions: Tensor | None) -> None:
    """Let samples that lie in files begin to decode those that the next batch asks for; None: there is no next one."""
    begin = getattr(samples, "prefetch", None)
    if begin is not None and positions is not None:
        begin(positions)


def load_batch(
    samples: Samples,
    positions: Tensor,
    *,
    device: torch.device,
    source: torch.Generator | None = None,
    channels_last: bool = False,
) -> Batch:
    """Load samples on a device; random augmentation draws from ``source``, and there is none without it."""
    batch = samples.batch(positions, device=device, generator=source)
    if channels_last and isinstance(batch.inputs, Tensor) and batch.inputs.ndim == 4:
        return batch._replace(inputs=batch.inputs.contiguous(memory_format=torch.channels_last))
    return batch
