"""``focalcal evaluate``: every metric of a predictions file, with intervals, a verdict and an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from focalcal.base.files import check_destination
from focalcal.base.measures import MEASURES
from focalcal.base.progress import note, spinner
from focalcal.cli.gates import GATE_OPTIONS, Gate, Judge, checked_side, chosen_gates
from focalcal.cli.inputs import open_input
from focalcal.cli.ood import measure_ood, named_files, print_ood
from focalcal.cli.options import READ_OPTIONS, Bins, Bootstrap, Json, Level, Seed, names_in, packed
from focalcal.cli.output import command_line, print_json, results
from focalcal.metrics.catalogue import METRICS, describe_metric
from focalcal.report.readings import data_size, measured_by, written, written_interval
from focalcal.report.verdict import verdict

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.metrics import Evaluation
    from focalcal.metrics.binning import BinSums
    from focalcal.metrics.calibration_error import Convention
    from focalcal.predictions import PredictionsFile


@packed("gates", GATE_OPTIONS)
@packed("reading", READ_OPTIONS)
def evaluate(
    predictions: Annotated[
        Path,
        typer.Argument(metavar="PREDICTIONS", help="A predictions file, or a run directory (its test predictions)."),
    ],
    bins: Bins = 15,
    bootstrap: Bootstrap = 1000,
    level: Level = 0.9,
    seed: Seed = 0,
    method: Annotated[
        str | None,
        typer.Option(help="Method of all intervals: honest, basic, percentile or bca; by default each metric's own."),
    ] = None,
    intervals: Annotated[bool, typer.Option(help="Whether to compute confidence intervals.")] = True,
    judge: Annotated[
        str, typer.Option(help="estimate or upper: what a threshold is compared with, the number or its worse end.")
    ] = "estimate",
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas: ece,nll,error.")] = None,
    convention: Annotated[
        str, typer.Option(help="torchmetrics or netcal: show ECE and MCE as they bin, and how far they move.")
    ] = "focalcal",
    compare: Annotated[Path | None, typer.Option(hidden=True)] = None,
    ood: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Predictions on out-of-distribution data; a run's own are found."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report, as HTML, to this file.")] = None,
    json: Json = False,
    *,
    reading: dict[str, Any],
    gates: dict[str, float],
) -> None:
    """Measure how far a classifier's confidence can be trusted.

    Reads .safetensors, .npz, .parquet or .csv with labels and logits or probabilities. Prints every metric with its
    confidence interval, and a verdict in words.

    The intervals of calibration errors cover the truth whatever it is, and need no resampling; --bootstrap is for the
    others.

    There is a --max-METRIC and a --min-METRIC for every metric, which take fractions (0.02 is 2%). The exit code is 1
    if such a threshold is exceeded, and 2 for bad input. With --judge upper the whole interval has to meet it.

    Examples:
      focalcal evaluate test.safetensors
      focalcal evaluate test.npz --max-ece 0.02 --min-accuracy 0.9
      focalcal evaluate test.npz --max-ece 0.05 --judge upper
      focalcal evaluate test.npz --json --metrics ece,nll --bootstrap 0
      focalcal evaluate test.npz --report report.html
      focalcal evaluate test.npz --ood other=new.npz
      focalcal evaluate scores.csv --probs-key score --labels-key truth
    """
    thresholds = chosen_gates(gates)
    if compare is not None:
        raise ValueError(f"--compare is a command of its own: use `focalcal compare {predictions} {compare}`.")
    settings = {"bins": bins, "bootstrap": bootstrap, "level": level, "seed": seed}
    if report is not None:
        check_destination(report, [predictions] if predictions.is_file() else [])
    chosen = names_in(metrics, "--metrics")
    wanted = {"method": method, "intervals": intervals}
    measurement = _measure(predictions, chosen, thresholds, convention, settings | wanted, reading, checked_side(judge))
    outside = measure_ood(predictions, named_files(ood or []), reading)
    if json:
        content = measurement.to_dict(settings)
        print_json({**content, "ood": outside} if outside else content)
    else:
        measurement.print()
        if outside:
            print_ood(outside)
        measurement.print_gates()
    if report is not None:
        _write_report(predictions, report, settings, reading)
    for failure in measurement.failures:
        note(failure)
    if measurement.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _InOtherBins:
    """ECE and MCE as another library bins, and as focalcal does."""

    name: str
    values: dict[str, float]
    ours: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        moved = {metric: value - self.ours[metric] for metric, value in self.values.items()}
        return {"name": self.name, "values": self.values, "moved": moved}

    def __str__(self) -> str:
        parts = []
        for name, value in self.values.items():
            moved = f"{100 * (value - self.ours[name]):+.4f}".replace("-", "−")
            parts.append(f"{METRICS[name].heading} is {written(name, value)} ({moved} points)")
        return f"In the bins of {self.name}, {' and '.join(parts)}."


@dataclass(frozen=True)
class _Measurement:
    """Everything about one file."""

    name: str
    file: PredictionsFile
    evaluation: Evaluation
    gates: list[Gate]
    other_bins: _InOtherBins | None
    judge: Judge = "estimate"

    def judged(self, gate: Gate) -> float:
        """Return what a gate is compared with."""
        return gate.judged(self.evaluation, self.judge)

    @property
    def failures(self) -> list[str]:
        found = [(gate, self.judged(gate)) for gate in self.gates]
        return [gate.failure(value, self.judge) for gate, value in found if not gate.is_met(value)]

    def to_dict(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return everything for JSON: no path of the machine, only the file's name."""
        return {
            "file": Path(self.file.path).name,
            "kind": self.file.kind,
            "split": self.file.split,
            "measured": MEASURES[self.file.of].sentence,
            **self.evaluation.to_dict(),
            "bootstrap": settings["bootstrap"],
            "seed": settings["seed"],
            "verdict": verdict(self.evaluation),
            "judge": self.judge,
            "gates": [gate.to_dict(self.judged(gate)) for gate in self.gates],
            "gates_met": not self.failures,
            **({} if self.other_bins is None else {"convention": self.other_bins.to_dict()}),
        }

    def print(self) -> None:
        """Print the table and the verdict."""
        console, found = results(), self.evaluation
        split = "" if self.file.split is None else f", split {self.file.split}"
        console.print(f"{self.name}: {data_size(found)}{split}")
        console.print(measured_by(found.of))
        console.print(_metrics_table(found))
        for sentence in (*verdict(found), *found.notes, *([] if self.other_bins is None else [str(self.other_bins)])):
            console.print(sentence)

    def print_gates(self) -> None:
        """Print which thresholds are met."""
        from rich.text import Text

        for gate in self.gates:
            met = gate.is_met(self.judged(gate))
            words, style = ("met", "green") if met else ("NOT MET", "bold red")
            results().print(Text(f"{gate.option}: {words}", style=style))


def _measure(
    path: Path,
    metrics: list[str] | None,
    gates: list[Gate],
    convention: str,
    settings: dict[str, Any],
    reading: dict[str, Any],
    judge: Judge,
) -> _Measurement:
    from focalcal.metrics import evaluate

    file = open_input(path, reading)
    with spinner(f"evaluating {path.name}"):
        names = None if metrics is None else list(dict.fromkeys([*metrics, *(gate.metric for gate in gates)]))
        other_bins = None if convention == "focalcal" else _in_other_bins(file, settings["bins"], convention)
        evaluation = evaluate(file, metrics=names, **settings)
    for gate in gates:
        if gate.metric not in evaluation.values:
            raise ValueError(f"{gate.metric} cannot be computed from these predictions; leave out {gate.option}.")
        if judge == "upper" and gate.metric not in evaluation.intervals:
            raise ValueError(f"{gate.metric} has no interval here, which --judge upper needs; leave out {gate.option}.")
    return _Measurement(path.resolve().name, file, evaluation, gates, other_bins, judge)


def _in_other_bins(file: PredictionsFile, bins: int, convention: str) -> _InOtherBins:
    """Compute ECE and MCE in another library's bins and in ours, in one pass over the file."""
    from focalcal.metrics.binning import largest_gap, mean_gap
    from focalcal.metrics.calibration_error import bins_by_convention

    names = (convention, "focalcal")
    totals: dict[str, BinSums] = {}
    for block in file.blocks():
        for name in names:
            sums = bins_by_convention(block, bins, cast("Convention", name))
            totals[name] = _add(totals[name], sums) if name in totals else sums
    theirs, ours = ({"ece": mean_gap(totals[name]), "mce": largest_gap(totals[name])} for name in names)
    return _InOtherBins(convention, theirs, ours)


def _add(a: BinSums, b: BinSums) -> BinSums:
    return type(a)(a.count + b.count, a.confidence + b.confidence, a.correct + b.correct)


def _metrics_table(found: Evaluation) -> Table:
    from rich.table import Table

    table = Table("metric")
    table.add_column("value", justify="right", no_wrap=True)
    if found.intervals:
        table.add_column(f"{100 * (found.level or 0):g}% interval", no_wrap=True)
    table.add_column("reading")
    group = None
    for name, value in found.values.items():
        if group not in (None, METRICS[name].group):
            table.add_section()
        group = METRICS[name].group
        interval = written_interval(found.intervals.get(name), partial(written, name))
        metric = describe_metric(name, found.of)
        cells = [written(name, value), interval, metric.reading]
        table.add_row(metric.heading, *(cells if found.intervals else cells[::2]))
    return table


def _write_report(source: Path, out: Path, settings: dict[str, Any], reading: dict[str, Any]) -> None:
    with spinner("writing the report"):
        from focalcal.report import write_report

        write_report([source], out, command=command_line(), reading=reading, **settings)
    note(f"Wrote {out}.")
