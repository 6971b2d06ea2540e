"""The table of classes that ``focalcal evaluate --classes`` prints: by predicted class, and by label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.predictions import PredictionsFile

# Of more classes than this, those with the largest gaps are shown.
_MOST_ROWS = 30


def class_table(file: PredictionsFile, bins: int, level: float) -> Table:
    """Measure the classes of a file, in blocks, and lay out both views."""
    import numpy as np  # imported on use, so that --help stays fast
    from rich.table import Table

    from focalcal.metrics.samples import block_statistics, cluster_numbers
    from focalcal.predictions.masking import answer_classes, answer_names
    from focalcal.report.classes import ClassesSoFar, distinct_names

    numbers, found, independent = answer_classes(file), None, True
    for block in file.blocks():
        found = found or ClassesSoFar(len(numbers), bins, block.weights is not None)
        independent &= cluster_numbers(block) is None
        for stats, probs in block_statistics(block):
            found.add(stats, probs)
    assert found is not None  # a file without samples is refused
    classes = found.classes(level, independent)
    predicted = classes.predicted
    names = distinct_names(answer_names(file) or [str(number) for number in numbers])
    order = np.argsort(-np.nan_to_num(np.abs(predicted.gap)), kind="stable")[:_MOST_ROWS]
    cut = f"; the {len(order)} of {len(names):,} with the largest gaps" if len(order) < len(names) else ""
    table = Table(title=f"Classes where they are predicted, and where they are the label{cut}")
    heads = ("class", "predicted", "confidence", "accuracy", "gap", f"{100 * level:g}% interval", "p (Holm)")
    for head in (*heads, "labelled", "recall"):
        table.add_column(head, justify="left" if head == "class" else "right", no_wrap=head != "class")
    for row in sorted(order.tolist()):
        interval = f"{_points(predicted.low[row])} … {_points(predicted.high[row])}"
        table.add_row(
            names[row],
            f"{predicted.count[row]:,.6g}",
            _percent(predicted.confidence[row]),
            _percent(predicted.accuracy[row]),
            _points(predicted.gap[row]),
            interval if np.isfinite(predicted.low[row]) else "",
            "–" if np.isnan(predicted.adjusted_p_value[row]) else f"{predicted.adjusted_p_value[row]:.2g}",
            f"{float(classes.count[row]):,.6g}",
            _percent(float(classes.accuracy[row])),
        )
    return table


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"


def _points(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:+.1f}".replace("-", "−")
