"""Whether an id occurs twice in a file of any length, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from focalcal.predictions.names import checked_ids, duplicate_id

# Hashes held at once: 8 bytes each, twice while they are sorted.
_HASHES_AT_ONCE = 2**21


def check_unique_in_blocks(
    id_blocks: Callable[[], Iterator[Sequence[object]]], count: int, at_once: int = _HASHES_AT_ONCE
) -> None:
    """Refuse an id that occurs twice.

    Hashes are compared, a share of them in each pass over the ids, so that memory does not grow with their number;
    ids whose hashes agree are then compared themselves.
    """
    shares = -(-count // at_once)
    for share in range(shares):
        hashes = np.sort(np.concatenate([part for _, part in _hashes(id_blocks, share, shares)]))
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(repeated):
            _compare(id_blocks, repeated)


def _hashes(
    id_blocks: Callable[[], Iterator[Sequence[object]]], share: int = 0, shares: int = 1
) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    for block in id_blocks():
        ids = checked_ids(block)
        hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
        yield ids, hashes if shares == 1 else hashes[hashes % shares == share]


def _compare(id_blocks: Callable[[], Iterator[Sequence[object]]], repeated: np.ndarray) -> None:
    seen: dict[str, int] = {}
    start = 0
    for ids, hashes in _hashes(id_blocks):
        for index in np.flatnonzero(np.isin(hashes, repeated)).tolist():
            if ids[index] in seen:
                raise ValueError(duplicate_id(ids[index], seen[ids[index]], start + index))
            seen[ids[index]] = start + index
        start += len(ids)
