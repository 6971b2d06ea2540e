"""The API reference: one page per package, made when the pages are built from the names that packages list as public.

A hook of mkdocs. Nothing has to be written down twice: a name that a package lists (the imports and ``__all__`` of its
``__init__.py``) has one entry, at the place where it is defined.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
# Packages that are public although the top one does not list them, as they are needed by few.
_FURTHER = ("translation", "paper")
_INTEGRATIONS = "focalcal.integrations"
# Modules without a page; a name that is defined there is on the page of the package that lists it.
_UNLISTED = ("base", "loss_names", "temperature")


def pages() -> dict[str, list[str]]:
    """List the entries of each page: full names by the package that has them; each name is on one page, once."""
    top = public_names("focalcal")
    rooms = sorted({name for name, home in top.items() if home == "focalcal"} | set(_FURTHER))
    found: dict[str, list[str]] = {room: [] for room in rooms}
    for room in rooms:
        found[room] = [resolve(f"focalcal.{room}", name) for name in public_names(f"focalcal.{room}")]
    for name, home in top.items():
        if home != "focalcal":
            place = resolve(home, name)
            found.setdefault(place.split(".")[1], []).append(place)
    found.setdefault("integrations", []).extend(_integrations())
    # Where a name is listed by two packages, its entry is on the page of the one that defines it.
    own = {
        page: [place for place in places if place.split(".")[1] in (page, *_UNLISTED)] for page, places in found.items()
    }
    return {page: list(dict.fromkeys(places)) for page, places in own.items() if places}


def public_names(package: str) -> dict[str, str]:
    """Map the public names of a package to the modules that it imports them from, without importing it."""
    tree = _tree(package)
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    nodes = [*tree.body, *(node for block in blocks for node in block.body)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and str(node.module).startswith("focalcal")]
    listed = _listed(tree)
    names = {alias.name: str(node.module) for node in imports for alias in node.names}
    # A package that imports on first use lists its names for type checkers only; another one has them in __all__.
    if listed is None and blocks:
        return {name: home for name, home in names.items() if name not in ("lazy_names", "__version__")}
    return {name: names.get(name, package) for name in listed or ()}


def resolve(module: str, name: str) -> str:
    """Find where a name is defined, by following the imports that lead there."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return resolve(str(node.module), name)
    return f"{module}.{name}"


def _integrations() -> Iterator[str]:
    """List what the modules for other frameworks define; a module that others of them import has none for users."""
    folder = SOURCE / "focalcal/integrations"
    files = [*folder.glob("[!_]*.py"), *(package.parent for package in folder.glob("*/__init__.py"))]
    modules = [f"{_INTEGRATIONS}.{file.stem}" for file in sorted(files)]
    imported = {
        node.module for module in modules for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom)
    }
    for module in modules:
        names = _listed(_tree(module))
        if names is None:
            names = [] if module in imported else _defined(_tree(module))
        yield from (resolve(module, name) for name in names)


def _listed(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def _defined(tree: ast.Module) -> list[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


@cache
def _tree(module: str) -> ast.Module:
    path = SOURCE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def write_page(page: str, places: list[str]) -> str:
    """Write a page in Markdown: what the package is, then its names, those of one module together."""
    about = (ast.get_docstring(_tree(f"focalcal.{page}")) or "").split("\n\n")[0]
    parts = [f"# focalcal.{page}", about]
    by_module: dict[str, list[str]] = {}
    for place in places:
        by_module.setdefault(place.rpartition(".")[0], []).append(place)
    for module, names in by_module.items():
        title = (ast.get_docstring(_tree(module)) or module).splitlines()[0].rstrip(".")
        parts += [f"## {title}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Mapping[str, Any]) -> Any:
    """Add the pages to those that mkdocs builds."""
    from mkdocs.structure.files import File

    for page, places in pages().items():
        files.append(File.generated(config, f"api/{page}.md", content=write_page(page, places)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Show names that docstrings refer to, ``:class:`~package.Name```, as code without the role and the path."""
    return re.sub(r":(?:class|meth|func|attr|mod):<code>(?:~?(?:\w+\.)+)?(\w+)</code>", r"<code>\1</code>", html)
