"""Tables in the paper's layout: a row per data set and network, published figures and ours in every cell.

Footnotes name printed figures that contradict each other or cannot be meant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from focalcal.paper.cells import PUBLISHED_ONLY, Cell, TableLine, join_rows
from focalcal.paper.early_stopping import early_stopping_lines
from focalcal.paper.published import PublishedRow, published_rows, published_table
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.table_names import METHOD_TITLES, TableName
from focalcal.sweeps.result_rows import Row, Selection

# What a table needs that not every sweep has.
_NEEDS = {
    "early-stopping": "runs that measured the test set after every epoch (record.test_every=1)",
    "ood-auroc": "runs with out-of-distribution sets (data.ood=[svhn, cifar10_c])",
    "translation": "runs of a translation model (focalcal paper run translation)",
}

Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Footnote:
    """A sentence about some figures of a table; about the table as a whole where there are no keys."""

    mark: str
    text: str
    keys: frozenset[Key] = frozenset()


def footnotes(table: TableName) -> list[Footnote]:
    """Collect what has to be said of a table, marked by letters."""
    found = [*_contradictions(table), *_find_known(table)]
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


def _find_known(table: TableName) -> Iterator[tuple[str, frozenset[Key]]]:
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


@dataclass(frozen=True)
class Table:
    """A whole table.

    Attributes:
        name: Name of the paper's table.
        heads: Headings of what comes before the figures.
        lines: The rows.
        notes: Footnotes.
    """

    name: TableName
    heads: tuple[str, ...]
    lines: tuple[TableLine, ...]
    notes: tuple[Footnote, ...]


def build_table(name: TableName, results: Sequence[ResultSet] = (), *, epoch: Selection | None = None) -> Table:
    """Lay out a table of the paper with what was measured.

    Args:
        name: Name of the table.
        results: Our results; none for the published figures alone.
        epoch: Figures of the ``best`` epoch by validation or of the ``last``; by default as each recipe selects.
    """
    notes = tuple(footnotes(name))
    if name.name == "early-stopping":
        return Table(name, ("Data", "Network", "Criterion", "Ours"), tuple(early_stopping_lines(name, results)), notes)
    printed = published_table(name.printed)
    places = list(dict.fromkeys((key[0], key[1]) for key in printed))
    lines: list[TableLine] = []
    for place in places:
        ours: list[ResultSet | None] = [result for result in results if _rows_at(result, name, place)]
        lines += [_line(name, place, result, notes, epoch) for result in ours or [None]]
    for result in results:
        others = [place for place in result.places() if place not in places and _is_of_its_kind(result, name, place)]
        lines += [_line(name, place, result, notes, epoch) for place in others]
    return Table(name, ("Data", "Network", "Ours"), tuple(lines), notes)


def check_filled(table: Table, results: Iterable[ResultSet]) -> None:
    """Refuse a table for which the given folders hold no figure at all."""
    if not any(cell.ours for line in table.lines for cell in line.cells):
        names = ", ".join(str(result.folder) for result in results)
        losses = ", ".join(table.name.methods)
        need = _NEEDS.get(table.name.name, "")
        if not need:
            need = " or ".join(dict.fromkeys(metric for metric, _, _ in table.name.columns))
        raise ValueError(f"{names} holds nothing for the table {table.name.name}: it needs {need}, of {losses}.")


def _rows_at(result: ResultSet, name: TableName, place: tuple[str, str]) -> list[Row]:
    """Return the figures of a place that belong to the table."""
    wanted = {metric for metric, _, _ in name.columns}
    found = [row for row in result.rows if (row.dataset, row.model) == place]
    if "severity" in place[0] or (found and found[0].is_out_of_distribution != name.is_ood):
        return []
    found += [
        replace(
            row, metric="top1_accuracy", value=100 - row.value, low=_of_accuracy(row.high), high=_of_accuracy(row.low)
        )
        for row in found
        if row.metric == "error"
    ]
    return [row for row in found if row.metric in wanted and row.method in name.methods]


def _is_of_its_kind(result: ResultSet, name: TableName, place: tuple[str, str]) -> bool:
    """Return whether a place that the paper does not have belongs into a table: it has what the table is about."""
    return any(row.metric == name.columns[-1][0] for row in _rows_at(result, name, place))


def _of_accuracy(error: float | None) -> float | None:
    return None if error is None else 100 - error


def _line(
    name: TableName,
    place: tuple[str, str],
    result: ResultSet | None,
    notes: Sequence[Footnote],
    epoch: Selection | None,
) -> TableLine:
    printed = published_table(name.printed)
    rows = [] if result is None else _select(_rows_at(result, name, place), epoch)
    cells = []
    for method in name.methods:
        for metric, scaling, _ in name.columns:
            key = (*place, method, metric, scaling)
            own = [row for row in rows if (row.method, row.metric, row.temperature_scaling) == key[2:]]
            marks = tuple(note.mark for note in notes if key in note.keys)
            cells.append(Cell(printed.get(key), join_rows(own), notes=marks))
    return TableLine((*place, PUBLISHED_ONLY if result is None else result.name), tuple(cells))


def _select(rows: Sequence[Row], epoch: Selection | None) -> list[Row]:
    """Keep one epoch: the asked-for one, or the best where the recipe selects it."""
    wanted = epoch or ("best" if any(row.selection == "best" for row in rows) else "last")
    return [row for row in rows if row.selection == wanted]
