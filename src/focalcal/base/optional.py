"""Optional packages: imported on use, with an error that says what to install."""

import importlib
import importlib.metadata
import re
from typing import Any


def import_optional(module: str, *, extra: str, what: str, at_least: str | None = None) -> Any:
    """Import a module of a package that an extra brings.

    Args:
        module: Full name of the module, such as "matplotlib.figure".
        extra: The extra of focalcal that installs its package.
        what: The thing that needs it, in the plural, for the sentence.
        at_least: Oldest version of the package that works.

    Raises:
        ImportError: One sentence that names the extra: the package is missing or too old.

    Examples:
        >>> import_optional("json", extra="plots", what="Pictures").loads("1")
        1
        >>> import_optional("no_such_package.part", extra="plots", what="Pictures")
        Traceback (most recent call last):
        ImportError: Pictures need no_such_package, which is not installed: pip install 'focalcal[plots]'.
    """
    package = module.partition(".")[0]
    # Before the import, which an old version may not survive beside newer packages.
    if at_least is not None and (found := _version(package)) is not None and _numbers(found) < _numbers(at_least):
        raise ImportError(
            f"{what} need {package} {at_least} or newer, and {found} is installed: pip install --upgrade "
            f"'focalcal[{extra}]'.",
            name=package,
        )
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and lacks something itself
            raise
        raise ImportError(
            f"{what} need {package}, which is not installed: pip install 'focalcal[{extra}]'.", name=package
        ) from None
    return importlib.import_module(module)


def _version(package: str) -> str | None:
    """Return the version of an installed distribution; None where it goes by another name than its package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Read the release of a version, without what follows it.

    Examples:
        >>> _numbers("2.10.0rc1") > _numbers("2.9")
        True
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
