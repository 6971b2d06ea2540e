"""Public names of a package that are imported on first use."""

import ast
import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are listed for type checkers only.

    The list is the ``if TYPE_CHECKING:`` block of the package's own source, which type checkers and editors read, too:
    a public name stands in one place.

    Args:
        package: The package's ``__name__``.
    """
    module = sys.modules[package]
    loader: Any = module.__spec__.loader if module.__spec__ is not None else None
    where = _map_names(loader.get_source(package))

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # What the package lists from itself is a module of it.
        is_module = where[name] == package
        value = importlib.import_module(f"{package}.{name}" if is_module else where[name])
        value = value if is_module else getattr(value, name)
        setattr(module, name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*where, *(name for name in vars(module) if name.startswith("__"))})

    return get, list_names, sorted(where)


def _map_names(source: str) -> dict[str, str]:
    r"""Map each name to its module.

    Examples:
        >>> _map_names("if TYPE_CHECKING:\n    from package.module import name as name")
        {'name': 'package.module'}
    """
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
