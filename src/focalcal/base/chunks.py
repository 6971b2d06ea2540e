"""Chunks of rows, so that work on large arrays stays within a cache or a share of memory."""

from collections.abc import Iterator

# Values that are worked on at a time. Half a million float64 values (4 MB) stay in the cache of a core.
IN_CACHE = 2**19
# Where each chunk costs a call of its own (a library, a file), larger ones; 128 MB of float64 values.
IN_MEMORY = 2**24


def chunk_rows(width: int, budget: int = IN_CACHE) -> int:
    """Return how many rows of ``width`` values fit into the budget: at least one.

    Examples:
        >>> chunk_rows(1000, budget=5000), chunk_rows(10_000, budget=5000)
        (5, 1)
    """
    return max(1, budget // max(1, width))


def chunks(n: int, width: int = 1, budget: int = IN_CACHE) -> Iterator[slice]:
    """Cut ``n`` rows of ``width`` values into slices that hold at most ``budget`` values (or one row).

    Examples:
        >>> list(chunks(5, width=10, budget=20))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = chunk_rows(width, budget)
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))
