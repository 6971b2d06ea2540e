"""Groups on the command line: a table per column, and thresholds that every group has to meet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from focalcal.cli.gates import Gate, Judge
from focalcal.cli.output import results

if TYPE_CHECKING:
    from focalcal.metrics import Evaluation
    from focalcal.metrics.group_results import GroupTable

# Thresholds that are exceeded by more groups than this are counted, not named.
_MOST_NAMED = 10


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


def judge_groups(gates: Sequence[Gate], evaluation: Evaluation, judge: Judge) -> list[dict[str, Any]]:
    """Judge every group of at least 10 samples by every threshold: one entry for each, as in JSON."""
    from focalcal.metrics.group_moments import FEWEST_SAMPLES

    found = []
    for column, name, group in _groups(evaluation):
        if group.n < FEWEST_SAMPLES:
            continue
        for gate in gates:
            known = group.values if judge == "estimate" else group.intervals
            if gate.metric in known and not (judge == "upper" and math.isnan(group.intervals[gate.metric][0])):
                value = gate.judged(group, judge)
                found.append({"column": column, "group": name, **gate.to_dict(value)})
    return found


def group_failures(gates: Sequence[Gate], judged: Sequence[dict[str, Any]], judge: Judge) -> list[str]:
    """Say in a sentence each which threshold is exceeded in which group; the first ones, where they are many."""
    failed = [one for one in judged if not one["met"]]
    sentences = []
    for one in failed[:_MOST_NAMED]:
        gate = next(gate for gate in gates if gate.metric == one["metric"] and gate.side in one)
        sentences.append(f"{one['column']} {one['group']}: {gate.failure(one['value'], judge)}")
    if len(failed) > _MOST_NAMED:
        sentences.append(f"Thresholds are exceeded in {len(failed) - _MOST_NAMED:,} more places.")
    return sentences


def not_judged(gates: Sequence[Gate], evaluation: Evaluation, judged: Sequence[dict[str, Any]]) -> str | None:
    """Say how many groups are too small to be judged, or lack a number."""
    count = sum(1 for _ in _groups(evaluation)) * len(gates) - len(judged)
    if not count:
        return None
    return (
        f"--each-group: {count:,} of {count + len(judged):,} thresholds are not judged, because the group has fewer "
        "than 10 samples or no such number."
    )


def _groups(evaluation: Evaluation) -> Iterator[tuple[str, str, Evaluation]]:
    for column, table in evaluation.by.items():
        for name, group in table.groups.items():
            yield column, name, group
