"""Exit codes, and failures in one sentence on stderr, in the words of the command line.

0: done. 1: a threshold was exceeded, or a run failed. 2: wrong usage or bad input. 3: a bug in focalcal. 130: Ctrl-C.
"""

import re
import sys
import traceback
import warnings
from pathlib import Path

import typer

from focalcal._version import __version__
from focalcal.base.notices import PredictionsWarning
from focalcal.base.progress import note

# Newer versions of typer have a click of their own; the base of BadParameter is the usage error of either.
_UsageError: type[BaseException] = typer.BadParameter.__bases__[0]
_BAD_INPUT, _BUG, _INTERRUPTED = 2, 3, 130
_ERRORS_OF_INPUT = (ValueError, TypeError, OSError, OverflowError)
# An optional package that is missing is named with the extra that brings it.
_EXTRA = re.compile(r"focalcal\[\w+\]")

_LONGEST = 3000
# Names of temporary files, and what the user calls what is in them.
_NAMES: dict[str, str] = {}

# The library speaks of keyword arguments, a user of the command has options.
_KEYS = r"(?:logits|probs|labels|weights|ids|confidence|correct|predicted|clusters|groups)_key"
_OTHERS = r"ignore_index|allow_duplicate_ids|allow_test|drop_missing|class_dim|class_names|labels_are|positive_class"
_KEYWORDS = rf"{_KEYS}|{_OTHERS}"
# Options that are not called like the keyword argument.
_RENAMED = {"positive_class": "--positive-label", "groups_key": "--by"}
_KEYWORD = re.compile(rf"(?<![\w./\\-])({_KEYWORDS})(?:=(?:True|'([^']*)'))?(?!\.?\w)")
_NUMBER = re.compile(r"\b(bins|bootstrap|level|seed)=(\d+(?:\.\d+)?)")
_FUNCTION = re.compile(r"\buse from_(logits|probs)\b")


def run(app: typer.Typer) -> int:
    """Run the command that the arguments name, and return the exit code."""
    shows_traceback = "--traceback" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--traceback"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            warnings.simplefilter("default", PredictionsWarning)
            code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except _UsageError as error:
        return _report_usage(error)
    except Exception as error:
        if shows_traceback:
            traceback.print_exc()
        return _report(error)
    if code == _INTERRUPTED:
        note("interrupted.")
    return code if isinstance(code, int) else 0


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """Show a warning of ours as one line, in the words of the command line; others as Python writes them."""
    if category.__module__.startswith("focalcal."):
        note(sentence(str(message)))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def _report(error: Exception) -> int:
    if _is_out_of_memory(error):
        note("there is not enough memory for this; evaluate reads large files block by block, others need more memory.")
        return _BAD_INPUT
    if isinstance(error, _ERRORS_OF_INPUT) or (isinstance(error, ImportError) and _EXTRA.search(str(error))):
        note(sentence(error))
        return _BAD_INPUT
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    what = f"{type(error).__name__} in {place}: {sentence(error).rstrip('.')}"
    note(f"this is a bug in focalcal {__version__} ({what}); add --traceback to see where, and please report it.")
    return _BUG


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory could not be had; torch has no exception of its own for that on the CPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))


def rename_in_messages(path: Path, name: str) -> None:
    """Let messages speak of a temporary file by a name that the user knows."""
    _NAMES.update({str(path): name, path.name: name})


def sentence(error: BaseException | str) -> str:
    """Write a message on one line, with options instead of keyword arguments.

    Examples:
        >>> sentence(ValueError("a.npz: it has no 'labels'; name them with labels_key."))
        "a.npz: it has no 'labels'; name them with --labels-key."
        >>> sentence("Read them with probs_key='scores'.")
        'Read them with --probs-key scores.'
    """
    message = " ".join(_text(error).split())
    if not message and isinstance(error, BaseException):
        return type(error).__name__
    for file, name in _NAMES.items():
        message = message.replace(file, name)
    if len(message) > _LONGEST:  # it has a name or a value in it that came from a file
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    message = _KEYWORD.sub(_option, _NUMBER.sub(r"--\1 \2", message))
    return _FUNCTION.sub(r"name them with --\1-key", message)


def _text(error: BaseException | str) -> str:
    """Return a message; one of the system that nobody has put into words, without its number."""
    if isinstance(error, OSError) and isinstance(error.filename, str) and error.strerror:
        return f"{error.filename} cannot be read or written: {error.strerror}."
    return str(error)


def _option(match: re.Match[str]) -> str:
    name = _RENAMED.get(match[1], "--" + match[1].replace("_", "-"))
    return f"{name} {match[2]}" if match[2] else name


def _report_usage(error: BaseException) -> int:
    message = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    if not message:  # no arguments at all: the help has been asked for
        return _BAD_INPUT
    context = getattr(error, "ctx", None)
    command = "focalcal" if context is None else context.command_path
    note(f"{message.rstrip('.')} (see '{command} --help').")
    return _BAD_INPUT
