"""What goes wrong, in one sentence on stderr, in the words of the command line."""

import re

import typer

from focalcal.cli.output import say

# Newer versions of typer have a click of their own; the base of BadParameter is the usage error of either.
_UsageError: type[BaseException] = typer.BadParameter.__bases__[0]
_INTERRUPTED = 130
_BAD_INPUT = (ValueError, TypeError, OSError, ArithmeticError, MemoryError)

# The library speaks of keyword arguments, a user of the command has options.
_KEYWORDS = r"(?:logits|probs|labels|weights|ids)_key|ignore_index|allow_duplicate_ids|allow_test"
_KEYWORD = re.compile(rf"(?<![\w./\\-])({_KEYWORDS})(?:=True)?(?!\.?\w)")
_FUNCTION = re.compile(r"\buse from_(logits|probs)\b")


def run(app: typer.Typer) -> int:
    """Run the command that the arguments name, and give the exit code: 2 for wrong usage and bad input."""
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        return _usage(error)
    except _BAD_INPUT as error:
        say(sentence(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        say("interrupted.")
    return code if isinstance(code, int) else 0


def sentence(error: BaseException) -> str:
    """The message on one line, with options in place of keyword arguments.

    Examples:
        >>> sentence(ValueError("a.npz: it has no 'labels'; name them with labels_key."))
        "a.npz: it has no 'labels'; name them with --labels-key."
    """
    message = " ".join(str(error).split()) or type(error).__name__
    message = _KEYWORD.sub(lambda match: "--" + match[1].replace("_", "-"), message)
    return _FUNCTION.sub(r"name them with --\1-key", message)


def _usage(error: BaseException) -> int:
    message = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    if not message:  # no arguments at all: the help has been asked for
        return 2
    context = getattr(error, "ctx", None)
    command = "focalcal" if context is None else context.command_path
    say(f"{message.rstrip('.')} (see '{command} --help').")
    return 2
