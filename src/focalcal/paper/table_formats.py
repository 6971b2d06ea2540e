"""Tables of the paper as Markdown, LaTeX, csv and JSON."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from focalcal.base.files import atomic_writer, make_folder, null_for_nan
from focalcal.base.markdown import markdown_table
from focalcal.paper.cells import LEGEND
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.table_names import METHOD_TITLES, TABLES
from focalcal.paper.tables import Table, build_table

# LaTeX has its own signs; ✓ and ✗ say whether a value is an element of a range.
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "–": "--",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "γ": r"$\gamma$",
    "✓": r"$\in$",
    "✗": r"$\notin$",
    "†": r"\textsuperscript{\textdagger}",
}


def to_markdown(*tables: Table) -> str:
    """Write a section per table: heading, table, legend and footnotes."""
    return "\n".join(_section(table).rstrip("\n") + "\n" for table in tables)


def _section(table: Table) -> str:
    rows = [(*line.heads, *(cell.text() for cell in line.cells)) for line in table.lines]
    notes = "".join(f"\n[{note.mark}] {note.text}\n" for note in table.notes)
    body = markdown_table((*table.heads, *_columns(table)), rows, left=len(table.heads))
    return f"## {table.name.title}\n\n{body}\n\n{_legend(table)}\n{notes}"


def _columns(table: Table) -> list[str]:
    return [
        f"{METHOD_TITLES[method]} {heading}".rstrip()
        for method in table.name.methods
        for _, _, heading in table.name.columns
    ]


def _has_ours(table: Table) -> bool:
    return any(cell.ours for line in table.lines for cell in line.cells)


def _legend(table: Table) -> str:
    if _has_ours(table):
        return LEGEND
    return "† As published; T in brackets after temperature scaling."


def to_latex(*tables: Table) -> str:
    r"""Write a ``table*`` per table, for the packages booktabs and graphicx; special characters are escaped."""
    return "\n".join(_float(table) for table in tables)


def _float(table: Table) -> str:
    width, heads = len(table.name.columns), len(table.heads)
    total = heads + width * len(table.name.methods)
    titles = [escape_latex(METHOD_TITLES[method]) for method in table.name.methods]
    if width > 1:
        titles = [rf"\multicolumn{{{width}}}{{c}}{{{one}}}" for one in titles]
    below = [escape_latex(heading) for _ in table.name.methods for _, _, heading in table.name.columns]
    lines = [
        _latex_line([*map(escape_latex, line.heads), *(escape_latex(c.text()) for c in line.cells)])
        for line in table.lines
    ]
    notes = "".join(rf" [{note.mark}] {escape_latex(note.text)}" for note in table.notes)
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{{'l' * heads}{'r' * (total - heads)}}}",
            r"\toprule",
            _latex_line([*map(escape_latex, table.heads), *titles]),
            *([_latex_line([""] * heads + below)] if any(below) else []),
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{{escape_latex(table.name.title)}. {escape_latex(_legend(table))}{notes}}}",
            r"\end{table*}",
            "",
        ]
    )


def _latex_line(cells: Sequence[str]) -> str:
    # A row that begins with one of these would be read as an option of the line break before it.
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    return guard + " & ".join(cells) + r" \\"


def escape_latex(text: str) -> str:
    r"""Escape what LaTeX would read as a command.

    Examples:
        >>> print(escape_latex("my_run & 50%"))
        my\_run \& 50\%
    """
    return "".join(_LATEX.get(character, character) for character in text)


def table_records(table: Table) -> list[dict[str, Any]]:
    """Return one record per cell."""
    keys = [(method, metric, scaling) for method in table.name.methods for metric, scaling, _ in table.name.columns]
    heads = [head.lower() for head in table.heads]
    return [
        {
            "table": table.name.name,
            **dict(zip(heads, line.heads, strict=True)),
            "method": method,
            "metric": metric,
            "temperature_scaling": scaling,
            **cell.record(),
        }
        for line in table.lines
        for (method, metric, scaling), cell in zip(keys, line.cells, strict=True)
    ]


def to_csv(*tables: Table) -> str:
    """Write one row per cell, of one or several tables."""
    return records_to_csv([record for table in tables for record in table_records(table)])


def records_to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records with the same keys; None is empty, numbers have six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _write_value(value) for key, value in record.items()} for record in records)
    return text.getvalue()


def _write_value(value: object) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def to_json(*tables: Table) -> str:
    """Write a table with its footnotes, or a list of several."""
    found = [
        {
            "name": table.name.name,
            "title": table.name.title,
            "cells": table_records(table),
            "footnotes": {note.mark: note.text for note in table.notes},
        }
        for table in tables
    ]
    content = found[0] if len(found) == 1 else found
    return json.dumps(null_for_nan(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[..., str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "json": to_json,
}
ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv", "json": "json"}


def write_tables(results: Sequence[ResultSet], out: Path, format: str = "markdown") -> list[Path]:
    """Write all 17 tables into a folder, which is made; return the files."""
    make_folder(out)
    files = []
    for name in TABLES.values():
        files.append(out / f"{name.name}.{ENDINGS[format]}")
        with atomic_writer(files[-1]) as file:
            file.write(FORMATS[format](build_table(name, results)).encode())
    return files
