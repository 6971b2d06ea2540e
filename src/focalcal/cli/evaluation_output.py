"""The tables and sentences that ``focalcal evaluate`` prints for people."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from focalcal.cli.output import results
from focalcal.metrics.differences import NO_DIFFERENCE
from focalcal.metrics.evaluation import METRIC_TITLES
from focalcal.report.readings import READINGS, written, written_change, written_interval
from focalcal.report.verdict import verdict

if TYPE_CHECKING:
    from focalcal.cli.measured import ByConvention, Measured
    from focalcal.metrics.differences import Comparison, Difference


def print_evaluation(measured: Measured) -> None:
    """Print everything about one file."""
    console = results()
    console.print(_title(measured))
    console.print(_metrics_table(measured))
    for sentence in (*verdict(measured.evaluation), *measured.evaluation.notes):
        console.print(sentence)
    if measured.convention is not None:
        console.print(_convention_sentence(measured.convention))
    if measured.comparison is not None:
        console.print(f"\n{' compared with '.join(measured.comparison.names)}, sample by sample")
        console.print(_comparison_table(measured.comparison))
        console.print(_comparison_sentence(measured.comparison))
    for gate in measured.gates:
        value = measured.evaluation.values[gate.metric]
        console.print(_gate_line(gate.option, gate.is_met(value)))


def _title(measured: Measured) -> str:
    evaluation = measured.evaluation
    split = "" if measured.file.split is None else f", split {measured.file.split}"
    facts = f"{evaluation.n:,} samples, {evaluation.num_classes} classes, {evaluation.bins} bins"
    return f"{measured.name}: {facts}{split}"


def _metrics_table(measured: Measured) -> Table:
    evaluation = measured.evaluation
    table = Table("metric")
    table.add_column("value", justify="right", no_wrap=True)
    if evaluation.intervals:
        table.add_column(f"{100 * (evaluation.level or 0):g}% interval", no_wrap=True)
    table.add_column("what it says")
    group = None
    for name, value in evaluation.values.items():
        if group not in (None, READINGS[name].group):
            table.add_section()
        group = READINGS[name].group
        interval = written_interval(evaluation.intervals.get(name), partial(written, name))
        cells = [written(name, value), interval, READINGS[name].words]
        table.add_row(METRIC_TITLES[name], *(cells if evaluation.intervals else cells[::2]))
    return table


def _convention_sentence(convention: ByConvention) -> str:
    parts = []
    for name, value in convention.values.items():
        moved = f"{100 * (value - convention.ours[name]):+.4f}".replace("-", "−")
        parts.append(f"{METRIC_TITLES[name]} is {written(name, value)} ({moved} points)")
    return f"In the bins of {convention.name}, {' and '.join(parts)}."


def _comparison_table(comparison: Comparison) -> Table:
    table = Table("metric")
    for heading in (*comparison.names, "difference", "interval", "p"):
        table.add_column(Text(heading), justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for name, difference in comparison.differences.items():
        table.add_row(METRIC_TITLES[name], *_comparison_cells(name, difference), Text(difference.verdict))
    return table


def _comparison_cells(name: str, difference: Difference) -> list[str]:
    return [
        *(written(name, value) for value in difference.values),
        written_change(name, difference.difference),
        written_interval(difference.interval, partial(written_change, name)),
        f"{difference.adjusted_p_value:.3g}",
    ]


def _comparison_sentence(comparison: Comparison) -> str:
    """Which metrics differ, and in whose favour; those that do not are named last."""
    said: dict[str, list[str]] = {}
    for name, difference in comparison.differences.items():
        lower = comparison.names[0] if difference.difference < 0 else comparison.names[1]
        key = f"{lower} has the lower" if difference.is_shown else f"{NO_DIFFERENCE} in"
        said.setdefault(key, []).append(METRIC_TITLES[name])
    ordered = sorted(said.items(), key=lambda item: item[0].startswith(NO_DIFFERENCE))
    sentence = "; ".join(f"{key} {', '.join(names)}" for key, names in ordered)
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence.startswith(NO_DIFFERENCE) else f"{sentence}."


def _gate_line(option: str, met: bool) -> Text:
    return Text(f"{option}: {'kept' if met else 'NOT KEPT'}", style="green" if met else "bold red")
