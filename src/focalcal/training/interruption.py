"""SIGTERM and Ctrl-C: noticed at once, answered at the end of the step, when the state can be saved whole."""

import signal
import threading
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(Exception):
    """The run was asked to stop, and has saved its state.

    Attributes:
        signal: the number of the signal.
    """

    def __init__(self, number: int, place: str) -> None:
        super().__init__(f"Interrupted at {place}; the state is saved, and --resume (resume=True) goes on from it.")
        self.signal = number


class Interruption:
    """Within this context a first SIGTERM or Ctrl-C is only noted; a second one has its usual effect.

    A signal may reach one process of several, at any moment. They must stop at the same step, or wait for each other
    for ever: so they vote, and act on what all of them know.

    Attributes:
        signal: the number of the signal that came to this process, or 0.
        agreed: the number of the signal that every process knows of, or 0.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.agreed = 0
        self._before: dict[int, object] = {}

    def votes(self) -> list[float]:
        """For each signal, 1 if it came to this process."""
        return [float(self.signal == number) for number in _SIGNALS]

    def settle(self, votes: list[float]) -> None:
        """Agree on a signal, by the votes summed over the processes."""
        self.agreed = next((int(number) for number, count in zip(_SIGNALS, votes, strict=True) if count), 0)

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}
