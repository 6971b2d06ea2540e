"""Progress of a run on stderr: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, TaskID, TimeRemainingColumn

from focalcal.base.progress import clock, note, on_terminal, progress_bar


class ProgressDisplay:
    """Shows nothing: for other processes than the first, and for callers that want silence."""

    def start(self, epochs: int, steps: int, done: int) -> None:
        """Begin, ``done`` epochs into the run."""

    def step(self, epoch: int, step: int, loss: float) -> None:
        """Show a finished step."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Show the record of a finished epoch."""

    def note(self, sentence: str) -> None:
        """Show a sentence that the user should know."""

    def close(self) -> None:
        """End, when the run is over."""


def progress_display(wanted: bool, name: str) -> ProgressDisplay:
    """Return a bar if stderr is a terminal, lines otherwise; a silent one if progress is not wanted."""
    if not wanted:
        return ProgressDisplay()
    return _Bar(name) if on_terminal() else _Lines(name)


class _Lines(ProgressDisplay):
    def __init__(self, name: str) -> None:
        self._name, self._epochs, self._begin, self._first = name, 0, time.monotonic(), 0

    def start(self, epochs: int, steps: int, done: int) -> None:
        self._epochs, self._first, self._begin = epochs, done, time.monotonic()

    def epoch(self, record: Mapping[str, Any]) -> None:
        done = record["epoch"] + 1
        left = (time.monotonic() - self._begin) / max(1, done - self._first) * (self._epochs - done)
        self.note(f"epoch {done}/{self._epochs}  {describe_epoch(record)}  {clock(left)} left")

    def note(self, sentence: str) -> None:
        note(sentence, about=self._name)


class _Bar(ProgressDisplay):
    def __init__(self, name: str) -> None:
        left = TimeRemainingColumn(elapsed_when_finished=True)
        self._bar = progress_bar("{task.description}", BarColumn(bar_width=20), "{task.fields[text]}", left)
        self._name, self._steps, self._epochs = name, 1, 1
        self._task: TaskID | None = None
        self._figures = ""

    def start(self, epochs: int, steps: int, done: int) -> None:
        self._steps, self._epochs = steps, epochs
        self._bar.start()
        self._task = self._bar.add_task(self._name, total=epochs * steps, completed=done * steps, text="")

    def step(self, epoch: int, step: int, loss: float) -> None:
        if self._task is not None:
            text = f"epoch {epoch + 1}/{self._epochs} step {step}/{self._steps} loss {loss:.3f} {self._figures}"
            self._bar.update(self._task, completed=epoch * self._steps + step, text=text)

    def epoch(self, record: Mapping[str, Any]) -> None:
        if self._task is not None:
            self._figures = describe_epoch(record)
            text = f"epoch {record['epoch'] + 1}/{self._epochs} {self._figures}"
            self._bar.update(self._task, completed=(record["epoch"] + 1) * self._steps, text=text)

    def note(self, sentence: str) -> None:
        self._bar.console.print(f"{self._name}: {sentence}")

    def close(self) -> None:
        self._bar.stop()


def describe_epoch(record: Mapping[str, Any]) -> str:
    """Write the main figures of an epoch.

    Examples:
        >>> describe_epoch({"train": {"loss": 0.5}, "val": {"error": 0.125, "ece": 0.0312, "nll": 0.4}})
        'loss 0.500, validation error 12.5%, NLL 0.400, ECE 3.1%'
    """
    val = record["val"]
    figures = f"validation error {100 * val['error']:.1f}%, NLL {val['nll']:.3f}, ECE {100 * val['ece']:.1f}%"
    return f"loss {record['train']['loss']:.3f}, {figures}"
