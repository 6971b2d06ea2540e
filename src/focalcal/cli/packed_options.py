"""Options that several commands share, or that come by the dozen, handed to a command as one dictionary."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

Command = Callable[..., None]


def option(name: str, kind: Any, help: str, *, hidden: bool = False, panel: str | None = None) -> inspect.Parameter:
    """One option, ``--like-this`` for the name ``like_this``, that is None (or False) where it is not given."""
    info = typer.Option(
        False if kind is bool else None,
        f"--{name.replace('_', '-')}",
        help=help,
        hidden=hidden,
        show_default=False,
        rich_help_panel=panel,
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


def packed(into: str, options: Sequence[inspect.Parameter]) -> Callable[[Command], Command]:
    """Give a command these options in place of its parameter ``into``, which gets those that were given by name.

    Typer reads a function's signature, so the signature is what is changed.
    """
    names = [parameter.name for parameter in options]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != into]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            chosen = {name: arguments.pop(name) for name in names}
            given = {name: value for name, value in chosen.items() if value is not None and value is not False}
            command(**arguments, **{into: given})

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*others, *options)]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
