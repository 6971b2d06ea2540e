"""Functions of the user's own code, by the name ``module:function`` that a recipe or a command gives."""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from focalcal.base.suggestions import did_you_mean

# The packages, separated by commas, whose functions recipes may name besides those of the user's own code.
ALLOWED_PACKAGES = "FOCALCAL_FUNCTIONS"
_INSTALLED = {"site-packages", "dist-packages"}


def is_function_name(name: object) -> bool:
    """Return whether a name is that of a function: ``package.module:function``.

    Examples:
        >>> is_function_name("shop.data:load"), is_function_name("cifar10"), is_function_name("C:/data")
        (True, False, False)
    """
    module, colon, function = str(name).partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def import_function(name: str) -> Callable[..., Any]:
    """Import a function by its name; modules in the current folder are found, too.

    A recipe may come from anybody, and names the function and its arguments. Therefore functions of Python itself and
    of focalcal are refused, and those of installed packages unless $FOCALCAL_FUNCTIONS names their package.

    Raises:
        ValueError: There is no such module, it fails when it is imported, it has no such function, or it is not the
            user's own.

    Examples:
        >>> import_function("no_such_module:load")
        Traceback (most recent call last):
        ...
        ValueError: There is no module 'no_such_module' for no_such_module:load in the current folder or installed.
        >>> import_function("numpy:save")
        Traceback (most recent call last):
        ...
        ValueError: numpy:save is from the package numpy: if a recipe may use it, set FOCALCAL_FUNCTIONS=numpy.
    """
    module, _, function = name.partition(":")
    with _current_folder_is_searched():
        _check_own(module, name)
        imported = _import_module(module, name)
        found = getattr(imported, function, None)
        if inspect.isroutine(found) or inspect.isclass(found):  # it may have been imported there from elsewhere
            _check_own(getattr(found, "__module__", None) or module, name)
    if found is None:
        known = [key for key, value in vars(imported).items() if inspect.isfunction(value) and not key.startswith("_")]
        rest = did_you_mean(function, known) if known else ", nor any other."
        raise ValueError(f"The module {module} has no function {function!r}{rest}")
    if not callable(found):
        raise ValueError(f"{name} is not a function but {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def _check_own(module: str, name: str) -> None:
    """Refuse a module that is not the user's own code, before it is imported."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        raise ValueError(f"{name}: {module} is a module of Python itself; name a function of your own code.")
    if package == "focalcal":
        raise ValueError(f"{name}: {module} is a module of focalcal itself; name a function of your own code.")
    allowed = [one.strip() for one in os.environ.get(ALLOWED_PACKAGES, "").split(",")]
    if package not in allowed and _is_installed(package):
        raise ValueError(
            f"{name} is from the package {package}: if a recipe may use it, set {ALLOWED_PACKAGES}={package}."
        )


def _is_installed(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a module without a file, such as __main__
        return False
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
    return any(_INSTALLED & set(Path(place).parts) for place in places)


@contextmanager
def _current_folder_is_searched() -> Iterator[None]:
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
        importlib.invalidate_caches()
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def _import_module(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            where = "in the current folder or installed"
            raise ValueError(f"There is no module {error.name!r} for {name} {where}.") from None
        raise ValueError(f"The module {module} of {name} cannot be imported: {error}.") from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}".rstrip(".")
        raise ValueError(f"The module {module} of {name} cannot be imported: {said}.") from error


def call_function(name: str, options: Mapping[str, Any], offered: Mapping[str, Any]) -> Any:
    """Call a function by its name.

    Args:
        name: ``module:function``.
        options: Arguments that the user gave; each must be one of the function's.
        offered: Arguments that it gets if it has them.

    Raises:
        ValueError: There is no such function, an option is unknown or missing, or the function fails.
    """
    function = import_function(name)
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for option in options:
        if option not in known and not takes_any:
            rest = did_you_mean(option, known) if known else "; it takes none."
            raise ValueError(f"The function {name} has no argument {option!r}{rest}")
    arguments = {key: value for key, value in offered.items() if key in known or takes_any} | dict(options)
    missing = [p.name for p in parameters if p.default is p.empty and p.name in known and p.name not in arguments]
    if missing:
        raise ValueError(f"The function {name} needs the argument {missing[0]!r}, which is not given.")
    try:
        return function(**arguments)
    except (ValueError, OSError):  # what it says of its arguments and files
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        raise ValueError(f"The function {name} failed with {type(error).__name__}: {error} ({place}).") from error
