"""Loss names: the one list that recipes are checked against and losses are built from."""

import re

from focalcal.base.suggestions import did_you_mean

LOSS_NAMES = (
    "cross-entropy",
    "brier",
    "mmce",
    "mmce-formula",
    "ls-0.05",
    "fl-1",
    "fl-2",
    "fl-3",
    "flsc-531",
    "flsc-532",
    "flsd-53",
    "flsd-532",
)
_NUMBERED = re.compile(r"(fl|ls)-([0-9]+(?:\.[0-9]+)?)")


def numbered_loss(name: str) -> tuple[str, float] | None:
    """Split a name made of a kind and a number, fl-<γ> or ls-<α>; None for other names.

    Examples:
        >>> numbered_loss("fl-2.5"), numbered_loss("flsd-53")
        (('fl', 2.5), None)
    """
    found = _NUMBERED.fullmatch(name)
    return (found[1], float(found[2])) if found else None


def problem_of_loss(name: str) -> str | None:
    """Say what is wrong with the name of a loss, without the full stop; None if it can be built.

    Examples:
        >>> problem_of_loss("ls-0.1") is None
        True
        >>> problem_of_loss("flsd53")
        "There is no loss 'flsd53'; did you mean 'flsd-53'?"
        >>> problem_of_loss("ls-1")
        'The α of ls-<α> must lie in [0, 1), got 1'
    """
    numbered = numbered_loss(name)
    if numbered is not None and numbered[0] == "ls" and numbered[1] >= 1:
        return f"The α of ls-<α> must lie in [0, 1), got {numbered[1]:g}"
    if numbered is not None or name in LOSS_NAMES:
        return None
    return f"There is no loss {name!r}" + did_you_mean(name, (*LOSS_NAMES, "ls-<α>", "fl-<γ>"), cutoff=0.4).rstrip(".")
