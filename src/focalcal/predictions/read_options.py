"""Options for reading files: the names of the parts, and facts that a file does not say itself."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

from focalcal.base.measures import Of
from focalcal.predictions.checks import LabelsAre
from focalcal.predictions.rows import Kind, check_kind

# One name, or in a table the names of several columns.
Key = str | tuple[str, ...]


class ReadOptions(TypedDict, total=False):
    """Keyword arguments of ``open_predictions`` and ``Predictions.load``, described in the former."""

    logits_key: str | Sequence[str] | None
    probs_key: str | Sequence[str] | None
    labels_key: str | Sequence[str] | None
    weights_key: str | None
    ids_key: str | None
    confidence_key: str | None
    correct_key: str | None
    predicted_key: str | None
    clusters_key: str | None
    groups_key: Sequence[str]
    of: Of | None
    positive_class: int | str | None
    class_dim: int | None
    labels_are: LabelsAre
    kind: Kind | None
    labels: Any
    split: str | None
    class_names: Sequence[str] | None
    masked_classes: Collection[int] | None
    ignore_index: int | None
    tolerance: float | None
    allow_duplicate_ids: bool
    drop_missing: bool


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The same options with their defaults."""

    logits_key: Key | None = None
    probs_key: Key | None = None
    labels_key: Key | None = None
    weights_key: str | None = None
    ids_key: str | None = None
    confidence_key: str | None = None
    correct_key: str | None = None
    predicted_key: str | None = None
    clusters_key: str | None = None
    groups_key: tuple[str, ...] = ()
    of: Of | None = None
    positive_class: int | str | None = None
    class_dim: int | None = None
    labels_are: LabelsAre = "probs"
    kind: Kind | None = None
    labels: Any = None
    split: str | None = None
    class_names: Sequence[str] | None = None
    masked_classes: Collection[int] | None = None
    ignore_index: int | None = -100
    tolerance: float | None = None
    allow_duplicate_ids: bool = False
    drop_missing: bool = False

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_kind(self.kind)
        keyed = [kind for kind in get_args(Kind) if self.key(kind) is not None]
        if len(keyed) > 1:
            named = " or ".join(f"{kind}_key" for kind in keyed)
            raise ValueError(f"Pass {named}, not both: predictions are one or the other.")
        if keyed and self.kind not in (None, keyed[0]):
            raise ValueError(f"kind={self.kind!r} contradicts {keyed[0]}_key; pass one of them.")
        if self.drop_missing and self.labels is not None:
            raise ValueError("Labels that are passed have no rows to drop; put them into the file, or fill its gaps.")
        self._check_pairs(keyed)

    def _check_pairs(self, keyed: Sequence[str]) -> None:
        """Check that a confidence comes with what says whether an answer is right, and with nothing else."""
        if self.confidence_key is None:
            if self.correct_key is not None or self.predicted_key is not None:
                raise ValueError("correct_key and predicted_key belong to a confidence; name it with confidence_key.")
            return
        if keyed or self.kind is not None:
            raise ValueError("Pass confidence_key, or logits_key or probs_key: predictions are one or the other.")
        if self.correct_key is not None and self.predicted_key is not None:
            raise ValueError("Pass correct_key, or predicted_key and labels_key: they could contradict each other.")
        if self.labels_key is not None and self.predicted_key is None:
            raise ValueError("labels_key says which answers are right only beside predicted_key; pass both.")

    @classmethod
    def choose(cls, options: ReadOptions) -> "Choices":
        """Refuse an option that does not exist, as Python would, but in a sentence about reading."""
        unknown = [name for name in options if name not in cls.__dataclass_fields__]
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise TypeError(f"There is no option {unknown[0]!r} for reading predictions; there are {known}.")
        keys = {name: _make_hashable(options.get(name)) for name in ("logits_key", "probs_key", "labels_key")}
        groups = options.get("groups_key", ())
        keys["groups_key"] = (groups,) if isinstance(groups, str) else tuple(groups)
        return cls(**{**options, **keys})  # type: ignore[arg-type]

    def key(self, part: str) -> Key | None:
        """Return the name that the caller gave to a part, or None."""
        key: Key | None = getattr(self, f"{part}_key")
        return key


def _make_hashable(key: Any) -> Key | None:
    return key if key is None or isinstance(key, str) else tuple(key)
