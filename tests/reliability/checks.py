"""What every hostile case is held against: a result, or one sentence that names the file, in time; nothing lost."""

import contextlib
import faulthandler
import io
import re
import signal
import sys
import traceback
from pathlib import Path

import torch

import focalcal
from focalcal.cli import app
from focalcal.cli.failures import run as run_command
from focalcal.predictions import Predictions
from reliability.corpus import Sample

REFUSALS = (ValueError, TypeError, FileNotFoundError)
LONGEST_MESSAGE = 4000
PARTS = ("weights", "ids", "split", "class_names", "masked_classes", "provenance", "groups", "clusters")


class Failure(Exception):
    """A case that ended as none may."""


def refused_or(path: Path, read, *, named: bool = True):
    """Return what is read, or None after a refusal in one sentence that names the file."""
    try:
        return read()
    except REFUSALS as error:
        message = str(error)
        check_said_by_us(error)
        if not message or len(message) > LONGEST_MESSAGE:
            raise Failure(f"a refusal of {len(message)} characters") from error
        if named and path.name not in message:
            raise Failure(f"a refusal that does not name the file: {message[:300]}") from error
        return None


def check_said_by_us(error: BaseException) -> None:
    """Refuse an error that looks like a refusal and is none: no ``raise`` of focalcal's made it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not _is_ours(last.filename) or not (last.line or "").startswith("raise"):
        raise Failure(
            f"not a sentence of ours, from {Path(last.filename).name}, line {last.lineno}: {error}"
        ) from error


def _is_ours(filename: str) -> bool:
    return Path(filename).is_relative_to(Path(focalcal.__file__).parent)


def check_nothing_lost(sample: Sample, path: Path, loaded: Predictions) -> None:
    """Refuse values and labels that are whole beside a part that is gone."""
    preds = sample.preds
    if preds is None or not torch.equal(loaded.values, preds.values):
        return
    before, after = preds.labels_or_none, loaded.labels_or_none
    if before is not None and (after is None or not torch.equal(before, after)):
        if after is None:
            raise Failure("labels were lost in silence")
        return
    if ".csv" not in path.suffixes and b"arrays" not in path.read_bytes():
        return  # saved again without the statement of contents, as others do
    for part in PARTS:
        before, after = getattr(preds, part), getattr(loaded, part)
        is_fewer = after is not None and not isinstance(before, str) and before is not None and len(after) < len(before)
        if before is not None and len(before) and (after is None or is_fewer):
            raise Failure(f"{part} was lost in silence")


def run_cli(*arguments) -> int:
    """Run a command in this process: it may succeed, fail or refuse, in one sentence, and never by a bug."""
    before, sys.argv = sys.argv, ["focalcal", "--traceback", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(app)
    finally:
        sys.argv = before
    if code not in (0, 1, 2):
        raise Failure(f"exit code {code} of {' '.join(map(str, arguments))}: {err.getvalue()[-500:]}")
    if code == 2 and not err.getvalue().strip():
        raise Failure(f"{arguments[0]} said nothing")
    if "Traceback" in err.getvalue():
        _check_traceback(err.getvalue())
    return code


def _check_traceback(text: str) -> None:
    """Refuse what ``--traceback`` shows unless its last line of code is a ``raise`` of focalcal's."""
    *_, (filename, line) = re.findall(r'^  File "(.+)", line \d+, in .*\n    (.*)', text, re.MULTILINE)
    if not _is_ours(filename) or not line.startswith("raise"):
        raise Failure(f"not a sentence of ours: {text[-500:]}")


@contextlib.contextmanager
def limited(seconds: float, waiting: float = 600):
    """Interrupt what takes many seconds of the processor, or waits for ever; the load of others does not count.

    A loop of C hears no signal: the process then ends a minute after the wait, with the place where it hangs.
    """

    def hang(*_):
        raise Failure(f"a hang: {seconds} s of the processor, or {waiting} s of waiting")

    limits = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, waiting)}
    before = {number: signal.signal(number, hang) for number in limits}
    for timer, limit in limits.values():
        signal.setitimer(timer, limit)
    faulthandler.dump_traceback_later(waiting + 60, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
