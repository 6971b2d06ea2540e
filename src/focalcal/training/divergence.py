"""When training has gone wrong for good: what is said about it."""

from collections.abc import Sequence

_SHOWN_IDS = 8
_ADVICE = "try a smaller optimizer.lr, clip_norm=2 or hardware.precision=32"


class Diverged(ArithmeticError):
    """The loss or the outputs are no longer finite numbers."""


def diverged_loss(epoch: int, step: int, ids: Sequence[int]) -> Diverged:
    """For the loss of one step, both counted from 0.

    Examples:
        >>> str(diverged_loss(0, 4, [7, 3])).partition(":")[0]
        'The loss is not a finite number in epoch 1, step 5 (samples 7, 3)'
    """
    more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    samples = ", ".join(map(str, ids[:_SHOWN_IDS])) + more
    where = f"epoch {epoch + 1}, step {step + 1} (samples {samples})"
    return Diverged(f"The loss is not a finite number in {where}: {_ADVICE}; the last checkpoint is untouched.")


def diverged_outputs(split: str, sample: int) -> Diverged:
    """For outputs that are NaN or infinite, as after a step whose gradient was."""
    what = f"The network's output for sample {sample} of split {split} is not finite"
    return Diverged(f"{what}, so its weights are beyond repair: {_ADVICE}; the last checkpoint is untouched.")
