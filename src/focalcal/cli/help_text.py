"""Docstrings as help: lines that were broken for the editor become paragraphs, examples stay as they are."""

import inspect
from collections.abc import Callable


def help_text(command: Callable[..., None]) -> str:
    r"""The docstring of a command with one line a paragraph.

    Examples:
        >>> def command() -> None:
        ...     '''Do it.
        ...
        ...     It takes
        ...     long.
        ...
        ...     Examples:
        ...       focalcal command
        ...     '''
        >>> print(help_text(command).replace("\b\n", ""))
        Do it.
        <BLANKLINE>
        It takes long.
        <BLANKLINE>
        Examples:
          focalcal command
    """
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    # Older versions of typer join lines, except in a paragraph that begins with this character.
    return "\n\n".join(f"\b\n{text}" if text.startswith("Examples:") else " ".join(text.split()) for text in paragraphs)
