"""Reasons for which training stops early: a signal (SIGTERM or Ctrl-C), and a loss that has diverged."""

import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SHOWN_IDS = 8
_ADVICE = "try a smaller optimizer.lr, clip_norm=2 or hardware.precision=32; the last checkpoint is untouched"


class Diverged(ArithmeticError):
    """The loss or the outputs are no longer finite numbers."""

    @classmethod
    def in_loss(cls, epoch: int, step: int, ids: Sequence[int]) -> "Diverged":
        """Describe a loss that is not finite; epoch and step are counted from 0.

        Examples:
            >>> str(Diverged.in_loss(0, 4, [7, 3])).partition(":")[0]
            'The loss is not a finite number in epoch 1, step 5 (samples 7, 3)'
        """
        more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
        samples = ", ".join(map(str, ids[:_SHOWN_IDS])) + more
        where = f"epoch {epoch + 1}, step {step + 1} (samples {samples})"
        return cls(f"The loss is not a finite number in {where}: {_ADVICE}.")

    @classmethod
    def in_outputs(cls, split: str, sample: int) -> "Diverged":
        """Describe outputs that are NaN or infinite, as after a step whose gradient was."""
        what = f"The network's output for sample {sample} of split {split} is not finite"
        return cls(f"{what}, so its weights are beyond repair: {_ADVICE}.")


class Interrupted(Exception):
    """The run was asked to stop, and has saved its state.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, number: int, place: str) -> None:
        super().__init__(f"Interrupted at {place}; the state is saved: resume with --resume (resume=True).")
        self.signal = number


class Interruption:
    """A context in which a first SIGTERM or Ctrl-C is only noted; a second one has its usual effect.

    The loop stops at the end of the step, when the state can be saved whole. A signal may reach one process of several,
    at any moment. They must stop at the same step, or wait for each other for ever: so they vote, and act on what all
    of them know.

    Attributes:
        signal: The number of the signal that came to this process, or 0.
        agreed: The number of the signal that every process knows of, or 0.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.agreed = 0
        self._before: dict[int, object] = {}

    def votes(self) -> list[float]:
        """Return 1 for a signal that came to this process, 0 for the others."""
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
