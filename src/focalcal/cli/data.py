"""``focalcal data``: the data sets, where they are, whether they are complete, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.progress import note, spinner
from focalcal.cli.options import Json, help_text
from focalcal.cli.output import print_json, results

if TYPE_CHECKING:
    from focalcal.data.check import Checked
    from focalcal.data.data_sets import Entry

data_app = typer.Typer(name="data", help="List, check and fetch data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set; see 'focalcal data list'.", show_default=False)]
Root = Annotated[
    Path | None,
    typer.Option(help="The folder to look in, instead of $FOCALCAL_DATA and the cache.", show_default=False),
]


def list_(root: Root = None, json: Json = False) -> None:
    """List the data sets, their sizes, and where they are.

    Examples:
      focalcal data list
      focalcal data list --root /data --json
    """
    from focalcal.data.data_sets import CATALOGUE

    rows = [_row(entry, root) for entry in CATALOGUE.values()]
    if json:
        print_json({"data": rows})
        return
    from rich.table import Table

    table = Table("name", "what", "classes", "train / val / test")
    table.add_column("where", overflow="fold")
    for row in rows:
        table.add_row(row["name"], row["about"], row["classes"], row["sizes"], _where(row))
    results().print(table)


def check(name: Name, root: Root = None, json: Json = False) -> None:
    """Read a data set whole and count it; exit code 1 if it is damaged, 2 if it is not there.

    Examples:
      focalcal data check cifar10
      focalcal data check svhn --root /data
    """
    from focalcal.data.check import check_data
    from focalcal.data.data_files import MissingDataError
    from focalcal.data.data_sets import find_entry

    find_entry(name)
    try:
        with spinner(f"reading {name}"):
            checked = check_data(name, root=root)
    except MissingDataError:
        raise
    except ValueError as error:
        note(str(error))
        raise typer.Exit(1) from None
    if json:
        print_json(vars(checked))
    else:
        _print_checked(checked)


def fetch(name: Name, root: Root = None) -> None:
    """Download the files of a data set that are not here yet.

    They go to the folder ``data`` in the cache ($FOCALCAL_CACHE, or focalcal in $XDG_CACHE_HOME or ~/.cache), or to
    --root. A download that was interrupted resumes.

    Examples:
      focalcal data fetch cifar10
      focalcal data fetch fashion_mnist --root /data
    """
    from focalcal.data.data_sets import find_entry

    entry = find_entry(name)
    console = results()
    for file, place in entry.present(root):
        console.print(str(place or file.obtain(root)), soft_wrap=True)
    if not entry.files:
        reason = "it comes with scikit-learn" if entry.bundled else "it is yours"
        console.print(f"{name} needs no file: {reason}.")


for name, command in (("list", list_), ("check", check), ("fetch", fetch)):
    data_app.command(name, help=help_text(command))(command)


def _row(entry: Entry, root: Path | None) -> dict[str, Any]:
    """Collect what the table and the JSON say of a set."""
    present = entry.present(root)
    found = [str(place) for _, place in present if place is not None]
    return {
        "name": entry.name,
        "about": entry.about,
        "classes": entry.classes,
        "sizes": entry.sizes,
        "complete": len(found) == len(present),
        "found": found,
        "missing": [file.path for file, place in present if place is None],
        "takes": entry.takes,
    }


def _where(row: dict[str, Any]) -> str:
    if not row["complete"]:
        return f"not here; takes {row['takes']}"
    return str(Path(row["found"][0]).parent) if row["found"] else str(row["takes"])


def _print_checked(checked: Checked) -> None:
    from rich.table import Table

    console = results()
    table = Table("split", title=f"{checked.name}: {checked.classes} classes, whole")
    table.add_column("samples", justify="right")
    table.add_column("SHA-256 of its ids", no_wrap=True)
    for split, size in checked.sizes.items():
        table.add_row(split, f"{size:,}", checked.split_sha256.get(split, ""))
    console.print(table)
    for path, digest in checked.files.items():
        console.print(f"{path}: SHA-256 {digest}", soft_wrap=True)
    for sentence in checked.notes:
        console.print(sentence, soft_wrap=True)
