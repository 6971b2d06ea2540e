"""The description of a whole set of predictions: split, class names, masked classes, provenance."""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from focalcal.base.measures import Of, check_of

# Files written before masked classes were a field name them in their provenance, as "1" or "0,2".
_OLD_MASKED_KEY = "masked_classes"


@dataclass(frozen=True)
class Description:
    """Checked facts about all samples of a set of predictions, which has them as fields of the same names."""

    of: Of = "top"
    split: str | None = None
    class_names: tuple[str, ...] | None = None
    masked_classes: tuple[int, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Columns:
    """The caller's facts about the columns of outputs; see ``Predictions.from_logits``."""

    of: Of | None = None
    positive_class: int | str | None = None
    class_dim: int | None = None
    class_names: Sequence[str] | None = None

    def measure(self, columns: int, stored: Of | None = None) -> tuple[Of, int]:
        """Return what is measured of this number of columns, and the number of the positive class, 1 if none is named.

        One column is a score, and several are measured by the predicted class, unless a file or the caller says
        something else.
        """
        if self.of is not None:
            check_of(self.of)
        if "confidence" in (self.of, stored):
            if self.of not in (None, stored) or self.positive_class is not None:
                raise ValueError(
                    "Pairs of confidence and correct, and nothing else, are made with Predictions.from_confidence."
                )
            return "confidence", 1
        if self.positive_class is not None and self.of == "top":
            raise ValueError("positive_class makes a score, which of='top' contradicts; pass one of them.")
        scored = self.of == "score" or self.positive_class is not None
        if scored and columns > 2:
            raise ValueError(
                f"There are {columns} columns, and a score has one, or two of which positive_class names one; for the "
                "score of class k pass probs[:, k] and labels == k."
            )
        if scored or (self.of is None and (stored == "score" or (stored is None and columns == 1))):
            return "score", self._positive_number()
        return "top", 1

    def names(self, positive: int) -> Sequence[str] | None:
        """Return the names of the classes, with the positive one last of two; class 0 as class 1 keeps its number."""
        if positive or self.class_names:
            return self.class_names if positive else tuple(self.class_names or ())[::-1]
        return ("true", "false") if str(self.positive_class).lower() == "false" else ("1", "0")

    def _positive_number(self) -> int:
        number = self.positive_class
        if isinstance(number, str):
            names = list(self.class_names or ())
            if number in ("0", "1") and number not in names:
                return int(number)
            if number.lower() in ("true", "false") and not names:
                return int(number.lower() == "true")
            if names.count(number) != 1:
                raise ValueError(
                    f"positive_class is {number!r}, which class_names ({', '.join(names) or 'none'}) do not name once."
                )
            return names.index(number)
        if number not in (None, 0, 1) or isinstance(number, bool):
            raise ValueError(
                f"positive_class is {number!r}; it is the number (0 or 1) or the name of one of two classes."
            )
        return 1 if number is None else number


def describe(
    num_classes: int,
    *,
    of: Of = "top",
    split: str | None = None,
    class_names: Sequence[str] | None = None,
    masked_classes: Collection[int] = (),
    provenance: Mapping[str, str] | None = None,
) -> Description:
    """Check what is said about all samples, and bring it into one form."""
    if split is not None:
        check_text(split, "split")
    return Description(
        of=of,
        split=split,
        class_names=check_class_names(class_names, num_classes),
        masked_classes=check_masked_classes(masked_classes, num_classes),
        provenance=check_provenance(provenance),
    )


def check_class_names(class_names: Sequence[str] | None, num_classes: int) -> tuple[str, ...] | None:
    """Return the names as a tuple, one per class. Equal names are allowed: real lists have them."""
    if class_names is None:
        return None
    if isinstance(class_names, str):
        raise TypeError("class_names must be a sequence with one name per class, not one string.")
    names = tuple(class_names)
    if len(names) != num_classes:
        raise ValueError(f"There are {len(names)} class_names for {num_classes} classes; pass one per class.")
    for name in names:
        check_text(name, "a class name")
    return tuple(str(name) for name in names)


def check_provenance(provenance: Mapping[str, str] | None) -> dict[str, str]:
    """Return provenance as a dictionary of its own, sorted by key."""
    checked = dict(provenance or {})
    if _OLD_MASKED_KEY in checked:
        raise ValueError(
            "provenance['masked_classes'] does not mask classes; pass masked_classes= and leave it out of provenance."
        )
    for key, value in checked.items():
        check_text(key, "a key of provenance")
        check_text(value, f"provenance[{key!r}]")
    return {str(key): str(checked[key]) for key in sorted(checked)}


def check_masked_classes(masked: Collection[int], num_classes: int) -> tuple[int, ...]:
    """Return the classes that are never the answer, in order; at least two others must be left."""
    try:
        numbers = sorted({-1 if isinstance(number, bool) else operator.index(number) for number in masked})
    except TypeError:
        numbers = [-1]
    if not can_be_masked(numbers, num_classes):
        raise ValueError(
            f"masked_classes is {_shorten(repr(masked))}; it must be classes from 0 to {num_classes - 1} that leave at "
            "least two others."
        )
    return tuple(numbers)


def split_old_provenance(provenance: Mapping[str, str], num_classes: int) -> tuple[tuple[int, ...], dict[str, str]]:
    """Take the masked classes out of the provenance of a file that names them there."""
    rest = dict(provenance)
    named = rest.pop(_OLD_MASKED_KEY, "")
    numbers = sorted({int(part) if part.isdecimal() else -1 for part in named.split(",")} if named else set())
    if not can_be_masked(numbers, num_classes):
        raise ValueError(
            f"The provenance calls {_shorten(repr(named))} masked, which must be classes from 0 to {num_classes - 1}, "
            "separated by commas, that leave at least two others."
        )
    return tuple(numbers), rest


def can_be_masked(numbers: Sequence[int], num_classes: int) -> bool:
    """Return whether numbers in rising order are classes that leave at least two others; in no time, for blocks."""
    return not numbers or (numbers[0] >= 0 and numbers[-1] < num_classes and num_classes - len(numbers) >= 2)


def show_masked(masked: tuple[int, ...]) -> list[str]:
    """Say which classes are masked, in a ``repr``: nothing if none are, and their number if they are many."""
    if not masked:
        return []
    return [f"masked_classes={masked}" if len(masked) <= 8 else f"{len(masked)} masked classes"]


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_text(text: object, name: str) -> None:
    """Refuse text that no file could hold: something other than text, half a surrogate pair, the NUL character."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode text and cannot be saved; correct it.") from None
    if "\0" in text:
        raise ValueError(f"{name} holds a NUL character and cannot be saved; correct it.")
