"""Csv files of records: a dataclass of texts and numbers, one per line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from focalcal.base.files import atomic_writer, read_text
from focalcal.sweeps.result_rows import write_value

Record = TypeVar("Record")


def write_records(path: Path, kind: type[Record], records: Iterable[Record]) -> None:
    """Write records atomically, numbers with six digits.

    Args:
        path: The csv file.
        kind: The dataclass, whose fields are the columns.
        records: In their order.
    """
    names = list(get_type_hints(kind))
    lines = [",".join(names), *(",".join(str(write_value(getattr(one, name))) for name in names) for one in records)]
    with atomic_writer(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def read_records(path: Path, kind: type[Record], what: str) -> list[Record]:
    """Read what `write_records` wrote; nothing where there is no such file.

    Args:
        path: The csv file.
        kind: The dataclass.
        what: Its contents, for messages: ``curves of translators``.
    """
    if not path.is_file():
        return []
    columns: dict[str, Any] = get_type_hints(kind)
    head, *lines = read_text(path).splitlines() or [""]
    if head.split(",") != list(columns):
        raise ValueError(f"{path} does not hold {what}: its columns are {head}.")
    found = []
    for number, line in enumerate(lines, 2):
        try:
            cells = zip(columns.items(), line.split(","), strict=True)
            found.append(kind(**{name: convert(text) for (name, convert), text in cells}))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}, is damaged ({error}).") from None
    return found
