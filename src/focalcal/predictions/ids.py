"""Ids of samples: converted to text, and compared, in memory or in a file of any length."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from focalcal.predictions.description import check_text

# Hashes held at once: 8 bytes each, twice while they are sorted.
_HASHES_AT_ONCE = 2**21


def convert_ids(ids: Any) -> tuple[str, ...]:
    """Convert ids to strings: integers are written in decimal, bytes are read as UTF-8."""
    if isinstance(ids, str | bytes):
        raise TypeError("ids must be a sequence with one id per sample, not one string.")
    listed = ids.tolist() if isinstance(ids, np.ndarray | Tensor) else list(ids)
    texts = tuple(i if type(i) is str else _id_text(i) for i in listed)
    check_text("\n".join(texts), "an id")
    return texts


def check_unique(ids: Sequence[str]) -> None:
    """Refuse an id that occurs twice."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name in seen:
            raise ValueError(_describe_duplicate(name, seen[name], row))
        seen[name] = row


def _describe_duplicate(name: str, first: int, second: int) -> str:
    """Say that an id occurs twice."""
    return (
        f"The id {name!r} occurs twice, in rows {first} and {second}; remove one, or pass allow_duplicate_ids=True "
        "if the same sample is meant to count twice."
    )


def check_unique_in_blocks(
    id_blocks: Callable[[], Iterator[Sequence[object]]], count: int, at_once: int = _HASHES_AT_ONCE
) -> None:
    """Refuse an id that occurs twice.

    Hashes are compared, a share of them in each pass over the ids, so that memory does not grow with their number;
    ids whose hashes agree are then compared themselves.
    """
    if count > at_once:  # as many passes as there are ids to read, not as a file claims to have
        count = min(count, sum(len(block) for block in id_blocks()))
    shares = -(-count // at_once)
    for share in range(shares):
        hashes = np.sort(np.concatenate([part for _, part in _hash_blocks(id_blocks, share, shares)]))
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(repeated):
            _compare(id_blocks, repeated)


def _hash_blocks(
    id_blocks: Callable[[], Iterator[Sequence[object]]], share: int = 0, shares: int = 1
) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    for block in id_blocks():
        ids = convert_ids(block)
        hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
        yield ids, hashes if shares == 1 else hashes[hashes % shares == share]


def _compare(id_blocks: Callable[[], Iterator[Sequence[object]]], repeated: np.ndarray) -> None:
    seen: dict[str, int] = {}
    start = 0
    for ids, hashes in _hash_blocks(id_blocks):
        for index in np.flatnonzero(np.isin(hashes, repeated)).tolist():
            if ids[index] in seen:
                raise ValueError(_describe_duplicate(ids[index], seen[ids[index]], start + index))
            seen[ids[index]] = start + index
        start += len(ids)


def _id_text(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"The id {value!r} is not UTF-8 text; pass ids as strings or integers.") from None
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Tensor) and value.ndim == 0 and not value.is_floating_point():
        return str(int(value))
    raise TypeError(f"ids must be strings or integers, not {type(value).__name__}.")
