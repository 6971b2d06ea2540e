"""Names and values in messages: what was probably meant, and no more of it than helps."""

import difflib
from collections.abc import Iterable


def nearest_name(wrong: object, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Find the known name that was probably meant: case, dashes and underscores do not count.

    Examples:
        >>> nearest_name("Ada-ECE", ["ece", "ada_ece"]), nearest_name("xyz", ["ece"])
        ('ada_ece', None)
    """
    by_plain_form = {_plain(name): name for name in known}
    found = difflib.get_close_matches(_plain(str(wrong)), by_plain_form, n=1, cutoff=cutoff)
    return by_plain_form[found[0]] if found else None


def shorten(text: str, at_most: int = 200) -> str:
    """Return the beginning of a text that may be of any length.

    Examples:
        >>> shorten("digits"), shorten("digits", 3)
        ('digits', 'dig…')
    """
    return text if len(text) <= at_most else f"{text[:at_most]}…"


def did_you_mean(wrong: object, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the end of an error message: the name that was probably meant, or all names if none is near enough.

    Examples:
        >>> "There is no loss 'flsd53'" + did_you_mean("flsd53", ["fl-3", "flsd-53"])
        "There is no loss 'flsd53'; did you mean 'flsd-53'?"
        >>> "There is no loss 'hinge'" + did_you_mean("hinge", ["fl-3", "flsd-53"])
        "There is no loss 'hinge'; known are fl-3, flsd-53."
    """
    names = list(known)
    name = nearest_name(wrong, names, cutoff)
    return f"; known are {', '.join(names)}." if name is None else f"; did you mean {name!r}?"


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
