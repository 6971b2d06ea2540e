"""Rows of the tables of results: their order, and which of them are of the same figure."""

from collections.abc import Sequence

from focalcal.loss_names import LOSS_NAMES
from focalcal.sweeps.result_rows import Row


def method_seeds(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """List the runs of a table."""
    return list(dict.fromkeys((row.method, row.seed) for row in rows))


def place(row: Row) -> tuple[int, int]:
    """Sort as a sweep does: seeds by number, and the losses of each in the paper's order."""
    return (row.seed, LOSS_NAMES.index(row.method) if row.method in LOSS_NAMES else len(LOSS_NAMES))


def key(row: Row) -> tuple[object, ...]:
    """Identify a figure."""
    return (row.dataset, row.method, row.seed, row.selection, row.metric, row.temperature_scaling)


def merge(before: Sequence[Row], measured: Sequence[Row]) -> list[Row]:
    """Replace what was measured again in a table, in its order; new rows at the end."""
    new = {key(row): row for row in measured}
    return [new.pop(key(row), row) for row in before] + list(new.values())
