"""Tables that ``focalcal evaluate`` prints on demand: of classes, by prediction and by label, and of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from focalcal.cli.output import results

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from focalcal.metrics.group_results import GroupTable
    from focalcal.metrics.predicted_classes import PredictedClasses
    from focalcal.predictions import PredictionsFile

# Of more classes than this, those with the largest gaps are shown.
_MOST_ROWS = 30


@dataclass(frozen=True)
class _Views:
    """Classes by name, where they are predicted, and where they are the label: (count, accuracy) if that is known."""

    names: list[str]
    predicted: PredictedClasses
    labelled: tuple[Tensor, Tensor] | None


def class_table(file: PredictionsFile, bins: int, level: float) -> Table | None:
    """Measure the classes of a file and lay out both views; of answers, the classes that they named, if known."""
    import numpy as np  # imported on use, so that --help stays fast
    from rich.table import Table
    from rich.text import Text

    views = _classes_of_answers(file, level) if file.of == "confidence" else _classes(file, bins, level)
    if views is None:
        return None
    predicted, labelled = views.predicted, views.labelled
    order = np.argsort(-np.nan_to_num(np.abs(predicted.gap)), kind="stable")[:_MOST_ROWS]
    cut = f"; the {len(order)} of {len(views.names):,} with the largest gaps" if len(order) < len(views.names) else ""
    both = "" if labelled is None else ", and where they are the label"
    table = Table(title=f"Classes where they are predicted{both}{cut}")
    heads = ("class", "predicted", "confidence", "accuracy", "gap", f"{100 * level:g}% interval", "p (Holm)")
    for head in (*heads, *(() if labelled is None else ("labelled", "recall"))):
        table.add_column(head, justify="left" if head == "class" else "right", no_wrap=head != "class")
    for row in sorted(order.tolist()):
        interval = f"{_points(predicted.low[row])} … {_points(predicted.high[row])}"
        table.add_row(
            Text(views.names[row]),
            f"{predicted.count[row]:,.6g}",
            _percent(predicted.confidence[row]),
            _percent(predicted.accuracy[row]),
            _points(predicted.gap[row]),
            interval if np.isfinite(predicted.low[row]) else "",
            "–" if np.isnan(predicted.adjusted_p_value[row]) else f"{predicted.adjusted_p_value[row]:.2g}",
            *([] if labelled is None else [f"{float(labelled[0][row]):,.6g}", _percent(float(labelled[1][row]))]),
        )
    return table


def _classes(file: PredictionsFile, bins: int, level: float) -> _Views:
    from focalcal.metrics.samples import block_statistics
    from focalcal.predictions.masking import answer_classes, answer_names
    from focalcal.report.classes import ClassesSoFar, distinct_names

    numbers, found = answer_classes(file), None
    for block in file.blocks():
        found, start = found or ClassesSoFar(len(numbers), bins, block.weights is not None), 0
        for stats, probs in block_statistics(block):
            part = slice(start, start + len(stats))
            found.add(stats, probs, None if block.clusters is None else block.clusters[part])
            start = part.stop
    assert found is not None  # a file without samples is refused
    classes = found.classes(level)
    names = distinct_names(answer_names(file) or [str(number) for number in numbers])
    return _Views(names, classes.predicted, (classes.count, classes.accuracy))


def _classes_of_answers(file: PredictionsFile, level: float) -> _Views | None:
    """Measure the classes that answers named; of the true ones no more is known than whether these were right."""
    from focalcal.metrics.predicted_classes import calibration_by_class, has_named_classes
    from focalcal.predictions.groups import PREDICTED

    preds = file.read()
    if not has_named_classes(preds):
        return None
    return _Views(list(preds.groups[PREDICTED].names), calibration_by_class(preds, level=level), None)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"


def _points(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:+.1f}".replace("-", "−")


def print_group_table(table: GroupTable, metrics: Sequence[str] | None) -> None:
    """Print the groups of one column, the worst first, and what the table leaves out."""
    from rich.table import Table
    from rich.text import Text

    headings, rows = table.rows(metrics)
    shown = Table()
    for number, heading in enumerate(headings):
        shown.add_column(Text(heading), justify="left" if number < 2 else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))
    console = results()
    console.print(shown)
    for sentence in table.sentences()[1:]:
        console.print(sentence, soft_wrap=True)
