"""Functions of the user's own code, by the name ``module:function`` that a recipe or a command gives."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from focalcal.base.suggestions import did_you_mean


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

    Modules of Python itself are refused: a recipe could otherwise name any program to be run.

    Raises:
        ValueError: There is no such module, it fails when it is imported, or it has no such function.

    Examples:
        >>> import_function("no_such_module:load")
        Traceback (most recent call last):
        ...
        ValueError: There is no module 'no_such_module' for no_such_module:load in the current folder or installed.
    """
    module, _, function = name.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(f"{name}: {module} is a module of Python itself; name a function of your own code.")
    imported = _import_module(module, name)
    found = getattr(imported, function, None)
    if found is None:
        known = [key for key, value in vars(imported).items() if inspect.isfunction(value) and not key.startswith("_")]
        rest = did_you_mean(function, known) if known else ", nor any other."
        raise ValueError(f"The module {module} has no function {function!r}{rest}")
    if not callable(found):
        raise ValueError(f"{name} is not a function but {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def _import_module(module: str, name: str) -> Any:
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
        importlib.invalidate_caches()
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
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def call_function(name: str, options: Mapping[str, Any], offered: Mapping[str, Any]) -> Any:
    """Call a function by its name.

    Args:
        name: ``module:function``.
        options: Arguments that the user gave; each must be one of the function's.
        offered: Arguments that it gets if it has them.

    Raises:
        ValueError: There is no such function, or an option is unknown or missing.
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
    return function(**arguments)
