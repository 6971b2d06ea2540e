"""One run of a sweep: trained in this process, what it prints in its log, and how it ended."""

import errno
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from enum import IntEnum
from pathlib import Path

from focalcal.base.files import check_links, make_folder, open_appending
from focalcal.recipes import Recipe
from focalcal.training.run_directory import RunDirectory

# Errors of a machine, not of what it was asked to do: another machine, or a later time, may have none.
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EROFS}

# Everything that a run may end with and say itself; anything else is a bug, whose traceback is kept.
_FAILURES = (OSError, ArithmeticError, MemoryError, ValueError, TypeError)


class Ending(IntEnum):
    """Ending of a run; the exit code of its process."""

    FINISHED = 0
    FAILED = 1
    REFUSED = 2
    INTERRUPTED = 3
    MACHINE_FAILED = 4
    IN_USE = 5


def train_run(recipe: Recipe, path: Path, command: list[str]) -> tuple[Ending, str]:
    """Train one run, or resume it, with everything that it prints in ``train.log``; return its ending and the reason.

    Args:
        recipe: The recipe.
        path: The run directory.
        command: The command line that the run records as its own.
    """
    from focalcal.training import Interrupted, train

    before, sys.argv = sys.argv, command
    log = RunDirectory(path).output
    try:
        make_folder(path)
        check_links(path)
        with open_appending(log) as file, redirect_stdout(file), redirect_stderr(file):
            try:
                train(recipe, out=path, resume=True)
            except Interrupted as error:
                print(error)
                return Ending.INTERRUPTED, str(error)
            except _FAILURES as error:
                print(f"FAILED: {error}")
                return _ending(error), str(error)
            except Exception as error:
                traceback.print_exc()
                reason = f"it failed with {type(error).__name__}: {error} (see {log})"
                print(f"FAILED: {reason}")
                return Ending.FAILED, reason
    except OSError as error:  # while the log is written
        return _ending(error), f"{log} cannot be written: {error.strerror or error}."
    except ValueError as error:  # of its folder, or when the log is opened
        return _ending(error), str(error)
    finally:
        sys.argv = before
    return Ending.FINISHED, ""


def _ending(error: Exception) -> Ending:
    """Tell errors of the machine and of the run's own making from bad input, which every run may have in common.

    Examples:
        >>> full = OSError(errno.ENOSPC, "No space left on device")
        >>> _ending(full).name, _ending(ValueError("epochs")).name, _ending(ArithmeticError()).name
        ('MACHINE_FAILED', 'REFUSED', 'FAILED')
    """
    from focalcal.training.preconditions import RunInUse

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _MACHINE):
            return Ending.MACHINE_FAILED
        cause = cause.__cause__
    if isinstance(error, RunInUse):
        return Ending.IN_USE
    return Ending.REFUSED if isinstance(error, ValueError | TypeError) else Ending.FAILED
