"""Footnotes: printed figures that contradict each other or cannot be meant, and sentences that differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from focalcal.paper.published import PublishedRow, published_rows
from focalcal.paper.table_names import METHOD_TITLES, TableName

Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Footnote:
    """A sentence about some figures of a table; about the table as a whole where there are no keys."""

    mark: str
    text: str
    keys: frozenset[Key] = frozenset()


def footnotes(table: TableName) -> list[Footnote]:
    """Collect what has to be said of a table, marked by letters."""
    found = [*_contradictions(table), *_known(table)]
    return [Footnote(chr(ord("a") + place), text, keys) for place, (text, keys) in enumerate(found)]


def _contradictions(table: TableName) -> Iterator[tuple[str, frozenset[Key]]]:
    """Find figures that another table prints with another value, and show both."""
    for key, rows in _printed_twice().items():
        own = next((row for row in rows if row.table == table.printed), None)
        other = next((row for row in rows if own is not None and row.figure.value != own.figure.value), None)
        if own is not None and other is not None:
            yield _both(own, other), frozenset({key})


@cache
def _printed_twice() -> Mapping[Key, tuple[PublishedRow, ...]]:
    """Collect the figures that more than one table of results prints."""
    found: dict[Key, tuple[PublishedRow, ...]] = {}
    for row in published_rows():
        if not row.table.startswith("early_stopping"):
            found[row.key] = (*found.get(row.key, ()), row)
    return {key: rows for key, rows in found.items() if len(rows) > 1}


def _both(row: PublishedRow, other: PublishedRow) -> str:
    scaling = f", {row.temperature_scaling} T" if row.temperature_scaling else ""
    return (
        f"{row.dataset}, {row.model}, {METHOD_TITLES[row.method]}{scaling}: {row.figure.value:g} here, "
        f"{other.figure.value:g} in the paper's other table of the same metric."
    )


def _known(table: TableName) -> Iterator[tuple[str, frozenset[Key]]]:
    rows = [row for row in published_rows() if row.table == table.printed]
    if table.name == "mce-post":
        keys = frozenset(row.key for row in rows if row.dataset == "20 Newsgroups")
        yield "20 Newsgroups: the paper repeats its values before temperature scaling, surely by mistake.", keys
    if table.name == "ada-ece":
        place = ("CIFAR-100", "ResNet-50")
        keys = frozenset(row.key for row in rows if (row.dataset, row.model) == place and row.method != "fl-3")
        yield "CIFAR-100, ResNet-50: the paper repeats its ECE here, except for FL-3, surely by mistake.", keys
    if table.name == "s99":
        text = 'The paper\'s caption says "higher than 99%", its text "0.99 or more"; ours is 0.99 or more.'
        yield text, frozenset()
