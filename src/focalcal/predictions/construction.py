"""Construction of predictions: outputs and labels of any shape, checked, and what is said about all of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from focalcal.base.measures import Of
from focalcal.base.suggestions import did_you_mean
from focalcal.predictions.checks import LabelsAre, check_some_weight
from focalcal.predictions.description import Columns, Description, describe
from focalcal.predictions.ids import check_unique
from focalcal.predictions.labels import name_labels
from focalcal.predictions.rows import WORDS, AnyRows, Kind, Rows, count_columns, prepare_rows
from focalcal.predictions.tensors import cpu_tensor


class OutputOptions(TypedDict, total=False):
    """Keyword arguments of ``Predictions.from_logits`` and ``from_probs``, described in the former."""

    class_names: Sequence[str] | None
    masked_classes: Collection[int]
    of: Of | None
    positive_class: int | str | None
    class_dim: int | None
    labels_are: LabelsAre
    ids: Any
    split: str | None
    weights: Any
    groups: Mapping[str, Any] | None
    clusters: Any
    ignore_index: int | None
    provenance: Mapping[str, str] | None
    allow_duplicate_ids: bool


def check_options(options: OutputOptions) -> None:
    """Refuse an option that does not exist, as Python would."""
    for name in options:
        if name not in OutputOptions.__annotations__:
            rest = did_you_mean(name, ["tolerance", *OutputOptions.__annotations__])
            raise TypeError(f"Predictions.from_probs has no argument {name!r}{rest}")


def construct(
    kind: Kind,
    values: Any,
    labels: Any,
    *,
    class_names: Sequence[str] | None = None,
    masked_classes: Collection[int] = (),
    of: Of | None = None,
    positive_class: int | str | None = None,
    class_dim: int | None = None,
    split: str | None = None,
    provenance: Mapping[str, str] | None = None,
    allow_duplicate_ids: bool = False,
    **row_options: Any,
) -> tuple[Rows, Kind, Description]:
    """Find out what the columns are, prepare the rows, and describe them; other options are those of `prepare_rows`."""
    values = cpu_tensor(values, WORDS[kind])
    number = count_columns(values, class_dim)
    labels, names = name_labels(labels, number, class_names, positive_class)
    columns = Columns(of, positive_class, class_dim, names)
    measured, positive = columns.measure(number)
    rows = prepare_rows(kind, values, labels, class_dim=class_dim, positive=positive, **row_options)
    description = describe(
        rows.num_classes,
        of=measured,
        split=split,
        class_names=columns.names(positive),
        masked_classes=masked_classes,
        provenance=provenance,
    )
    return check_whole(rows, allow_duplicate_ids), kind, description


def check_whole(rows: AnyRows, allow_duplicate_ids: bool) -> AnyRows:
    """Check what no single block can show: some sample, some weight, no id twice."""
    if len(rows.values) == 0:
        raise ValueError("There are no samples (or every label is ignore_index); pass at least one.")
    if rows.weights is not None:
        check_some_weight(float(rows.weights.sum()))
    if rows.ids is not None and not allow_duplicate_ids:
        check_unique(rows.ids)
    return rows
